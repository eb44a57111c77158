#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a fresh Debian or Ubuntu with Go, git and make lacks. Prints nothing and
# changes nothing where everything is there.
#
#   deps.sh demo    what `make demo` needs: apt and dpkg, which are there
#   deps.sh test    and npm, which fetches engines for the tests, and a browser to test the page in;
#                   what cannot be installed here is told in a line and is no error, as tests that
#                   need it are skipped, unless PROFINFER_REQUIRE_BPF is set
#   deps.sh ci      and the compiler of the kernel side, and a checker of scripts
#   deps.sh arm64   what the emulated arm64 machine needs (scripts/arm64.sh); part of ci too
set -euo pipefail

missing=()
need() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

# A browser that starts. Ubuntu's packages only refer to a store that containers do not have.
browser() {
  local b
  for b in "${PROFINFER_CHROMIUM:-}" chromium chromium-browser google-chrome; do
    [ -n "$b" ] && command -v "$b" >/dev/null && "$b" --version >/dev/null 2>&1 && return 0
  done
  return 1
}

what=${1:-}
case $what in demo | test | ci | arm64) ;; *)
  echo "usage: deps.sh demo|test|ci|arm64" >&2
  exit 2
  ;;
esac
if ! command -v go >/dev/null; then
  echo "deps.sh: Go is missing: install Go $(sed -n 's/^go //p' "$(dirname "$0")/../go.mod") or newer" >&2
  exit 1
fi
if [ "$what" = test ] || [ "$what" = ci ]; then
  need node nodejs
  need npm npm
  browser || missing+=(chromium fonts-dejavu-core)
fi
if [ "$what" = ci ]; then
  need clang-19 clang-19
  need llvm-strip-19 llvm-19
  [ -e /usr/include/bpf/bpf_helpers.h ] || missing+=(libbpf-dev)
  need shellcheck shellcheck
  need dot graphviz
fi
if [ "$what" = arm64 ] || [ "$what" = ci ]; then
  need "${QEMU:-qemu-system-aarch64}" qemu-system-arm
  need cpio cpio
fi
[ ${#missing[@]} -gt 0 ] || exit 0

optional="" # set where what is missing is no error
[ "$what" != test ] || [ -n "${PROFINFER_REQUIRE_BPF:-}" ] || optional=1
# lack WHY: ends it, as ${missing[*]} cannot be installed here
lack() {
  if [ -n "$optional" ]; then
    echo "deps.sh: missing here: ${missing[*]}: $1: the tests that need them are skipped" >&2
    exit 0
  fi
  echo "deps.sh: missing here: ${missing[*]}: $1" >&2
  exit 1
}

command -v apt-get >/dev/null || lack "there is no apt-get: install them (names are Debian's)"
[ "$(id -u)" = 0 ] || lack "sudo apt-get install ${missing[*]}"
echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# apt ARGUMENT...: apt-get, or the end: user 0 of a container may not install, or reach any mirror
apt() {
  local said
  said=$(apt-get -qq -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@" 2>&1) && return
  [ -n "$optional" ] || echo "$said" >&2
  lack "apt-get $1: $(grep -m1 ^E: <<<"$said" || tail -n 1 <<<"$said")"
}
# Without a network each of hundreds of packages would be tried for a while.
apt update ${optional:+-o APT::Update::Error-Mode=any}
if [[ " ${missing[*]} " == *" chromium "* ]] && ! apt-get -s install --no-install-recommends chromium >/dev/null 2>&1; then
  echo "deps.sh: there is no package of Chromium here: tests in a browser are skipped; name a browser in PROFINFER_CHROMIUM" >&2
  for i in "${!missing[@]}"; do
    case ${missing[i]} in chromium | fonts-dejavu-core) unset "missing[i]" ;; esac
  done
  [ "${PROFINFER_REQUIRE_BPF:-}" = "" ] || exit 1
  [ ${#missing[@]} -gt 0 ] || exit 0
fi
apt install --no-install-recommends "${missing[@]}"
