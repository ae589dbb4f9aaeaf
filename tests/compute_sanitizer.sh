#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the CUDA backend under compute-sanitizer's memcheck, racecheck and initcheck.
# Needs a GPU and the preset cuda, built:
#   tests/compute_sanitizer.sh [build folder] [GoogleTest filter]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/cuda}
filter=${2:-*cuda*}

stop() {
  echo "compute_sanitizer.sh: $*" >&2
  exit 1
}

command -v compute-sanitizer > /dev/null || stop "compute-sanitizer is not on the PATH."
mapfile -t programs < <(find "$build/tests" -name '*_test' -type f -perm -u+x | sort)
((${#programs[@]} > 0)) || stop "there are no tests in $build; build the preset cuda first."

ran=0
for program in "${programs[@]}"; do
  tests=$("$program" --gtest_list_tests --gtest_filter="$filter" 2> /dev/null) || continue
  [[ -n $tests ]] || continue
  for tool in memcheck racecheck initcheck; do
    echo "compute_sanitizer.sh: $tool on ${program#"$build/tests/"}"
    SHAMPOO_REQUIRE_CUDA=1 compute-sanitizer --tool "$tool" --error-exitcode 9 --target-processes all \
      "$program" --gtest_filter="$filter" --gtest_brief=1 || stop "$tool failed on $program."
    ran=$((ran + 1))
  done
done
((ran > 0)) || stop "no test matches $filter."
echo "compute_sanitizer.sh: $ran runs, all clean"
