#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cuda_table.sh and compute_sanitizer.sh with programs and tools that are played: some rows fail, one
# hangs, and the table is whole all the same. kernel_times.py with a played profiler, and
# kernel_resources.py with a played compiler.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/programs" "$scratch/programs/inner"
export PATH=$scratch/bin:$PATH

# play FILE: a program, of the text on standard input.
play() {
  { echo '#!/usr/bin/env bash'; cat; } > "$scratch/$1"
  chmod +x "$scratch/$1"
}

play bin/nvidia-smi <<< 'echo "Played GPU, 1.0"'
play programs/step_benchmark << 'END'
if [[ "$*" == *--predict* ]]; then
  step='{"lines": [{"kernel": "copy", "launches": 1, "ms": 9},
    {"kernel": "ScanTile<float>", "launches": 1, "ms": 0.5}, {"kernel": "product float16", "launches": 2, "ms": 4}]}'
  echo "{\"plain\": $step, \"refresh\": $step}"
  exit
fi
if [[ -n ${FAULTS:-} && "$*" == *"--groups 28"* ]]; then echo "out of | luck" >&2; exit 3; fi
if [[ -n ${FAULTS:-} && "$*" == *llama-1.3b.json*bfloat16* ]]; then trap '' TERM; sleep 600; fi
[[ -e ${*#*--model } || "$*" == *tests/models/*.json* ]] || exit 4
phases=
[[ "$*" != *--phases* ]] || phases=', "phases_ms": {"apply": 0.5}, "predicted_ms": {"apply": 0.25}'
echo '{"plain_ms": 3, "refresh_ms": 80, "floor_ms": {"gram": 1, "total": 2}, "launches_per_step": 7'"$phases}"
END
play programs/root_benchmark << 'END'
if [[ -n ${FAULTS:-} && "$*" == *eigen* ]]; then echo '{"ms": 1}'; exit; fi
echo '{"ms": 12.5, "error": 1e-4, "failed": 0}'
END
for name in a_test inner/b_test; do
  play programs/$name <<< 'echo "Suite."; echo "  OnCuda/cuda"'
done
play programs/none_test <<< ''
play bin/compute-sanitizer << 'END'
echo "========= COMPUTE-SANITIZER"
[[ -n ${FAULTS:-} ]] || exit 0
if [[ "$*" == *racecheck*a_test* ]]; then echo "========= Error: a race | here"; exit 9; fi
if [[ "$*" == *synccheck*b_test* ]]; then trap '' TERM; sleep 600; fi
exit 0
END

# expect COUNT REGEX FILE: so many lines of the file match.
expect() {
  local count
  count=$(grep -c -E -e "$2" "$scratch/$3" || true)
  [[ $count == "$1" ]] && return
  echo "$3 has $count lines of '$2', not $1:"
  cat "$scratch/$3"
  touch "$scratch/failed"
} >&2

# run STATUS NAME COMMAND...: standard output to NAME, errors to NAME.errors.
run() {
  local status=0 name=$2
  "${@:3}" > "$scratch/$name" 2> "$scratch/$name.errors" || status=$?
  [[ $status == "$1" ]] || echo "exit status $status, not $1" >> "$scratch/$name"
  expect 0 '^exit status' "$name"
  expect 1 '^\|---' "$name"
  expect 0 '^[^|]' "$name"
}

begin=$SECONDS
run 0 table "$here/bench/cuda_table.sh" "$scratch/programs" 120
expect 1 '^\| Played GPU, 1.0, commit [a-z0-9]+ \| ms ' table
expect 6 '^\| plain step, .* \| 3\.000 \| 2\.000 \| 1\.50 \| 7 calls \|$' table
expect 6 '^\| refresh step, .* \| 80\.000 ' table
expect 1 '^\| phase apply \| 0\.500 .* predicted: 0\.250 \|$' table
expect 4 '^\| 230 roots .* \| 12\.500 .* error 1\.0e-04, 0 failed \|$' table
expect 0 FAILED table
run 0 sanitizer "$here/compute_sanitizer.sh" "$scratch/programs" '*' 120
expect 8 '^\| (mem|race|sync|init)check \| [ab]_test \| 1 \| [0-9]+ \| clean \|$' sanitizer
expect 10 . sanitizer

export FAULTS=1 ROW_SECONDS=8
run 1 failing_sanitizer "$here/compute_sanitizer.sh" "$scratch/programs" '*' 120 &
sanitizing=$!
run 1 failing_table "$here/bench/cuda_table.sh" "$scratch/programs" 120
wait "$sanitizing"
expect 4 '^\| plain step, ' failing_table
expect 3 '^\| 230 roots .* error ' failing_table
expect 1 "eigen \| FAILED \| \| \| its output has no KeyError: 'error' \|$" failing_table
expect 1 '28 groups \| FAILED \| \| \| status 3: out of / luck \|$' failing_table
expect 1 'llama-1.3b, bfloat16, .* \| FAILED \| \| \| not done after 8 s \|$' failing_table
expect 1 '^out of \| luck$' failing_table.errors
expect 6 '\| clean \|$' failing_sanitizer
expect 1 '^\| racecheck \| a_test .* FAILED: status 9: .*Error: a race / here \|$' failing_sanitizer
expect 1 '^\| synccheck \| b_test .* FAILED: not done after 8 s' failing_sanitizer
run 1 late_table "$here/bench/cuda_table.sh" "$scratch/programs" 0
expect 10 ' \| FAILED \| \| \| no time was left \|$' late_table
((SECONDS - begin < 120)) || { echo "took $((SECONDS - begin)) s" >&2; exit 1; }

if "$here/bench/cuda_table.sh" "$scratch/bin" > "$scratch/absent" 2> "$scratch/absent.errors"; then
  echo "a folder without programs is accepted" >&2
  exit 1
fi
expect 1 'step_benchmark is missing' absent.errors
expect 0 . absent

play bin/ncu << 'END'
{
  echo '==PROF== Connected'
  echo '"ID","Kernel Name","gpu__time_duration.sum"'
  echo '"","","ns"'
  echo '"0","void shampoo::run<shampoo::ReadValues>(T1)","77"'
  for step in 1 2 3; do
    echo '"1","void shampoo::run<shampoo::kernels::ScanTile<float>>(T1)","1,000,000"'
    echo '"2","nvjet_sm90_hss_128x256","2000000"'
    echo '"3","nvjet_sm90_hss_128x256","1000000"'
  done
} | head -n "${LINES_OF_NCU:-99}" > "$2"
END
"$here/bench/kernel_times.py" h100 "$scratch/programs" > "$scratch/kernels"
expect 2 '^\| ScanTile \| 1 \| 1\.000 \| 0\.500 \| 2\.00 \|$' kernels
expect 2 '^\| product \| 2 \| 3\.000 \| 4\.000 \| 0\.75 \|$' kernels
expect 2 '^\| all \| 3 \| 4\.000 \| 4\.500 \| 0\.89 \|$' kernels
if LINES_OF_NCU=10 "$here/bench/kernel_times.py" h100 "$scratch/programs" 2> "$scratch/few_kernels"; then
  echo "steps that are missing are accepted" >&2
  exit 1
fi
expect 1 '2 steps were seen, not 3' few_kernels

# A compiler that finds one kernel as the source says.
play bin/nvcc << 'END'
[[ "$*" != *sm_80* && "$*" != *--warning-as-error* && "$*" == *-arch=sm_90* && "$*" == *-fmad=false* && "$*" == *a.cu* ]] || exit 3
cat >&2 "$(dirname "$0")/../ptxas"
END
# resources STATUS NAME STACK STORES
resources() {
  cat > "$scratch/ptxas" << END
ptxas info    : Compiling entry function '_ZN7shampoo7kernels4cuda3runINS1_9SortBasisEEEvT_' for 'sm_90'
ptxas info    : Function properties for _ZN7shampoo7kernels4cuda3runINS1_9SortBasisEEEvT_
    $3 bytes stack frame, $4 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 112 registers, used 1 barriers, 2048 bytes smem, 9 bytes cmem[0]
END
  run "$1" "$2" "$here/kernel_resources.py" "$scratch"
}
cat > "$scratch/compile_commands.json" << END
[{"directory": "$scratch", "file": "$scratch/a.cpp", "command": "c++ -c $scratch/a.cpp"},
 {"directory": "$scratch", "file": "$scratch/a.cu", "command": "$scratch/bin/nvcc -fmad=false -Xptxas=--warning-as-error \
  --generate-code=arch=compute_80,code=[sm_80] -MD -MT a -MF a.d -x cu -c $scratch/a.cu -o a.o"}]
END
resources 0 registers 0 0
expect 1 '^\| `SortBasis` \| 112 \| 2048 \| 0 \| 0 \|$' registers
resources 1 spilling 0 8
expect 1 '^\| `SortBasis` \| 112 \| 2048 \| 0 \| 8 \|$' spilling
resources 1 stacking 16 0
expect 1 'SortBasis in local memory' stacking.errors
[[ ! -e $scratch/failed ]]
