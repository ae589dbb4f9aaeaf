#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of tests/packages.txt that are missing; does nothing if none is.
#   tests/setup.sh         all of them
#   tests/setup.sh build   without those that only tests need
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

stop() {
  echo "setup: $*" >&2
  exit 1
}

case $* in
  '') last='$' ;;
  build) last='/^# Beyond the build/' ;;
  *) stop "unknown argument: $*; usage: tests/setup.sh [build]" ;;
esac
mapfile -t wanted < <(sed -n "1,${last}p" "$here/packages.txt" |
  sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d')
((${#wanted[@]} > 0)) || stop "tests/packages.txt names no package."
command -v dpkg-query > /dev/null || stop "this is not Debian; install by hand: ${wanted[*]}."

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
((${#missing[@]} > 0)) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo > /dev/null || stop "neither root nor sudo; as root: apt-get install ${missing[*]}"
  # Without a terminal nobody can type a password.
  if [[ -t 0 ]]; then as_root=(sudo); else as_root=(sudo -n); fi
  "${as_root[@]}" true || stop "sudo refuses; as root: apt-get install ${missing[*]}"
fi
command -v apt-get > /dev/null || stop "apt-get is missing; install by hand: ${missing[*]}."

echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get -qq update < /dev/null ||
  stop "the Debian package lists cannot be fetched; is there a network?"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -qq install -y --no-install-recommends "${missing[@]}" < /dev/null > /dev/null ||
  stop "apt-get could not install ${missing[*]}."
