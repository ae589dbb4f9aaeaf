#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a few steps on 2 ranks, kills one of them in the middle, and lets the launcher restart the
# job from its checkpoints: the last line, a checksum of all parameters, must be that of a run that
# nobody disturbed.
#   restarts_test.sh FASHION SHAMPOORUN [DATA]
set -euo pipefail
fashion=$1 shampoorun=$2 data=${3:-/usr/share/datasets/fashion-mnist}
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$folder"' EXIT
arguments=(--steps 10 --optimizer shampoo --block 128 --refresh 3 --threads 1 --schedule one_cycle --ema 0.9
  --output "$folder/chart.png" --data "$folder")

# The first 1024 images of each file, for time: four steps an epoch.
shorten() {
  { printf '\0\0\10\'"$2"'\0\0\4\0'; zcat "$data/$1.gz" | tail -c +9 | head -c "$3"; } \
    > "$folder/$1" || true
}
for part in train t10k; do
  shorten $part-images-idx3-ubyte 3 $((8 + 28 * 28 * 1024))
  shorten $part-labels-idx1-ubyte 1 1024
done

checksum() { grep -E '^(.*: *)?checksum [0-9a-f]{16}$' "$1" | tail -n 1 | grep -oE 'checksum .*'; }

fail() {
  cat "$folder/$1"
  echo "$1: $2"
  exit 1
}

compare() {
  local found
  found=$(checksum "$folder/$1") || fail "$1" "no checksum"
  echo "$1: $found"
  [[ $found == "$expected" ]] || fail "$1" "differs from $expected"
}

# All processes below one.
descendants() {
  local child
  for child in $(ps -o pid= --ppid "$1"); do
    echo "$child"
    descendants "$child"
  done
}

# Kills a rank of the launcher's job as soon as the checkpoint of step 4 is there.
kill_a_rank() {
  local pid
  while [[ ! -e $folder/$1.saved/Shampoo/step-4 ]]; do
    kill -0 "$2" 2> /dev/null || return 0
    sleep 0.02
  done
  for pid in $(descendants "$2"); do
    [[ $(readlink "/proc/$pid/exe") == "$fashion" ]] || continue
    kill -KILL "$pid" && return 0
  done
}

# Runs the launcher on the trainer: interrupted NAME COMMAND...
interrupted() {
  local name=$1 launcher base
  shift
  "$@" "$fashion" "${arguments[@]}" --checkpoint "$folder/$name.saved" --every 2 --keep 2 --resume \
    > "$folder/$name" 2>&1 &
  launcher=$!
  kill_a_rank "$name" $launcher
  wait $launcher || fail "$name" "failed"
  grep -q "goes on after step" "$folder/$name" || fail "$name" "was not interrupted"
  compare "$name"
  # The last two, and the one that the run went on from.
  base=step-$(grep -oE "goes on after step [0-9]+" "$folder/$name" | tail -n 1 | grep -oE '[0-9]+')
  [[ $(ls "$folder/$name.saved/Shampoo") == $(printf '%s\n' step-10 step-8 "$base" | sort -u) ]] ||
    fail "$name" "left $(ls "$folder/$name.saved/Shampoo")"
}

fashion=$(realpath "$fashion")
"$shampoorun" --nproc-per-node 2 "$fashion" "${arguments[@]}" > "$folder/undisturbed" 2>&1 ||
  fail undisturbed "failed"
expected=$(checksum "$folder/undisturbed")
echo "undisturbed: $expected"
for chart in chart chart-rates; do
  [[ $(head -c 4 "$folder/$chart.png" | tail -c 3) == PNG ]] || fail undisturbed "drew no $chart.png"
done

interrupted shampoorun "$shampoorun" --nproc-per-node 2 --max-restarts 2
# torchrun 1.13 on Python 3.11 stumbles over its default of -r and -t.
for torchrun in /usr/bin/torchrun ${SHAMPOO_TORCH_PYTHON:+"$(dirname "$SHAMPOO_TORCH_PYTHON")/torchrun"}; do
  if [[ -x $torchrun ]]; then
    rm -rf "$folder/torchrun.saved"
    interrupted torchrun "$torchrun" --no_python -r 9:1 -t 9:1 --monitor_interval 0.2 \
      --nproc_per_node 2 --max_restarts 2 --log_dir "$folder" --rdzv_backend c10d --rdzv_endpoint localhost:0
  else
    echo "torchrun: skipped, $torchrun is not there"
  fi
done
