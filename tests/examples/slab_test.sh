#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tensors of llm.c through faults: ranks that are killed, another number of ranks every ten
# steps, and gradients that are not finite. The last line of a run is a checksum of all values.
#   slab_test.sh SLAB SHAMPOORUN
set -euo pipefail
slab=$(realpath "$1") shampoorun=$2
folder=$(mktemp -d)
trap 'pkill -KILL -f -- "$folder/" || true; rm -rf "$folder"' EXIT
size=(--layers 2 --width 32 --vocabulary 64 --context 16)

fail() {
  cat "$folder/out"
  echo "slab_test.sh: $*"
  exit 1
}

# train RANKS ARGUMENTS...
train() {
  local ranks=$1
  shift
  "$shampoorun" --nproc-per-node "$ranks" --max-restarts 9 "$slab" "${size[@]}" "$@" \
    > "$folder/out" 2>&1 || fail "$ranks ranks $*: failed"
  sum=$(grep -E '^checksum [0-9a-f]{16}$' "$folder/out") || fail "no checksum"
}

expect_sum() { [[ $sum == "$1" ]] || fail "$2: $sum, not $1"; }

worlds=(1 2 3 4 8)
train 1 --steps $((10 * ${#worlds[@]}))
expected=$sum
for i in "${!worlds[@]}"; do
  train "${worlds[i]}" --steps $((10 * (i + 1))) --checkpoint "$folder/worlds"
  ((i == 0)) || grep -q "goes on after step $((10 * i))$" "$folder/out" || fail "did not go on"
done
expect_sum "$expected" "${worlds[*]} ranks"
echo "row 9: ${#worlds[@]} worlds (${worlds[*]}), ten steps each: the bits of one rank"

# The latest step that was saved.
latest() {
  find "$folder/killed" -maxdepth 1 -regex '.*/step-[0-9]+' -printf '%f\n' 2> /dev/null |
    sort -V | tail -n 1 || true  # others vanish meanwhile
}

"$shampoorun" --nproc-per-node 3 --max-restarts 9 "$slab" "${size[@]}" --steps 1000000 \
  --checkpoint "$folder/killed" --every 5 > "$folder/out" 2>&1 &
launcher=$!
mkdir -p "$folder/killed"
restarts() { grep -c 'next attempt' "$folder/out" || true; }

# Waits until a job after so many restarts has saved again; sets last.
await_save() {
  until (($(restarts) == $1)); do sleep 0.02; done
  last=$(latest)
  while [[ $(latest) == "$last" ]]; do
    kill -0 $launcher 2> /dev/null || fail "the job ended"
    sleep 0.02
  done
  last=$(latest)
}

for kills in 0 1 2; do
  await_save $kills
  # The newest is a rank.
  kill -KILL "$(pgrep -n -f -- "--checkpoint $folder/killed")"
done
await_save 3
kill -TERM $launcher
wait $launcher || true
(($(grep -c 'next attempt: .* failed: SIGKILL' "$folder/out") == 3)) || fail "nobody was killed"
last=$(latest)
steps=$((${last#step-} + 10))
train 2 --steps $steps --checkpoint "$folder/killed"
grep -q "goes on after ${last/-/ }$" "$folder/out" || fail "did not go on"
found=$sum
train 1 --steps $steps
expect_sum "$found" "after 3 kills"
echo "row 1: 3 kills of 3 ranks: the bits of an undisturbed run of $steps steps"

train 1 --steps 1 --noise 2e38
expected=$sum
for ranks in 1 3; do
  train $ranks --steps 19 --noise 2e38
  expect_sum "$expected" "after skipped steps"
  if "$shampoorun" --nproc-per-node $ranks "$slab" "${size[@]}" --steps 20 --noise 2e38 \
    > "$folder/out" 2>&1; then
    fail "20 skipped steps are no error"
  fi
  grep -q "'wte.weight': its gradient is not finite; 20 steps in a row" "$folder/out" || fail "words"
done
echo "row 10: infinite gradients are skipped on 1 and 3 ranks, and an error after 20 steps"
