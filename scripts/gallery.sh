#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Records everything that docs/gallery.md shows, from a user's commands, and takes all pictures of the documents: models of
# real shapes, recordings, reports, docs/img/*.png. The README's pictures are of docs/sample, which scripts/sample.sh makes.
#
#   sudo scripts/gallery.sh [--short] [--large] [--only RECORDING]... [--keep] [DIR]
#
# DIR (default: gallery) holds the recordings and reports afterwards. --short makes short runs, to try the script.
# --large also records a mixture of experts of 8 GB (disk and memory; three minutes): without it the pictures that show it stay.
# --only records only that one (and makes its report); --keep takes the recordings that are there already.
# Recording wants the machine for itself: another load is seen in the figures. Takes about five minutes, and 4.5 GB
# for the models.
#
# Environment: PROFINFER, the program (bin/profinfer); THREADS, of the engine (all CPUs); ENGINE_ROOT, a folder to
# chroot into with Debian's llama.cpp (default: this system's llama-bench, else what `profinfer demo` has fetched);
# PICTURES, their folder (docs/img); PICTURES=none takes none. OFFLOAD_ROOT and BLAS_ROOT, folders with Debian's llama.cpp and its Vulkan or
# BLAS backend (default: what `go run ./internal/engines/fetch debian` fetched; without them nothing is recorded of other backends).
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
  echo "gallery: $*" >&2
  exit 1
}

short='' large='' keep='' only=()
while [ $# -gt 0 ]; do
  case $1 in
  --short) short=1 ;;
  --large) large=1 ;;
  --keep) keep=1 ;;
  --only) [ $# -gt 1 ] || die "--only wants the name of a recording"; only+=("$2"); shift ;;
  -*) sed -n '/^#   sudo/s/^# *//p' "$0" >&2; exit 2 ;;
  *) break ;;
  esac
  shift
