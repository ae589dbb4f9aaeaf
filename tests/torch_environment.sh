#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with PyPI's current PyTorch in a folder:
#   eval "$(tests/torch_environment.sh FOLDER)" && tests/run.sh -L conformance
#   eval "$(tests/torch_environment.sh FOLDER library)" && tests/run.sh -R libtorch
# With `library` only what a C++ program on the CPU needs: 0.6 GB to download in place of 3, 1.3 GB
# on the disk in place of 6. PYTHON is the interpreter, python3 if not set. Needs no GPU.
set -euo pipefail

stop() {
  echo "torch_environment: $*" >&2
  exit 1
}

(($# == 1)) || [[ $# == 2 && $2 == library ]] ||
  stop "usage: tests/torch_environment.sh FOLDER [library]"
"${PYTHON:-python3}" -m venv "$1" >&2 || stop "no virtual environment; on Debian it needs python3-venv."
folder=$(cd "$1" && pwd)
install() {
  "$folder/bin/python" -m pip install --quiet --no-compile --no-warn-conflicts "$@" >&2 ||
    stop "pip could not install $*; its message is above."
}

if (($# == 2)); then
  install --no-deps torch
else
  install --upgrade torch numpy
  "$folder/bin/python" -c 'import torch.distributed; torch.distributed.TCPStore' ||
    stop "the new PyTorch does not work."
  printf 'export SHAMPOO_TORCH_PYTHON=%q\n' "$folder/bin/python"
fi
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
if (($# == 2)); then
  # libtorch_cpu.so needs two libraries of CUDA even where there is no GPU.
  toolkit=$(sed -n 's/^Requires-Dist: cuda-toolkit[^=]*==\([0-9.]*\).*/\1/p' "$packages"/torch-*.dist-info/METADATA)
  [[ -z $toolkit ]] || install "cuda-toolkit[cudart,cupti]==$toolkit"
fi
printf 'export SHAMPOO_LIBTORCH=%q\n' "$packages/torch"
