#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a fresh Debian or Ubuntu with Go, git and make lacks. Prints nothing and
# changes nothing where everything is there.
#
#   deps.sh demo    what `make demo` needs: apt and dpkg, which are there
#   deps.sh test    and npm, which fetches engines for the tests
#   deps.sh ci      and the compiler of the kernel side, and a checker of scripts
set -euo pipefail

missing=()
need() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

what=${1:-}
case $what in demo | test | ci) ;; *)
  echo "usage: deps.sh demo|test|ci" >&2
  exit 2
  ;;
esac
if ! command -v go >/dev/null; then
  echo "deps.sh: Go is missing: install Go $(sed -n 's/^go //p' "$(dirname "$0")/../go.mod") or newer" >&2
  exit 1
fi
if [ "$what" != demo ]; then
  need node nodejs
  need npm npm
fi
if [ "$what" = ci ]; then
  need clang-19 clang-19
  need llvm-strip-19 llvm-19
  [ -e /usr/include/bpf/bpf_helpers.h ] || missing+=(libbpf-dev)
  need shellcheck shellcheck
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "deps.sh: missing here: ${missing[*]} (names as in Debian): install them" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "deps.sh: missing here: ${missing[*]}: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3)
"${apt[@]}" update
"${apt[@]}" install --no-install-recommends "${missing[@]}" >/dev/null
