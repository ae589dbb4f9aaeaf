#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The launcher under valgrind: no invalid access and no lost memory, whether its workers end well,
# fail and are restarted, or are stopped by a signal, and on two nodes.
#   valgrind_test.sh SHAMPOORUN
set -euo pipefail
shampoorun=$1
if ! command -v valgrind > /dev/null; then
  echo "SKIP: no valgrind here"
  exit 0
fi
folder=$(mktemp -d)
trap 'kill -KILL $(jobs -p) 2> /dev/null || true; rm -rf "$folder"' EXIT

# The thread that talks to the other nodes is left behind where the process ends: it may wait for
# the network.
cat > "$folder/suppressions" << 'EOF'
{
  local storage of a thread that is left behind
  Memcheck:Leak
  match-leak-kinds: possible
  ...
  fun:_dl_allocate_tls
  ...
}
{
  its resolver's configuration
  Memcheck:Leak
  match-leak-kinds: definite
  ...
  fun:__resolv_conf_load
  ...
}
EOF

# start NAME ARGUMENTS...: in the background; sets pid
start() {
  valgrind --quiet --error-exitcode=99 --leak-check=full --suppressions="$folder/suppressions" \
    --log-file="$folder/$1.%p" "$shampoorun" "${@:2}" > "$folder/$1" 2>&1 &
  pid=$!
}

# expect NAME PID CODE: it ends so, and neither it nor a child on its way to exec has a complaint
expect() {
  local code=0
  wait "$2" || code=$?
  if [[ $code != "$3" ]] || grep -q . "$folder/$1".*; then
    cat "$folder/$1" "$folder/$1".*
    echo "valgrind_test.sh: $1: code $code, not $3, or a complaint"
    exit 1
  fi
  echo "row 16: $1: code $code, nothing to complain about"
}

start well --nproc-per-node 3 --tee 3 --log-dir "$folder/logs" /bin/echo worker
well=$pid
start failing --nproc-per-node 2 --max-restarts 1 /bin/false
failing=$pid
# shellcheck disable=SC2016  # the worker's variable
start stopped --nproc-per-node 2 /bin/sh -c 'touch "$0/$RANK"; exec sleep 600' "$folder"
stopped=$pid
until [[ -e $folder/0 && -e $folder/1 ]]; do sleep 0.05; done
kill -TERM "$stopped"
expect well "$well" 0
expect failing "$failing" 1
expect stopped "$stopped" 1

port=$((20000 + RANDOM % 10000))
nodes=()
for node in 0 1; do
  start "node $node" --nnodes 2 --node-rank $node --master-addr 127.0.0.1 --master-port $port \
    --nproc-per-node 2 /bin/true
  nodes+=("$pid")
done
for node in 0 1; do expect "node $node" "${nodes[node]}" 0; done
