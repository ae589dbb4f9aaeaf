#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the long forms of tests that CTest runs in a short one, and the fault tests that count, and
# prints a summary. Needs a build: tests/run.sh makes it.
#   tests/long.sh [build folder] [seed]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/release}
seed=${2:-$RANDOM}
logs=$build/long
mkdir -p "$logs"
failed=()

long() {
  local name=$1
  shift
  echo "tests/long.sh: $name: $*"
  local begin=$SECONDS status=0
  timeout --kill-after=30 1800 "$@" > "$logs/$name.log" 2>&1 || status=$?
  grep -E '^(row [0-9]+|soak|link down)' "$logs/$name.log" || true
  echo "tests/long.sh: $name: code $status, $((SECONDS - begin)) s"
  ((status == 0)) || failed+=("$name")
}

# Counts what the rows of one log say: "row 1: 3 kills while averaging; ... within 1.0 s".
count() {
  awk -v row="row $1:" -v what="$2" -v log_name="$3" '
    index($0, row) == 1 { cases += $3; phases += 1
      if (match($0, /within [0-9.]+/)) { t = substr($0, RSTART + 7, RLENGTH - 7) + 0; if (t > most) most = t } }
    END { printf "%s %d %s in %d phases (%s), the slowest end after %.1f s\n", row, cases, what, phases, log_name, most }
  ' "$logs/$3.log"
}

faults=$build/tests/faults
long lost_rank "$faults/lost_rank_test"
[[ ! -x $faults/lost_mpi_rank_test ]] || long lost_mpi_rank "$faults/lost_mpi_rank_test"
[[ ! -x $faults/lost_link_test ]] || long lost_link "$faults/lost_link_test"
long soak "$faults/soak" --kills 50 --seed "$seed"
long soak_checkpoints "$faults/soak" --kills 100 --seed "$seed" --checkpoints yes \
  --steps 200 --kills-per-job 50

echo "tests/long.sh: summary; logs are in $logs"
for log in lost_rank lost_mpi_rank; do
  [[ -f $logs/$log.log ]] || continue
  count 1 kills "$log"
  count 2 stops "$log"
done
grep -h '^link down' "$logs/lost_link.log" || grep -h 'SKIPPED' "$logs/lost_link.log" || true
grep -h '^row 14' "$logs/soak.log" "$logs/soak_checkpoints.log" || true
if ((${#failed[@]} > 0)); then
  echo "tests/long.sh: FAILED: ${failed[*]}" >&2
  exit 1
fi
echo "tests/long.sh: all passed"
