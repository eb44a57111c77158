#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the kernel side, writes the types of the page's data and bundles the report's page again, in a copy of the sources,
# and compares with what is committed.
#
#   check-generated.sh [bpf|web]    one of them; both without
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

copy() { # PATHS...
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' f; do [ -f "$f" ] && printf '%s\0' "$f"; done |
    tar --null -T - -cf - | tar -C "$tmp" -xf -
}

bpf() {
  if ! command -v clang-19 >/dev/null; then
    echo "check-generated: clang-19 is missing: make install-deps" >&2
    return 1
  fi
  copy go.mod go.sum '*.go' bpf probe views/report/bundle
  find "$tmp/probe" -name '*_bpfel.*' -delete
  (cd "$tmp" && GOFLAGS="${GOFLAGS:-} -buildvcs=false" go generate ./probe/...) >/dev/null || return 1
  same "$tmp/probe" probe '*_bpfel.*' "bpf/ gives with $(clang-19 --version | head -1)" "make generate"
}

web() {
  if ! command -v npm >/dev/null; then
    echo "check-generated: npm is missing: make install-deps" >&2
    return 1
  fi
  mkdir -p "$tmp/types"
  go run ./internal/pagetypes "$tmp/types/types.ts" || return 1
  same "$tmp/types" web/src/api 'types.ts' "the Go types of the page's data give" "make generate" || return 1
  copy web
  (cd "$tmp/web" && npm ci --ignore-scripts --loglevel error >/dev/null && node build.mjs "$tmp/bundle") || return 1
  same "$tmp/bundle" views/report/bundle '*' "web/ gives" "make web"
}

# same FOLDER COMMITTED PATTERN WHAT FIX compares the files of two folders.
same() {
  local name bad=0 names
  names=$( (find "$1" -maxdepth 1 -type f -name "$3" -printf '%f\n' && find "$2" -maxdepth 1 -type f -name "$3" -printf '%f\n') | sort -u)
  while read -r name; do
    if ! cmp -s "$1/$name" "$2/$name"; then
      [ $bad = 1 ] || echo "check-generated: $2 is not what $4:" >&2
      bad=1
      cmp "$1/$name" "$2/$name" >&2 || true
    fi
  done <<<"$names"
  if [ $bad = 1 ]; then
    echo "run $5 and commit the result" >&2
    return 1
  fi
  echo "$2/$3 are what $4"
}

bad=0
case $what in
bpf | web) $what || bad=1 ;;
all)
  bpf || bad=1
  web || bad=1
  ;;
*)
  echo "usage: check-generated.sh [bpf|web]" >&2
  exit 2
  ;;
esac
exit $bad
