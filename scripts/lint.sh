#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Formatting (gofmt, prettier), vet for every system that is built for, staticcheck, types and imports of the page, license lines, scripts.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0

files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

unformatted=$(files '*.go' | xargs -r gofmt -l)
if [ -n "$unformatted" ]; then
  printf 'not formatted (gofmt -w):\n%s\n' "$unformatted" >&2
  bad=1
fi
# Of at most 110 characters, a tab counted as four; strings, addresses and examples are not cut to fit.
long=$(files '*.go' | grep -v testdata/ | xargs -r grep -L '^// Code generated' | while read -r f; do
  expand -t 4 "$f" | LC_ALL=C.UTF-8 grep -nE '^.{111}' | grep -E '^[0-9]+:( |//|func|type|var|const)' | grep -vE '["`]|//go:|://|::|// {2}' | sed "s|^|$f:|" | cut -c1-150
done || true)
if [ -n "$long" ]; then
  printf 'lines of over 110 characters:\n%s\n' "$long" >&2
  bad=1
fi
go vet ./... || bad=1
GOARCH=arm64 go vet ./... || bad=1
go tool staticcheck ./... || bad=1
# traces are read and drawn on any system
portable=(./trace/... ./profile/... ./peaks ./overhead ./demo/...)
for d in views/*/; do
  [ "$d" = views/doctor/ ] || portable+=("./$d...")
done
for os in darwin windows; do
  GOOS=$os go vet "${portable[@]}" || bad=1
done

unlicensed=$(files '*.go' '*.c' '*.h' '*.sh' '*.mjs' 'web/*.ts' 'web/*.tsx' 'web/*.css' | grep -vE '_bpfel\.go$' |
  xargs -r grep -LE 'SPDX-License-Identifier: (Apache-2.0|GPL-2.0 OR BSD-2-Clause)' || true)
if [ -n "$unlicensed" ]; then
  printf 'no SPDX-License-Identifier:\n%s\n' "$unlicensed" >&2
  bad=1
fi

if command -v shellcheck >/dev/null; then
  files '*.sh' .ci/run | xargs -r shellcheck -x || bad=1
else
  echo "lint: shellcheck is not installed: scripts are not checked" >&2
  [ "${CI:-}${PROFINFER_REQUIRE_BPF:-}" = "" ] || bad=1
fi
if command -v node >/dev/null; then
  files '*.mjs' | while read -r f; do node --check "$f" || exit 1; done || bad=1
fi

# Nothing of a recording may become markup or code, and packages come from wherever npm is told here.
markup=$(files 'web/src/*.ts' 'web/src/*.tsx' | xargs -r grep -nE 'dangerouslySetInnerHTML|(inner|outer)HTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function\(' || true)
if [ -n "$markup" ]; then
  printf 'text that would become markup or code:\n%s\n' "$markup" >&2
  bad=1
fi
hosts=$(grep -n '"resolved"' web/package-lock.json || true
  files | grep -v '^go\.sum$' | xargs -r grep -nIE '(registry|npm)[.][a-z]+[.](org|com|dev|io)|^registry *=' || true)
if [ -n "$hosts" ]; then
  printf 'a package registry is named:\n%s\n' "$hosts" >&2
  bad=1
fi
if command -v npm >/dev/null; then
  if make --no-print-directory -s web/node_modules; then
    (cd web && npx --no-install prettier --log-level warn --check . && node check.mjs && npx --no-install tsc -p test) || bad=1
  else
    bad=1
  fi
else
  echo "lint: npm is not installed: the page's types and imports are not checked" >&2
  [ "${CI:-}${PROFINFER_REQUIRE_BPF:-}" = "" ] || bad=1
fi
exit $bad
