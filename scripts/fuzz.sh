#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes every target of every package, one after the other: fuzz.sh [NAME...], names as in FuzzNAME or package paths' ends.
# FUZZTIME is each one's time (1m, 30s, or 1000x for so many inputs), FUZZ_PARALLEL how many processes fuzz (default: all CPUs).
# A line each: name, inputs tried, how many of them reached code that none did before. An input that fails is kept in the
# package's testdata/fuzz, where from then on `go test` tries it: commit it with the mending.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${FUZZTIME:-1m}
parallel=${FUZZ_PARALLEL:-$(nproc)}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# "PACKAGE NAME" of each; go prints a package's names before its "ok" line.
if ! listed=$("$go" test -list '^Fuzz' ./... 2>&1); then
  printf '%s\n' "$listed" >&2
  exit 1
fi
targets=$(awk '/^Fuzz/ { names[n++] = $1 } $1 == "ok" { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' <<<"$listed")

wanted() { # PACKAGE NAME ARGUMENT...
  local pkg=$1 name=$2
  shift 2
  [ $# = 0 ] && return
  for a; do
    if [ "$a" = "$name" ] || [ "Fuzz$a" = "$name" ] || [[ $pkg == */"$a" ]]; then return; fi
  done
  return 1
}

ran=0
failed=0
printf '%-40s %12s %8s\n' target inputs new
while read -r pkg name; do
  if [ -z "$name" ] || ! wanted "$pkg" "$name" "$@"; then continue; fi
  ran=$((ran + 1))
  short=${pkg#*/*/*/}.$name
  status=0
  # Inputs are made smaller for a while only: by default each new one can take a minute of it.
  "$go" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 1000x -parallel "$parallel" "$pkg" >"$out" 2>&1 </dev/null || status=$?
  read -r inputs new < <(awk '/execs: / { match($0, /execs: [0-9]+/); e = substr($0, RSTART + 7, RLENGTH - 7) }
    /new interesting: / { match($0, /new interesting: [0-9]+/); i = substr($0, RSTART + 17, RLENGTH - 17) }
    END { print (e == "" ? "-" : e), (i == "" ? "-" : i) }' "$out") || true
  if [ $status = 0 ]; then
    printf '%-40s %12s %8s\n' "$short" "$inputs" "$new"
    continue
  fi
  failed=$((failed + 1))
  printf '%-40s %12s %8s  FAILED\n' "$short" "$inputs" "$new"
  sed -e '/^fuzz: elapsed/d' -e 's/^/    /' "$out" | tail -n 60
  kept=$(sed -nE 's/^ *Failing input written to //p' "$out")
  [ -z "$kept" ] || printf '    saved: %s/%s\n' "$("$go" list -f '{{.Dir}}' "$pkg")" "$kept"
done <<<"$targets"
echo "$ran fuzz targets, $failed failed, $time each"
[ "$ran" -gt 0 ] && [ "$failed" = 0 ]
