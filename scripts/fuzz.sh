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

# "PACKAGE NAME" of each, from the files that belong to this system's tests: `go test -list` would link every package's.
# shellcheck disable=SC2016 # it is go's template
targets=$("$go" list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}' ./... |
  while read -r pkg file; do
    [ -z "$file" ] || sed -nE "s|^func (Fuzz[A-Za-z0-9_]*)\(.*testing\.F\).*|$pkg \1|p" "$file"
  done)

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
