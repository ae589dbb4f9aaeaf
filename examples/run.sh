#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is needed, builds, and trains on Fashion-MNIST. Options go to the trainer; see --help.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
start=$PWD
cd "$root"

tests/setup.sh

quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "examples/run.sh: '$*' failed; its output is above." >&2
    exit 1
  fi
  rm -f "$log"
}

[ -f build/release/build.ninja ] || quietly cmake --preset release
echo "Building; this takes a few minutes the first time."
quietly cmake --build --preset release --target fashion

cd "$start"
exec "$root/build/release/examples/fashion" "$@"
