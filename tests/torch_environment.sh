#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with PyPI's current PyTorch in a folder, for the conformance tests:
#   eval "$(tests/torch_environment.sh FOLDER)" && tests/run.sh -L conformance
# PYTHON is the interpreter, python3 if not set. Needs a network and 6 GB; no GPU.
set -euo pipefail

stop() {
  echo "torch_environment: $*" >&2
  exit 1
}

(($# == 1)) || stop "usage: tests/torch_environment.sh FOLDER"
"${PYTHON:-python3}" -m venv "$1" >&2 || stop "no virtual environment; on Debian it needs python3-venv."
folder=$(cd "$1" && pwd)
"$folder/bin/python" -m pip install --quiet --upgrade torch numpy >&2 ||
  stop "pip could not install torch and numpy; its message is above."
"$folder/bin/python" -c 'import torch.distributed; torch.distributed.TCPStore' ||
  stop "the new PyTorch does not work."
printf 'export SHAMPOO_TORCH_PYTHON=%q\n' "$folder/bin/python"
