#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the CUDA backend on this machine's GPU and writes a table in Markdown:
#   tests/bench/cuda_table.sh [build folder] > table.md
# Builds the preset cuda for that GPU unless a build folder is given.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stop() {
  echo "cuda_table.sh: $*" >&2
  exit 1
}

command -v nvidia-smi > /dev/null || stop "nvidia-smi is missing; is there a GPU and its driver?"
command -v python3 > /dev/null || stop "python3 is missing."
build=${1:-}
if [[ -z $build ]]; then
  build=build/cuda
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  {
    cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES="$capability-real"
    cmake --build --preset cuda --target step_benchmark root_benchmark
  } >&2 || stop "the preset cuda could not be built."
fi

row() { python3 -c "$1" "${@:2}"; }

echo "* $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)"
echo "* $(nvcc --version | tail -n 1)"
echo "* commit $(git -c safe.directory='*' rev-parse --short HEAD)"
echo
echo "| model | type | groups | plain ms | floor ms | plain / floor | refresh ms | launches |"
echo "|---|---|---|---|---|---|---|---|"
for model in gpt2-124m llama-1.3b; do
  for type in bfloat16 float32; do
    for groups in 1 28 0; do
      "$build/tests/step_benchmark" --backend cuda --solver minimax --model "$model" --type "$type" \
        --groups "$groups" --json | row '
import json, sys
r = json.load(sys.stdin)
floor = r["floor_ms"]["total"]
print("| {} | {} | {} | {:.3f} | {:.3f} | {:.2f} | {:.2f} | {} |".format(
    r["model"], r["type"], r["groups"], r["plain_ms"], floor, r["plain_ms"] / floor,
    r["refresh_ms"], r["launches_per_step"]))'
    done
  done
done
echo
echo "| phase of gpt2-124m, bfloat16 | ms |"
echo "|---|---|"
"$build/tests/step_benchmark" --backend cuda --solver minimax --model gpt2-124m --type bfloat16 \
  --phases --json | row '
import json, sys
r = json.load(sys.stdin)
for phase, ms in r["phases_ms"].items():
    print("| {} | {:.3f} |".format(phase, ms))
for phase, ms in r["floor_ms"].items():
    print("| floor: {} | {:.3f} |".format(phase, ms))'
echo
echo "| solver | root | factors | side | ms | error |"
echo "|---|---|---|---|---|---|"
for solver in minimax minimax_accurate eigen; do
  for root in 4 2; do
    "$build/tests/root_benchmark" --backend cuda --solver "$solver" --root "$root" --side 1024 \
      --count 230 | row '
import json, sys
r = json.load(sys.stdin)
print("| {} | {:.0f} | {} | {} | {:.2f} | {:.1e} |".format(
    r["solver"], r["root"], r["count"], r["side"], r["ms"], r["error"]))'
  done
done
