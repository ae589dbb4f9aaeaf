#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is needed, builds, and trains a small network on Fashion-MNIST with Shampoo, SOAP,
# Muon and AdamW. Arguments go to the trainer; try examples/run.sh --help.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release

fail() {
  echo "examples/run.sh: $1" >&2
  exit 1
}

"$root/tests/setup.sh" build

cd "$root"
if [[ ! -f $build/build.ninja ]]; then
  log=$(cmake --preset release 2>&1) || { echo "$log" >&2; fail "cmake --preset release failed."; }
fi
cmake --build --preset release --target fashion || fail "the build failed."
cd "$OLDPWD"

exec "$build/examples/fashion" --output "$build/fashion.png" "$@"
