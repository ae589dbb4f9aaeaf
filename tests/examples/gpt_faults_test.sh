#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A GPT in a slab of bfloat16 through faults: ranks that are killed, another number of ranks every
# ten steps, and gradients that are not finite. The last line of a run is a checksum of all values,
# and every rank computes the whole batch, so that it does not depend on their number.
#   gpt_faults_test.sh GPT SHAMPOORUN
set -euo pipefail
gpt=$(realpath "$1") shampoorun=$2
folder=$(mktemp -d)
trap 'pkill -KILL -f -- "$folder/" || true; rm -rf "$folder"' EXIT
seq 60000 > "$folder/text"
size=(--text "$folder/text" --layers 2 --width 32 --context 16 --batch 4 --precision bf16 --replicate
  --optimizer shampoo --threads 1 --sample 0 --evaluate 1000000 --output "$folder/chart.png")

fail() {
  cat "$folder/out"
  echo "gpt_faults_test.sh: $*"
  exit 1
}

# train RANKS ARGUMENTS...
train() {
  local ranks=$1
  shift
  "$shampoorun" --nproc-per-node "$ranks" --max-restarts 9 "$gpt" "${size[@]}" "$@" \
    > "$folder/out" 2>&1 || fail "$ranks ranks $*: failed"
  sum=$(grep -E '^checksum [0-9a-f]{16}$' "$folder/out") || fail "no checksum"
}

# Where the run began or went on.
expect_start() {
  grep -m 1 'validation loss' "$folder/out" | grep -q "step *$1 " || fail "not from step $1 on"
}

expect_sum() { [[ $sum == "$1" ]] || fail "$2: $sum, not $1"; }

worlds=(1 2 3 4 8)
total=$((10 * ${#worlds[@]}))
train 1 --steps $total
expected=$sum
for i in "${!worlds[@]}"; do
  train "${worlds[i]}" --steps $total --until $((10 * (i + 1))) --checkpoint "$folder/worlds"
  expect_start $((10 * i))
done
expect_sum "$expected" "${worlds[*]} ranks"
echo "row 9: ${#worlds[@]} worlds (${worlds[*]}), ten steps each: the bits of one rank"

# The latest step that was saved.
latest() {
  find "$folder/killed/shampoo" -maxdepth 1 -regex '.*/step-[0-9]+' -printf '%f\n' 2> /dev/null |
    sort -V | tail -n 1 || true  # others vanish meanwhile
}

"$shampoorun" --nproc-per-node 3 --max-restarts 9 "$gpt" "${size[@]}" --steps 1000000 \
  --checkpoint "$folder/killed" --every 5 > "$folder/out" 2>&1 &
launcher=$!
mkdir -p "$folder/killed/shampoo"
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
train 2 --steps 1000000 --until $steps --checkpoint "$folder/killed"
expect_start "${last#step-}"
found=$sum
train 1 --steps 1000000 --until $steps
expect_sum "$found" "after 3 kills"
echo "row 1: 3 kills of 3 ranks: the bits of an undisturbed run of $steps steps"

# A step so long that nothing is finite after it.
broken=(--rate 1e30 --warm-up 0 --clip 0 --steps 100)
train 1 "${broken[@]}" --until 1
expected=$sum
for ranks in 1 3; do
  train $ranks "${broken[@]}" --until 20
  expect_sum "$expected" "after skipped steps"
  if "$shampoorun" --nproc-per-node $ranks "$gpt" "${size[@]}" "${broken[@]}" \
    > "$folder/out" 2>&1; then
    fail "20 skipped steps are no error"
  fi
  grep -q "its gradient is not finite; 20 steps in a row" "$folder/out" || fail "words"
done
echo "row 10: infinite gradients are skipped on 1 and 3 ranks, and an error after 20 steps"
