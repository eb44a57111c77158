#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes docs/sample anew: the recording that the repository ships, its statistics, its HTML report and its Perfetto trace.
#
#   sudo scripts/sample.sh [--again] [DIR]
#
# It measures the machine's peaks and records llama-bench on the shape of LLaMA-3.2-1B, inside of the folder with Debian's
# llama.cpp that `profinfer demo` has fetched, so that the recording names nothing of this machine but its CPU and its
# kernel. --again keeps the recording and writes the rest. DIR: docs/sample. Recording wants the machine for itself; it
# takes a minute. Afterwards `go test ./cmd/profinfer -run TestSample -update` writes the statistics into the README.
#
# Environment: PROFINFER, the program (bin/profinfer); ENGINE_ROOT, as for gallery.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
  echo "sample: $*" >&2
  exit 1
}

again=
if [ "${1:-}" = --again ]; then
  again=1
  shift
fi
[ $# -le 1 ] || die "one folder at most"
dir=$(realpath -m "${1:-docs/sample}")
profinfer=$(realpath "${PROFINFER:-bin/profinfer}")
[ -x "$profinfer" ] || die "$profinfer is not there: make build, or name the program in PROFINFER"
name=llama-1b
mkdir -p "$dir"

if [ -z "$again" ]; then
  [ "$(id -u)" = 0 ] || die "recording needs root"
  ENGINE_ROOT=${ENGINE_ROOT:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/profinfer/debian-sid}
  [ -e "$ENGINE_ROOT/.complete" ] || die "$ENGINE_ROOT is not there: profinfer demo fetches it, or name another in ENGINE_ROOT"
  "$profinfer" demo --model "$name" -o "$ENGINE_ROOT/models" >/dev/null
  CGO_ENABLED=0 go build -o "$ENGINE_ROOT/usr/local/bin/profinfer" ./cmd/profinfer # no library of this system's lies there
  # its own mounts, which vanish with it, and its own host name
  # shellcheck disable=SC2016  # the inner shell expands
  unshare --mount --uts --propagation private bash -c '
    set -e
    root=$1 name=$2
    hostname sample
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root/tmp/sample"
    in_root() { env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin HOME=/root LANG=C.UTF-8 chroot "$root" "$@"; }
    in_root profinfer peaks
    sleep 2
    in_root profinfer record -o "/tmp/sample/$name.pinf" -- llama-bench -m "/models/$name-q4_0.gguf" -t 2 -p 64 -n 8 -r 1 --no-warmup
    cp "$root/tmp/sample/$name.pinf" "$3/$name.pinf"
    rm -r "$root/tmp/sample" "$root/usr/local/bin/profinfer"
  ' sample "$ENGINE_ROOT" "$name" "$dir"
fi

cd "$dir"
COLUMNS=100 "$profinfer" stat -i "$name.pinf" >stat.txt
"$profinfer" report -i "$name.pinf" -o "$name.html"
"$profinfer" export -i "$name.pinf" --format perfetto -o "$name.pftrace.gz"
chmod 0644 "$name.pinf" "$name.html" "$name.pftrace.gz" stat.txt # they are for everybody
total=$(cat "$name.pinf" "$name.html" "$name.pftrace.gz" stat.txt | wc -c)
echo "sample: $total bytes in $dir" >&2
[ "$total" -lt 1000000 ] || die "that is more than 1 MB: shorten the run"
