#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers and lets all of them run for about so many seconds in all, as many at a time as
# there are processors; what they learn stays in build/fuzz/learnt for the next run. Ends with 1,
# and leaves the inputs in build/fuzz/faults, if they find something.
#   tests/fuzz/run.sh SECONDS [name of a target ...]
# A fault becomes a test of every build when its input is moved to tests/fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stop() {
  echo "tests/fuzz/run.sh: $*" >&2
  exit 1
}

[[ ${1:-} =~ ^[1-9][0-9]*$ ]] || stop "usage: tests/fuzz/run.sh SECONDS [name of a target ...]"
total=$1
shift
targets=("$@")
if ((${#targets[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" .cpp)"); done
fi
[[ -f build/fuzz/build.ninja ]] || cmake --preset fuzz > /dev/null || stop "CMake failed."
cmake --build build/fuzz --target "${targets[@]}" || stop "the build failed."

lanes=$(nproc)
((lanes <= ${#targets[@]})) || lanes=${#targets[@]}
export seconds=$((total * lanes / ${#targets[@]}))
((seconds > 0)) || seconds=1
mkdir -p build/fuzz/faults build/fuzz/logs
# One target writes a file per input.
[[ ! -w /dev/shm ]] || export TMPDIR=/dev/shm

fuzz() {
  local target=$1
  mkdir -p "build/fuzz/learnt/$target"
  # Longer inputs only repeat; what takes 5 seconds or 512 MiB is a fault.
  "build/fuzz/tests/fuzz/$target" "build/fuzz/learnt/$target" "tests/fuzz/corpus/$target" \
    -max_total_time="$seconds" -max_len=4096 -timeout=5 -rss_limit_mb=512 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/faults/$target-" \
    > "build/fuzz/logs/$target" 2>&1
}
export -f fuzz

status=0
printf '%s\n' "${targets[@]}" | xargs -P "$lanes" -I{} bash -c 'fuzz {}' || status=1
for target in "${targets[@]}"; do
  awk -v target="$target" '
    /inline 8-bit/ { match($0, /[0-9]+ inline/); edges = substr($0, RSTART, RLENGTH - 7) }
    match($0, /cov: [0-9]+/) { covered = substr($0, RSTART + 5, RLENGTH - 5) }
    match($0, /corp: [0-9]+/) { inputs = substr($0, RSTART + 6, RLENGTH - 6) }
    /stat::number_of_executed_units/ { executions = $2 }
    /ERROR|SUMMARY/ { fault = fault "\n  " $0 }
    END { printf "%-24s %10d executions, %5d of %5d edges, %4d inputs%s\n",
      target, executions, covered, edges, inputs, fault }' "build/fuzz/logs/$target"
done
((status == 0)) || stop "FAILED; inputs are in build/fuzz/faults, reports in build/fuzz/logs"
