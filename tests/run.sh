#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up this machine, builds, and runs every test. Arguments go to ctest, and then nothing is
# downloaded from PyPI: tests/run.sh -R golden
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stop() {
  echo "tests/run.sh: $*" >&2
  exit 1
}

tests/setup.sh
[[ -f build/release/build.ninja ]] || cmake --preset release ||
  stop "CMake could not configure the release preset; its message is above."
cmake --build --preset release || stop "the build failed; the compiler's message is above."
if (($# == 0)) && [[ -z ${SHAMPOO_LIBTORCH-} ]]; then
  if variables=$(tests/pypi_environment.sh build/pypi); then
    eval "$variables"
  else
    [[ -z ${SHAMPOO_REQUIRE_TORCH-} ]] || stop "PyPI's PyTorch is missing; the reason is above."
    echo "tests/run.sh: the tests that need PyPI's PyTorch and safetensors are skipped"
  fi
fi
# More than processors: tests spend most of their time waiting for processes and deadlines.
ctest --preset release -j "$((3 * $(nproc)))" "$@"
