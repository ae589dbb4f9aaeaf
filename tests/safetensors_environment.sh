#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with PyPI's current safetensors in a folder, for the tests that read
# checkpoints in Python:
#   eval "$(tests/safetensors_environment.sh FOLDER)" && tests/run.sh -R SafetensorsInPython
# PYTHON is the interpreter, python3 if not set. Needs a network and 100 MB.
set -euo pipefail

stop() {
  echo "safetensors_environment: $*" >&2
  exit 1
}

(($# == 1)) || stop "usage: tests/safetensors_environment.sh FOLDER"
"${PYTHON:-python3}" -m venv "$1" >&2 || stop "no virtual environment; on Debian it needs python3-venv."
folder=$(cd "$1" && pwd)
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check safetensors numpy xxhash >&2 ||
  stop "pip could not install safetensors, numpy and xxhash; its message is above."
"$folder/bin/python" -c 'import safetensors.numpy' || stop "the new safetensors does not work."
printf 'export SHAMPOO_SAFETENSORS_PYTHON=%q\n' "$folder/bin/python"
