#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers, shared memory and spills of every CUDA kernel, as one sorted table in Markdown:

    tests/kernel_resources.py BUILD [ARCHITECTURE]

Compiles the CUDA sources again, for sm_90a unless told otherwise, as BUILD/compile_commands.json says
(preset cuda), a source per processor at a time. Shared memory that a launch asks for, more than 48
KiB, is left out. Fails where a kernel spills registers or has a stack.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

KERNEL = re.compile(
    r"Function properties for (\S+)\n"
    r"\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r"ptxas info\s*: Used (\d+) registers(.*)")
SHARED = re.compile(r"(\d+) bytes smem")
WITH_VALUE = {"-o", "-x", "-MF", "-MT", "-MQ"}
DROPPED = re.compile(r"-c$|-MD$|-arch|--generate-code|-gencode|-Xptxas")


def command_for(entry, architecture, output):
    """The entry's command, for one kind of GPU, with what ptxas says."""
    words = iter(shlex.split(entry["command"]))
    kept = []
    for word in words:
        if word in WITH_VALUE:
            next(words)
        elif not DROPPED.match(word):
            kept.append(word)
    return kept + [f"-arch={architecture}", "-Xptxas=-v", "-cubin", "-o", str(output)]


def compiled(entry, architecture, scratch):
    output = pathlib.Path(scratch) / (pathlib.Path(entry["file"]).stem + ".cubin")
    run = subprocess.run(command_for(entry, architecture, output), cwd=entry["directory"],
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"kernel_resources: {entry['file']} does not compile:\n{run.stderr}")
    return run.stderr + run.stdout


def demangled(names):
    run = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                         check=True)
    return [re.sub(r"^void .*?run<(.*?) ?>\(.*$", r"\1", name.replace("shampoo::kernels::cuda::", ""))
            for name in run.stdout.splitlines()]


def kernels_of(text):
    """(registers, name, shared, stack, spilled) of every kernel, most registers first."""
    found = KERNEL.findall(text)
    rows = []
    for name, (_, stack, stores, loads, registers, rest) in zip(
            demangled([kernel[0] for kernel in found]), found):
        shared = SHARED.search(rest)
        rows.append((int(registers), name, int(shared[1]) if shared else 0, int(stack),
                     int(stores) + int(loads)))
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    architecture = sys.argv[2] if len(sys.argv) == 3 else "sm_90a"
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if entry["file"].endswith(".cu")]
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(lambda entry: compiled(entry, architecture, scratch), entries))
    rows = kernels_of("".join(texts))
    print(f"| {architecture} | registers | shared B | stack B | spilled B |")
    print("|---|---|---|---|---|")
    for registers, name, shared, stack, spilled in rows:
        print(f"| `{name}` | {registers} | {shared} | {stack} | {spilled} |")
    bad = [row[1] for row in rows if row[3] or row[4]]
    if not rows or bad:
        sys.exit(f"kernel_resources: {', '.join(bad)} in local memory" if bad
                 else "kernel_resources: no kernels found")


if __name__ == "__main__":
    main()
