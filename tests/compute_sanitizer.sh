#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the CUDA backend and of NCCL under compute-sanitizer's tools, and prints one table
# in Markdown. Needs a GPU and the tests of the preset cuda, built before:
#   tests/compute_sanitizer.sh [FOLDER [FILTER [SECONDS]]] > table.md
# FOLDER has the programs, at any depth (default: build/cuda/tests); FILTER is GoogleTest's. All rows
# together take at most SECONDS (default: 500) and a few more. A row that fails, or does not end in
# time, says FAILED and why; the others follow, and the exit status is 1. Its output goes to standard
# error. TOOLS="memcheck" takes some of the tools, JOBS=1 runs one program at a time instead of 8,
# ROW_SECONDS=20 allows no row more.
#
# memcheck    accesses out of bounds or misaligned, and of memory that is not yet, or no longer,
#             allocated in the order of the streams; not calls of CUDA that fail, which tests and NCCL
#             ask for
# racecheck   hazards between threads in shared memory
# synccheck   barriers that not all threads reach
# initcheck   reads of device memory that nothing wrote
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tests/timed_rows.sh
. tests/timed_rows.sh

stop() {
  echo "compute_sanitizer.sh: $*" >&2
  exit 1
}

folder=${1:-build/cuda/tests}
filter=${2:-*cuda*:NcclOnOneDevice.*:DeviceQueryOnDevice.*}
read -ra tools <<< "${TOOLS:-memcheck racecheck synccheck initcheck}"

command -v compute-sanitizer > /dev/null || stop "compute-sanitizer is not on the PATH."
mapfile -t programs < <(find "$folder" -name '*_test' -type f -perm -u+x 2> /dev/null | sort)
((${#programs[@]} > 0)) || stop "there are no tests in $folder; build the preset cuda first."

# row TOOL PROGRAM TESTS
row() {
  local begin=$SECONDS name result=clean options=() found
  name=$(basename "$2")
  [[ $1 != memcheck ]] || options=(--track-stream-ordered-races all --report-api-errors no)
  if ! attempt 240 env SHAMPOO_REQUIRE_CUDA=1 compute-sanitizer --tool "$1" "${options[@]}" \
    --error-exitcode 9 --target-processes all "$2" --gtest_filter="$filter" --gtest_brief=1; then
    found=$(grep '^========= ' "$output" | grep -v -m 1 COMPUTE-SANITIZER | tr '|' '/' || true)
    result="FAILED: $cause${found#=========}"
    fail_row "$1 of $name"
  fi
  echo "| $1 | $name | $3 | $((SECONDS - begin)) | $result |"
}

start_rows "${3:-500}"
echo "| tool | program | tests | s | result |"
echo "|---|---|---|---|---|"
declare -A tests
all=0
for program in "${programs[@]}"; do
  if attempt 20 "$program" --gtest_list_tests --gtest_filter="$filter"; then
    tests[$program]=$(grep -c '^  ' "$output" || true)
    all=$((all + tests[$program]))
  else
    echo "| list of tests | $(basename "$program") | | | FAILED: $cause |"
    fail_row "the list of tests of $program"
  fi
done
((all > 0)) || stop "no test matches $filter."
for tool in "${tools[@]}"; do
  for program in "${programs[@]}"; do
    ((${tests[$program]:-0} > 0)) || continue
    while (($(jobs -rp | wc -l) >= ${JOBS:-8})); do wait -n || true; done
    row "$tool" "$program" "${tests[$program]}" &
  done
done
wait
end_rows
