#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Formatting, vet for every system that is built for, license lines, scripts.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0

files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

unformatted=$(files '*.go' | xargs -r gofmt -l)
if [ -n "$unformatted" ]; then
  printf 'not formatted (gofmt -w):\n%s\n' "$unformatted" >&2
  bad=1
fi
go vet ./... || bad=1
GOARCH=arm64 go vet ./... || bad=1
# traces are read and drawn on any system
for os in darwin windows; do
  GOOS=$os go vet ./trace/... ./profile/... || bad=1
done

unlicensed=$(files '*.go' '*.c' '*.h' '*.sh' '*.mjs' | grep -vE '_bpfel\.go$' |
  xargs -r grep -LE 'SPDX-License-Identifier: (Apache-2.0|GPL-2.0 OR BSD-2-Clause)' || true)
if [ -n "$unlicensed" ]; then
  printf 'no SPDX-License-Identifier:\n%s\n' "$unlicensed" >&2
  bad=1
fi

if command -v shellcheck >/dev/null; then
  files '*.sh' .ci/run | xargs -r shellcheck || bad=1
else
  echo "lint: shellcheck is not installed: scripts are not checked" >&2
  [ "${CI:-}${PROFINFER_REQUIRE_BPF:-}" = "" ] || bad=1
fi
if command -v node >/dev/null; then
  files '*.mjs' | while read -r f; do node --check "$f" || exit 1; done || bad=1
fi
exit $bad
