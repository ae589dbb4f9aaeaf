#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a few steps on 2 ranks under every launcher, and compares the last lines, which are
# checksums of all parameters.
#   launchers_test.sh FASHION SHAMPOORUN MPIEXEC
set -euo pipefail
fashion=$1 shampoorun=$2 mpiexec=$3
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$folder"' EXIT
arguments=(--steps 5 --optimizer shampoo --block 128 --threads 1 --output "$folder/chart.png")

checksum() { grep -E '^checksum [0-9a-f]{16}$' "$1" | tail -n 1; }

compare() {
  local found
  found=$(checksum "$folder/$1") || { cat "$folder/$1"; echo "$1: no checksum"; exit 1; }
  echo "$1: $found"
  [[ -z ${expected:-} || $found == "$expected" ]] || { echo "$1 differs: $expected"; exit 1; }
  expected=$found
}

"$shampoorun" --nproc-per-node 2 "$fashion" "${arguments[@]}" > "$folder/shampoorun" 2>&1 || true
compare shampoorun

"$mpiexec" -n 2 "$fashion" "${arguments[@]}" > "$folder/mpirun" 2>&1 || true
compare mpirun

# torchrun 1.13 on Python 3.11 stumbles over its default of -r and -t, and with --standalone takes a
# port that other jobs may have.
for torchrun in /usr/bin/torchrun ${SHAMPOO_TORCH_PYTHON:+"$(dirname "$SHAMPOO_TORCH_PYTHON")/torchrun"}; do
  if [[ -x $torchrun ]]; then
    "$torchrun" --no_python -r 9:1 -t 9:1 --monitor_interval 0.2 --nproc_per_node 2 \
      --log_dir "$folder" --rdzv_backend c10d --rdzv_endpoint localhost:0 "$fashion" "${arguments[@]}" > "$folder/torchrun" 2>&1 || true
    compare torchrun
  else
    echo "torchrun: skipped, $torchrun is not there"
  fi
done

# srun sets these for each task; the job number leads to a port of its own.
export SLURM_JOB_ID=$((RANDOM % 4096)) SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2
export SLURM_STEP_NODELIST=localhost SLURM_JOB_NODELIST=localhost SLURM_NODEID=0
SLURM_PROCID=1 SLURM_LOCALID=1 "$fashion" "${arguments[@]}" > "$folder/srun1" 2>&1 &
SLURM_PROCID=0 SLURM_LOCALID=0 "$fashion" "${arguments[@]}" > "$folder/srun" 2>&1 || true
wait
compare srun
