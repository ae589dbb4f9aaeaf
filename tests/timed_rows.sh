# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that print a table in Markdown, of which every row comes from a command that may
# fail or hang: the others are printed all the same, and all of it takes a limited time.
#   start_rows SECONDS          the time for all rows, from now on
#   attempt SECONDS COMMAND...  runs it for at most so long, or for $ROW_SECONDS if that is less, and
#                               leaves its standard output in $output.
#                               If it fails, returns 1 and leaves the cause in $cause
#   fail_row TEXT               notes that a row failed; prints the last lines of $output to standard error
#   end_rows                    exits with 1 if a row failed
# attempt and fail_row may be called in subshells, several at a time.

start_rows() {
  rows_end=$((SECONDS + $1))
  rows_folder=$(mktemp -d)
  trap 'rm -rf "$rows_folder"' EXIT
}

attempt() {
  local limit=$1 left=$((rows_end - SECONDS)) status=0
  shift
  output=$(mktemp -p "$rows_folder")
  cause='no time was left'
  ((left > 0)) || return 1
  ((limit < left)) || limit=$left
  ((limit < ${ROW_SECONDS:-$limit})) || limit=${ROW_SECONDS:-$limit}
  timeout --kill-after=2 "$limit" "$@" > "$output" 2> "$output.errors" < /dev/null || status=$?
  case $status in
    0) return 0 ;;
    124 | 137) cause="not done after $limit s" ;;
    *) cause="status $status: $(tail -n 1 "$output.errors" | tr '|' '/' | cut -c 1-160)" ;;
  esac
  return 1
}

fail_row() {
  {
    echo "FAILED: $1: $cause"
    tail -q -n 30 "$output" "$output.errors" 2> /dev/null || true
  } >&2
  touch "$rows_folder/failed"
}

end_rows() {
  [[ ! -e $rows_folder/failed ]] || exit 1
}
