#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is needed, builds, and trains with Shampoo, SOAP, Muon and AdamW: a small network on
# Fashion-MNIST, or a small GPT-2 on the King James Bible.
#   run.sh [gpt] [ARGUMENTS]   arguments go to the trainer; try examples/run.sh gpt --help
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
example=fashion
if [[ ${1:-} == gpt ]]; then
  example=gpt
  shift
fi

fail() {
  echo "examples/run.sh: $1" >&2
  exit 1
}

"$root/tests/setup.sh" build

cd "$root"
# A build folder may have been configured without examples.
if [[ ! -f $build/build.ninja ]] || ! grep -q "^SHAMPOO_EXAMPLES:BOOL=ON" "$build/CMakeCache.txt"; then
  log=$(cmake --preset release -DSHAMPOO_EXAMPLES=ON 2>&1) ||
    { echo "$log" >&2; fail "cmake --preset release failed."; }
fi
cmake --build --preset release --target $example || fail "the build failed."
cd "$OLDPWD"

arguments=(--output "$build/$example.png")
if [[ $example == gpt ]]; then
  text=$build/examples/bible.txt
  # One verse per line, without its number.
  [[ -s $text ]] || bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' > "$text"
  arguments+=(--text "$text")
fi
exec "$build/examples/$example" "${arguments[@]}" "$@"
