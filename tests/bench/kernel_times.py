#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the kernels of a plain step and of a refreshing one by Nsight Compute, on this machine's GPU,
beside what `step_benchmark --predict` says of each, as tables in Markdown:

    tests/bench/kernel_times.py MACHINE [FOLDER [MODEL [TYPE]]]

MACHINE is h100 or h200; FOLDER has step_benchmark (default: build/cuda/tests), MODEL is a name of
tests/models/ (gpt2-124m), TYPE that of its values (bfloat16). Takes a minute: each launch of three
steps is measured by itself. What is predicted has the gap of a launch besides.
"""
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DURATION = "gpu__time_duration.sum"
PROGRAM = re.compile(r"run<(?:\w+::)*(\w+)")


def program_of(kernel):
    """A kernel of this library by its name; all others are a library's products."""
    found = PROGRAM.search(kernel)
    return found.group(1) if found else "product"


def measured_steps(command):
    """{kernel: [launches, ms]} of each step, which begins with ScanTile."""
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch, "launches.csv")
        subprocess.run(
            ["ncu", "--log-file", log, "--csv", "--page", "raw", "--print-units", "base",
             "--clock-control", "none", "--cache-control", "none", "--metrics", DURATION, *command],
            check=True, stdout=subprocess.DEVNULL)
        lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
    steps = []
    for row in csv.DictReader(lines):
        if not row["ID"]:
            continue  # units
        kernel = program_of(row["Kernel Name"])
        if kernel == "ScanTile":
            steps.append({})
        if steps:
            sums = steps[-1].setdefault(kernel, [0, 0.0])
            sums[0] += 1
            sums[1] += float(row[DURATION].replace(",", "")) / 1e6
    return steps


def predicted_kernels(lines):
    """{kernel: [launches, ms]} of a predicted step."""
    kernels = {}
    for line in lines:
        kernel = re.match(r"\w+", line["kernel"]).group()
        if kernel != "copy":
            sums = kernels.setdefault(kernel, [0, 0.0])
            sums[0] += line["launches"]
            sums[1] += line["ms"]
    return kernels


def print_step(name, measured, predicted):
    print(f"| {name} | launches | ms | predicted | measured / predicted |\n|---|---|---|---|---|")
    for kernel in sorted(measured | predicted, key=lambda k: -measured.get(k, [0, 0])[1]):
        launches, ms = measured.get(kernel, [0, 0.0])
        known, guess = predicted.get(kernel, [0, 0.0])
        note = "" if known == launches else f" (predicted: {known})"
        ratio = f"{ms / guess:.2f}" if guess > 0 else ""
        print(f"| {kernel} | {launches}{note} | {ms:.3f} | {guess:.3f} | {ratio} |")
    launches, ms = (sum(sums) for sums in zip(*measured.values()))
    guess = sum(ms for _, ms in predicted.values())
    print(f"| all | {launches} | {ms:.3f} | {guess:.3f} | {ms / guess:.2f} |\n")


def main(machine, folder="build/cuda/tests", model="gpt2-124m", values="bfloat16"):
    for tool in ("ncu", str(pathlib.Path(folder, "step_benchmark"))):
        if not shutil.which(tool):
            sys.exit(f"kernel_times.py: {tool} is missing.")
    command = [str(pathlib.Path(folder, "step_benchmark")), "--solver", "minimax", "--model", model,
               "--type", values, "--json"]
    predicted = json.loads(
        subprocess.run([*command, "--predict", machine], check=True, capture_output=True).stdout)
    steps = measured_steps([*command, "--backend", "cuda", "--frequency", "2", "--steps", "1"])
    if len(steps) != 3:
        sys.exit(f"kernel_times.py: {len(steps)} steps were seen, not 3")
    for name, step in (("plain", steps[2]), ("refresh", steps[1])):
        print_step(name, step, predicted_kernels(predicted[name]["lines"]))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
