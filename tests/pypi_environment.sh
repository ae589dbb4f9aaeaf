#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with PyPI's current PyTorch and safetensors in a folder, unless it has
# them, for the tests that use them, and prints the variables that name it:
#   eval "$(tests/pypi_environment.sh FOLDER)" && ctest --preset release -R libtorch
# PYTHON is the interpreter, python3 if not set. Downloads 3 GB, takes 6 on the disk; needs no GPU.
set -euo pipefail

stop() {
  echo "pypi_environment: $*" >&2
  exit 1
}

(($# == 1)) || stop "usage: tests/pypi_environment.sh FOLDER"
python=$(realpath -m "$1")/bin/python
# Leaves the modules compiled, whatever the environment says: they are imported many times.
works() {
  PYTHONDONTWRITEBYTECODE='' "$python" -c 'import numpy, safetensors.numpy, torch.distributed.run, xxhash; torch.distributed.TCPStore'
}

if [[ ! -x $python ]] || ! works 2> /dev/null; then
  "${PYTHON:-python3}" -m venv "$1" >&2 || stop "no virtual environment; on Debian it needs python3-venv."
  "$python" -m pip install --quiet --disable-pip-version-check --no-compile --upgrade \
    torch numpy safetensors xxhash >&2 || stop "pip could not install them; its message is above."
  works || stop "what pip installed does not work; the message of Python is above."
fi
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
printf 'export SHAMPOO_TORCH_PYTHON=%q SHAMPOO_SAFETENSORS_PYTHON=%q SHAMPOO_LIBTORCH=%q\n' \
  "$python" "$python" "$packages/torch"
