#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the CUDA backend on this machine's GPU, and prints one table in Markdown:
#   tests/bench/cuda_table.sh [FOLDER [SECONDS]] > table.md
# FOLDER has step_benchmark and root_benchmark (default: build/cuda/tests), built before, for example by
#   cmake --build --preset cuda --target step_benchmark root_benchmark
# All rows together take at most SECONDS (default: 500) and a few more. A row that fails or hangs says
# FAILED and why; the others follow, and the exit status is 1. Its output goes to standard error.
# ROW_SECONDS=20 allows no row more.
#
# plain step      median of 27 whole steps without a refresh, with fresh gradients; floor: what the
#                 same arithmetic takes at the rates of this GPU, where they are known (prediction/device_model.cpp);
#                 calls: of the backend
# refresh step    median of 3 steps that refresh all roots
# phase, floor    parts of the plain step of gpt2-124m in bfloat16, from steps of their own, beside what
#                 `step_benchmark --predict` says of them; their bounds
# roots           median of refreshes of factors by one solver; error: the largest of a root, relative
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/timed_rows.sh
. tests/timed_rows.sh

stop() {
  echo "cuda_table.sh: $*" >&2
  exit 1
}

programs=${1:-build/cuda/tests}
for program in nvidia-smi python3 timeout "$programs/step_benchmark" "$programs/root_benchmark"; do
  command -v "$program" > /dev/null || stop "$program is missing."
done

# rows WHAT SECONDS PYTHON COMMAND...: PYTHON prints the rows from r, the command's JSON.
rows() {
  local what=$1 seconds=$2 python=$3 text
  shift 3
  if attempt "$seconds" "$@"; then
    if text=$(python3 -c "
import json, sys
r = json.load(open(sys.argv[1]))
def row(what, ms, floor=None, note=''):
    bound = ['', ''] if floor is None else ['%.3f' % floor, '%.2f' % (ms / floor)]
    print('|', ' | '.join([what, '%.3f' % ms] + bound + [note]), '|')
what = sys.argv[2]
$python" "$output" "$what" 2> "$output.errors"); then
      echo "$text"
      return
    fi
    cause="its output has no $(tail -n 1 "$output.errors" | tr '|' '/')"
  fi
  echo "| $what | FAILED | | | $cause |"
  fail_row "$what"
}

# steps WHAT SECONDS MODEL TYPE GROUPS [OPTION...]
steps() {
  # shellcheck disable=SC2016
  rows "$1" "$2" '
row("plain step, " + what, r["plain_ms"], r.get("floor_ms", {}).get("total"), "%d calls" % r["launches_per_step"])
row("refresh step, " + what, r["refresh_ms"])
for phase, ms in r.get("phases_ms", {}).items():
    guess = r.get("predicted_ms", {}).get(phase)
    row("phase " + phase, ms, note="" if guess is None else "predicted: %.3f" % guess)
for phase, ms in r.get("floor_ms", {}).items() if "phases_ms" in r else []:
    row("floor of " + phase, ms)' \
    "$programs/step_benchmark" --backend cuda --solver minimax --model "tests/models/$3.json" \
    --type "$4" --groups "$5" --json "${@:6}"
}

# roots SOLVER ORDER [OPTION...]
roots() {
  # shellcheck disable=SC2016
  rows "230 roots of order $2, side 1024, $1" 60 \
    'row(what, r["ms"], note="error %.1e, %d failed" % (r["error"], r["failed"]))' \
    "$programs/root_benchmark" --backend cuda --solver "$1" --root "$2" --side 1024 --count 230 "${@:3}"
}

start_rows "${2:-500}"
echo "| $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1), commit" \
  "$(git -c safe.directory='*' rev-parse --short HEAD 2> /dev/null || echo unknown)" \
  "| ms | floor ms | ms / floor | |"
echo "|---|---|---|---|---|"
steps "gpt2-124m, bfloat16, 1 group" 60 gpt2-124m bfloat16 1 --phases
roots minimax 4
steps "gpt2-124m, bfloat16, 28 groups" 40 gpt2-124m bfloat16 28
steps "gpt2-124m, bfloat16, a group per tensor" 40 gpt2-124m bfloat16 0
steps "gpt2-124m, float32, 1 group" 60 gpt2-124m float32 1
roots minimax 2
roots minimax_accurate 4
roots eigen 4 --repeats 1
steps "llama-1.3b, bfloat16, 1 group" 120 llama-1.3b bfloat16 1
steps "llama-1.3b, float32, 1 group" 120 llama-1.3b float32 1
end_rows