done
[ $# -le 1 ] || die "one folder at most"
dir=${1:-gallery}
pictures=${PICTURES:-docs/img}
profinfer=${PROFINFER:-bin/profinfer}
threads=${THREADS:-$(nproc)}
[ -x "$profinfer" ] || die "$profinfer is not there: make build, or name the program in PROFINFER"
[ "$(id -u)" = 0 ] || die "recording needs root"
mkdir -p "$dir"

own_models=$dir/models
. scripts/engine.sh

wanted() {
  [ ${#only[@]} = 0 ] && return 0
  local o
  for o in "${only[@]}"; do [ "$o" = "$1" ] && return 0; done
  return 1
}

# n LONG SHORT is a number of tokens.
n() { if [ -n "$short" ]; then echo "$2"; else echo "$1"; fi; }

run() {
  echo "\$ $*" >&2
  "$@"
}

# record NAME MODEL TYPE ARGUMENTS... records llama-bench on a model, which is made if it is not there yet.
record() {
  local name=$1 model=$2 type=$3
  shift 3
  wanted "$name" || return 0
  [ -z "$keep" ] || [ ! -s "$dir/$name.pinf" ] || return 0
  run "$profinfer" demo --model "$model" --type "$type" -o "$models" >/dev/null
  run "$profinfer" record -o "$dir/$name.pinf" -- "${bench[@]}" -m "$inside/$model-$type.gguf" -t "$threads" -r 1 "$@" >"$dir/$name.txt" ||
    die "recording $name failed"
}

# report NAME RECORDING... makes a page of recordings that are there.
report() {
  local name=$1 r args=() any=
  shift
  for r in "$@"; do
    [ -s "$dir/$r.pinf" ] || return 0
    ! wanted "$r" || any=1
    args+=(-i "$dir/$r.pinf")
  done
  [ -n "$any" ] || return 0
  run "$profinfer" report "${args[@]}" -o "$dir/$name.html"
}

# The roofline, and verdicts that go by it.
if wanted llama && { [ -z "$keep" ] || [ ! -s "$dir/llama.pinf" ]; }; then run "$profinfer" peaks >"$dir/peaks.txt"; fi
# A prompt, and a generation: operators, threads, bandwidth (figures 3, 4, 5, 6).
record llama llama-1b q4_0 -p 128 -n "$(n 64 8)"
# Attention as two other models have it (figure 4).
record qwen qwen2.5-1.5b q4_0 -p 64 -n "$(n 16 4)"
record gemma gemma2-2b q4_0 -p 64 -n "$(n 16 4)"
# Another process takes one of the cores for two seconds (figure 8).
if wanted contention && { [ -z "$keep" ] || [ ! -s "$dir/contention.pinf" ]; }; then
  (
    sleep 3 # the model is loaded, decode is under way
    echo "\$ taskset -c 0 timeout 2 yes >/dev/null" >&2
    taskset -c 0 timeout 2 yes >/dev/null || true # it ends it: not a failure
  ) &
  other=$!
  record contention llama-1b q4_0 -p 0 -n "$(n 192 96)"
  wait "$other"
fi
# A long generation: the KV cache grows (figure 9).
record long llama-1b q4_0 -p 0 -n "$(n 1000 100)"
# The same matrices in three types, layer by layer, and batches of several sizes (figure 10).
record types llama-1b mixed -p "$(n 8,32,128,512 8,64)" -n "$(n 16 4)"

# A mixture of experts (figure 13): which are used; with --large also what new ones cost where 8 GB of them do not fit in
# memory.
if wanted experts && { [ -z "$keep" ] || [ ! -s "$dir/experts.pinf" ]; }; then
  experts=(env PROFINFER="$profinfer" THREADS="$threads" ENGINE_ROOT="$root" MODELS="$models" scripts/experts.sh)
  run "${experts[@]}" --model moe-small --skew 1 --only warm "$dir/experts" >"$dir/experts.txt" || die "recording experts failed"
  cp "$dir/experts/warm.pinf" "$dir/experts.pinf"
  if [ -n "$large" ]; then
    run "${experts[@]}" --only warm --only short "$dir/experts-8gb" >"$dir/experts-8gb.txt" || die "recording a large model's experts failed"
    for how in warm short; do cp "$dir/experts-8gb/$how.html" "$dir/experts-$how.html"; done
  fi
fi

for r in llama qwen gemma contention long types experts; do report "$r" "$r"; done
# Half of the layers on another backend, and the same prompt on the CPU and with BLAS (figure 12).
cache=${PROFINFER_ENGINES:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/profinfer}
backend() {
  local name=$1 root=$2 lib
  shift 2
  wanted "$name" || return 0
  [ -z "$keep" ] || [ ! -s "$dir/$name.pinf" ] || return 0
  if [ ! -x "$root/usr/bin/llama-bench" ]; then
    echo "gallery: $root has no llama-bench: $name is not recorded" >&2
    return 0
  fi
  run "$profinfer" demo --model llama-small -o "$root/models" >/dev/null
  # what is only unpacked has no alternatives: BLAS lies beside the other libraries
  lib=$(find "$root/usr/lib" -maxdepth 2 -type d -name blas -printf '/usr/lib/%P')
  run env ${lib:+LD_LIBRARY_PATH="$lib"} GGML_VK_VISIBLE_DEVICES=0 "$profinfer" record -o "$dir/$name.pinf" -- chroot "$root" llama-bench -m /models/llama-small-q4_0.gguf -t "$threads" --no-warmup "$@" >"$dir/$name.txt" ||
    die "recording $name failed"
}
offload=${OFFLOAD_ROOT:-$cache/debian-sid-offload} blas=${BLAS_ROOT:-$cache/debian-sid-blas}
backend vulkan "$offload" -dev Vulkan0 -ngl 4 -p 0 -n "$(n 32 8)" -r 1
backend cpu "$blas" -dev none -p 64 -n 0 -r 3
backend blas "$blas" -dev none --repack 0 -p 64 -n 0 -r 3

for r in vulkan cpu blas; do report "$r" "$r"; done
report backends cpu blas
report attention llama qwen gemma

# Where in the recordings the pictures' subjects are.
table() {
  [ ! -s "$dir/$1.pinf" ] || "$profinfer" export -i "$dir/$1.pinf" --table "$2" --format ndjson -o "$dir/$1-$2.ndjson" 2>/dev/null
}
table llama steps
table llama ops
table contention steps
table contention sched
table vulkan steps

if [ "$pictures" != none ]; then
  command -v node >/dev/null || die "the pictures need Node.js; the reports are in $dir"
  mkdir -p "$pictures"
  run node web/test/gallery.mjs "$dir" "$pictures"
fi
