#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder of a CUDA toolkit that can build the cuda preset:
#   cmake --preset cuda -DCMAKE_CUDA_COMPILER="$(tests/setup_cuda.sh)/bin/nvcc"
# That is an installed one, of CUDACXX, of nvcc on the PATH or in /usr/local/cuda, if it is CUDA 13 or
# later and has cuBLAS, cuSOLVER and NCCL; otherwise one made of PyPI's wheels (tests/cuda_packages.txt),
# which takes python3-venv, a network and 1.5 GB.
#   tests/setup_cuda.sh [--wheels] [FOLDER]
# FOLDER, build/cuda-toolkit unless given, gets the wheels; --wheels passes over installed toolkits.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

stop() {
  echo "setup_cuda: $*" >&2
  exit 1
}

wheels_only=
if [[ ${1-} == --wheels ]]; then
  wheels_only=yes
  shift
fi
(($# <= 1)) && [[ ${1-} != -* ]] || stop "usage: tests/setup_cuda.sh [--wheels] [FOLDER]"
folder=$(realpath -m "${1:-$here/../build/cuda-toolkit}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Compiles and links what needs every header and library. $1: nvcc; its words go to standard error.
works() {
  cat > "$scratch/probe.cu" << 'PROBE'
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include <cub/version.cuh>

static_assert(CUDART_VERSION >= 13000, "CUDA 13 or later");
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0), "NCCL 2.19 or later");

__global__ void fill(int* numbers) { numbers[threadIdx.x] = 1; }

int main() {
  int nccl = 0, solver = 0;
  fill<<<1, 1>>>(nullptr);
  nvtxMarkA("probe");
  return ncclGetVersion(&nccl) + cusolverGetVersion(&solver) +
         static_cast<int>(cublasGetCudartVersion() + cublasLtGetVersion());
}
PROBE
  "$1" -arch=sm_90 -cudart shared -o "$scratch/probe" "$scratch/probe.cu" \
    -lcublasLt -lcublas -lcusolver -lnccl >&2
}

# An nvcc that is a link or a wrapper knows best where its toolkit is.
root_of() {
  "$1" --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p' | head -n 1
}

if [[ ! $wheels_only ]]; then
  for nvcc in "${CUDACXX-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [[ -x $nvcc ]] || continue
    root=$(root_of "$nvcc") && root=$(realpath -e "$root") || continue
    if works "$nvcc"; then
      echo "$root"
      exit 0
    fi
    echo "setup_cuda: $root cannot compile and link with all that is needed" >&2
  done
fi

if ! cmp -s "$here/cuda_packages.txt" "$folder/packages.txt"; then
  [[ ! -e $folder || -e $folder/packages.txt ]] || stop "$folder is there, and is no toolkit of mine"
  command -v python3 > /dev/null || stop "python3 is missing"
  echo "setup_cuda: making a toolkit of PyPI's wheels in $folder" >&2
  python3 -m venv "$scratch/python" >&2 || stop "no virtual environment; on Debian it needs python3-venv"
  part="$folder.part"
  rm -rf "$part"
  mkdir -p "$part"
  "$scratch/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --target "$part/wheels" -r "$here/cuda_packages.txt" >&2 ||
    stop "pip could not install the wheels; its message is above"
  for kind in bin include lib nvvm; do
    mkdir -p "$part/$kind"
    for wheel in "$part"/wheels/nvidia/*/; do
      [[ ! -d $wheel$kind ]] || cp -al "$wheel$kind/." "$part/$kind/"
    done
  done
  rm -rf "$part/wheels/nvidia"
  ln -s lib "$part/lib64"
  # Wheels hold no names for the linker.
  for library in "$part"/lib/lib*.so.*; do
    name=$(basename "$library")
    [[ -e $part/lib/${name%%.so.*}.so ]] || ln -s "$name" "$part/lib/${name%%.so.*}.so"
  done
  cp "$here/cuda_packages.txt" "$part/packages.txt"
  rm -rf "$folder"
  mv "$part" "$folder"
fi
works "$folder/bin/nvcc" || stop "the toolkit in $folder does not work; the compiler's message is above"
echo "$folder"
