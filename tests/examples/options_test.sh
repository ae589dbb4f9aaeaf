#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What programs refuse before they begin: each with status 2 and a line that names the option and
# what it accepts.
#   options_test.sh GPT FASHION
set -euo pipefail
gpt=$1 fashion=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
seq 60000 > "$folder/text"
cp "$folder/text" "$folder/table.txt"

# refused WORDS PROGRAM ARGUMENTS...
refused() {
  local words=$1 status=0
  shift
  "$@" > "$folder/out" 2>&1 || status=$?
  if ((status != 2)) || ! grep -qF -- "$words" "$folder/out"; then
    cat "$folder/out"
    echo "options_test.sh: ${*:2}: status $status, not 2 with: $words"
    exit 1
  fi
}

for option in rate embedding-rate weight-decay clip beta2 target; do
  for number in nan inf -1; do
    refused "--$option: a finite number from 0 on is needed, got $number" \
      "$gpt" --text "$folder/text" --$option=$number --output "$folder/chart.png"
  done
done
for name in table.txt x.jpg; do
  refused "--output: a name that ends in .png is needed" \
    "$gpt" --text "$folder/text" --output "$folder/$name"
done
cmp "$folder/text" "$folder/table.txt"

refused "--checkpoint: one seed and one rate are needed" \
  "$gpt" --text "$folder/text" --checkpoint "$folder/saved" --seeds 2 --output "$folder/chart.png"
for program in "$gpt --text $folder/text" "$fashion"; do
  refused "--precision: fp8 not in {" $program --precision fp8
done

for number in 18446744073709551616 -1 1x; do
  refused "--seed: an integer from 0 to 18446744073709551615 is needed, got $number" \
    "$fashion" --seed=$number
done
for option in rate clip; do
  for number in 1e30 inf nan 0; do
    refused "--$option: a number above 0 and below 1e9 is needed, got $number" \
      "$fashion" --$option $number
  done
done

# Trained, and told to nobody.
"$gpt" --text "$folder/text" --optimizer adamw --layers 1 --width 8 --heads 1 --context 8 --batch 2 \
  --steps 2 --sample 0 --output "$folder/chart.png" > /dev/full 2> "$folder/errors" &&
  { echo "options_test.sh: the output was lost, which is no error"; exit 1; }
grep -qx "gpt: standard output cannot be written" "$folder/errors" || { cat "$folder/errors"; exit 1; }
