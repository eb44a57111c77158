#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the kernel side again, in a copy of the sources, and compares with the
# committed objects.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-19 >/dev/null; then
  echo "check-generated: clang-19 is missing: make install-deps" >&2
  exit 1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git ls-files -z --cached --others --exclude-standard -- go.mod go.sum '*.go' bpf probe |
  while IFS= read -r -d '' f; do [ -f "$f" ] && printf '%s\0' "$f"; done |
  tar --null -T - -cf - | tar -C "$tmp" -xf -
find "$tmp/probe" -name '*_bpfel.*' -delete
(cd "$tmp" && GOFLAGS="${GOFLAGS:-} -buildvcs=false" go generate ./probe/...) >/dev/null
bad=0
shopt -s nullglob
for f in "$tmp"/probe/*_bpfel.* probe/*_bpfel.*; do
  name=$(basename "$f")
  cmp -s "$tmp/probe/$name" "probe/$name" || bad=$((bad + 1))
done
if [ $bad -gt 0 ]; then
  echo "check-generated: the objects in probe/ are not what bpf/ gives with $(clang-19 --version | head -1):" >&2
  for f in "$tmp"/probe/*_bpfel.* probe/*_bpfel.*; do
    name=$(basename "$f")
    cmp "$tmp/probe/$name" "probe/$name" >&2 || true
  done | sort -u
  echo "run make generate and commit the result" >&2
  exit 1
fi
echo "probe/*_bpfel.* are what bpf/ gives"
