#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Records what experts cost, and prints it as the tables of docs/experts.md: a mixture of experts of 8 GB with its pages in
# memory, dropped from the page cache before the run, and with less memory than it needs, so that experts are read again.
#
#   sudo scripts/experts.sh [--model NAME] [--skew X] [--memory MIB] [--only warm|cold|short]... [--keep] [DIR]
#
# DIR (default: experts) holds the recordings and reports afterwards. --model is one of `profinfer demo --model list` with experts
# (qwen1.5-moe-a2.7b; moe-small is done in seconds), --skew makes its experts unequal, --memory is what `short` may
# use (two thirds of the model and 24 MiB). --only makes only that recording; --keep takes those that are there already. A line before
# the tables tells each run's major faults by class, as recorded and as the kernel counted them for the process; the script ends with
# status 1 where they differ by more than 2 %.
# Takes about three minutes, 8 GB of disk and as much memory; other load is seen in the figures. Needs jq, and for
# `short` a control group with memory (cgroup v1 or v2).
#
# Environment: PROFINFER, the program (bin/profinfer); THREADS, of the engine (all CPUs); ENGINE_ROOT, a folder to
# chroot into with Debian's llama.cpp (default: this system's llama-bench, else what `profinfer demo` has fetched); MODELS, where
# the model is made (DIR/models, or /models in the engine's root).
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
  echo "experts: $*" >&2
  exit 1
}

model=qwen1.5-moe-a2.7b skew=0 memory='' keep='' only=()
while [ $# -gt 0 ]; do
  case $1 in
  --model | --skew | --memory | --only)
    [ $# -gt 1 ] || die "$1 wants a value"
    case $1 in
    --model) model=$2 ;;
    --skew) skew=$2 ;;
    --memory) memory=$2 ;;
    --only) only+=("$2") ;;
    esac
    shift
    ;;
  --keep) keep=1 ;;
  -*) sed -n '/^#   sudo/s/^# *//p' "$0" >&2; exit 2 ;;
  *) break ;;
  esac
  shift
done
[ $# -le 1 ] || die "one folder at most"
dir=${1:-experts}
profinfer=${PROFINFER:-bin/profinfer}
threads=${THREADS:-$(nproc)}
[ -x "$profinfer" ] || die "$profinfer is not there: make build, or name the program in PROFINFER"
[ "$(id -u)" = 0 ] || die "recording needs root"
command -v jq >/dev/null || die "jq is missing: apt-get install jq"
for o in "${only[@]}"; do case $o in warm | cold | short) ;; *) die "--only takes warm, cold or short, not $o" ;; esac done
mkdir -p "$dir"

own_models=${MODELS:-$dir/models}
. scripts/engine.sh
path=$("$profinfer" demo --model "$model" --skew "$skew" -o "$models") || exit $?
size=$(stat -c %s "$path")
[ -n "$memory" ] || memory=$((size * 2 / 3 / 1048576 + 24))

wanted() {
  [ ${#only[@]} = 0 ] && return 0
  local o
  for o in "${only[@]}"; do [ "$o" = "$1" ] && return 0; done
  return 1
}

# Out of the page cache, as far as nobody has it mapped.
drop() { dd of="$path" oflag=nocache conv=notrunc,fdatasync count=0 status=none; }

# group MIB makes a control group with so much memory; procs is its file that takes processes. What it changed goes with the script.
procs='' limited=''
group() {
  local d=/sys/fs/cgroup file=memory.max
  if ! grep -qsw memory $d/cgroup.controllers; then
    d=/sys/fs/cgroup/memory file=memory.limit_in_bytes
  elif ! grep -qsw memory $d/cgroup.subtree_control; then
    echo +memory >$d/cgroup.subtree_control && limited=$d/cgroup.subtree_control || return 1
  fi
  mkdir "$d/profinfer-experts-$$" || return 1
  procs=$d/profinfer-experts-$$/cgroup.procs
  echo $(($1 * 1048576)) >"${procs%/*}/$file"
}
ungroup() {
  if [ -n "$procs" ]; then
    rmdir "${procs%/*}" 2>/dev/null || { sleep 2; rmdir "${procs%/*}"; } || true
  fi
  # not where others began to use it meanwhile: then the kernel refuses nothing, but their limits would go
  if [ -n "$limited" ] && [ -z "$(find /sys/fs/cgroup -mindepth 2 -maxdepth 2 -name memory.max -exec grep -Lx max {} +)" ]; then
    echo -memory >"$limited" || true
  fi
}
trap ungroup EXIT

# record NAME ARGUMENTS... records llama-bench. NAME.majors is what the kernel counted for it, from its start to its end: the shell that
# waits for it has it in its own /proc/PID/stat (cmajflt, the 11th field behind the name; Linux, proc_pid_stat(5)).
record() {
  local name=$1
  shift
  wanted "$name" || return 0
  [ -z "$keep" ] || [ ! -s "$dir/$name.pinf" ] || return 0
  [ "$name" = warm ] || drop
  # shellcheck disable=SC2016 # for the inner shell
  local script='[ -z "$0" ] || echo $$ >"$0"
    out=$1; shift; "$@" || exit; read -r line </proc/$$/stat; set -- ${line##*)}; echo "${11}" >"$out"'
  [ "$name" != warm ] || cat "$path" >/dev/null
  echo "\$ profinfer record --faults -o $dir/$name.pinf -- ${bench[*]} -m $inside/${path##*/} $*" >&2
  rm -f "$dir/$name.majors"
  "$profinfer" record --faults -o "$dir/$name.pinf" -- sh -c "$script" "$([ "$name" != short ] || echo "$procs")" "$dir/$name.majors" \
    "${bench[@]}" -m "$inside/${path##*/}" "$@" >"$dir/$name.txt" || die "recording $name failed: $(tail -3 "$dir/$name.txt")"
}

# Not repacked, or weights would be copied to memory of the process and read once.
common=(-t "$threads" -r 1 --repack 0 -lm mmap)
record warm -p 64 -n 128 "${common[@]}"
record cold -p 64 -n 128 "${common[@]}"
if wanted short && { [ -z "$keep" ] || [ ! -s "$dir/short.pinf" ]; }; then
  group "$memory" || die "no control group with a limit of memory can be made here: --only warm --only cold leaves that run out"
  record short -p 16 -n 32 "${common[@]}"
fi

runs=()
for name in warm cold short; do
  wanted "$name" || continue
  [ -s "$dir/$name.pinf" ] || continue
  runs+=("$name")
  "$profinfer" stat -i "$dir/$name.pinf" --by expert --json >"$dir/$name.json"
  "$profinfer" report -i "$dir/$name.pinf" -o "$dir/$name.html" >/dev/null
done
[ ${#runs[@]} -gt 0 ] || die "there is nothing to print"

bad=
echo "major faults, as recorded and as /proc/PID/stat counts them:" >&2
for name in "${runs[@]}"; do
  [ -s "$dir/$name.majors" ] || { echo "  $name: what the kernel counted was not kept" >&2; continue; }
  jq -r --arg name "$name" --argjson majors "$(cat "$dir/$name.majors")" '
    .faults as $f
    | ([$f.classes[].major] | add // 0) as $seen
    | ($seen + ($f.major_no_address // 0) + ($f.major_before // 0)) as $sum
    | (if $majors == $sum then 0 elif $majors == 0 then 100 else (($sum - $majors) / $majors * 10000 | round / 100) end) as $off
    | "  \($name): " + ([$f.classes[] | select(.major > 0) | "\(.major) \(.class)"] + ["\($f.major_no_address // 0) without an address", "\($f.major_before // 0) before the recording"] | join(" + ")) +
      " = \($sum); the process counted \($majors): \($off) % off",
      (if $off > 2 or $off < -2 then "BAD" else empty end)' "$dir/$name.json" >"$dir/$name.sum"
  grep -v BAD "$dir/$name.sum" >&2
  ! grep -q BAD "$dir/$name.sum" || bad=1
done

files=()
for name in "${runs[@]}"; do files+=("$dir/$name.json"); done
names=$(printf '%s\n' "${runs[@]}" | jq -R . | jq -sc .)
jq -rs --argjson names "$names" --arg memory "$memory" --arg size "$size" '
  def to(d): if . == null then "-" else (. * pow(10; d) | round / pow(10; d) | tostring) end;
  def three: if . == null then "-" elif . >= 100 then to(0) elif . >= 10 then to(1) else to(2) end;
  def percent: if . == null then "-" else (. * 100 | to(0)) + " %" end;
  def bytes: if . == null then "-" elif . == 0 then "0" elif . >= 1073741824 then (. / 1073741824 | three) + " GiB" else (. / 1048576 | three) + " MiB" end;
  def time: if . == null then "-" elif . >= 1e6 then (. / 1e6 | three) + " ms" else (. / 1e3 | three) + " µs" end;
  def row: "| " + join(" | ") + " |";
  def phase(p): [.phases[] | select(.phase == p)][0];
  . as $stats
  | "", "\($size | tonumber | bytes) of weights; in `short` the engine has \($memory) MiB of memory.", "",
  (["run", "prefill, t/s", "decode, t/s", "experts of a decode step", "again", "by chance", "read", "by faults", "major faults", "a thread in one, decode", "model in memory"] | row),
  ([range(11) | "---"] | row),
  (range($stats | length) as $i | $stats[$i] | phase("decode") as $d | phase("prefill") as $p
    | ([.faults.phases[] | select(.phase == "decode")][0].share) as $in
    | (.faults.files | max_by(.bytes)) as $m
    | [$names[$i], ($p.tokens_per_s | three), ($d.tokens_per_s | three), ($d.experts.bytes_per_step | bytes) + " of " + ($d.experts.bytes_of_all_experts | bytes),
       ($d.experts.reused_share | percent), ($d.experts.reused_by_chance | percent),
       (.faults.read_bytes | bytes), (.faults.read_faults_bytes | bytes), (.faults.major | tostring), ($in | percent),
       (if $m.bytes > 0 then ($m.resident_start_bytes / $m.bytes | percent) + " to " + ($m.resident_end_bytes / $m.bytes | percent) else "-" end)] | row),
  "", "Median of a product of one token by how many of its experts the step before did not use (how many products):", "",
  ([$stats[] | phase("decode").experts.products[].new[].new] | unique) as $news
  | (["run", "product"] + ($news | map(tostring)) + ["a new one adds"] | row),
  ([range(3 + ($news | length)) | "---"] | row),
  (range($stats | length) as $i | $stats[$i] | phase("decode").experts.products[] as $w
    | [$names[$i], $w.weight] + [$news[] as $n | ([$w.new[] | select(.new == $n)][0] | if . then (.median_ns | time) + " (\(.calls))" else "-" end)]
      + [$w.per_new_ns | if . == null then "-" elif . < 0 then "-" + (-. | time) else time end] | row),
  "", "How often a decode step uses experts that the one before used, how much the busiest is used, and how many are never used:", "",
  (["layer", "again", "busiest, of the mean", "unused"] | row), ([range(4) | "---"] | row),
  ($stats[0] | phase("decode").experts.layers[] | [(.layer | tostring), (.reused_share | percent), (.imbalance + 1 | three), "\(.unused) of \(.experts)"] | row),
  "", "What a cache of so many experts a layer would have held of the choices:", "",
  ($stats[0] | phase("decode").experts.cache | (map(.experts | tostring) | row), (map("---") | row), (map(.hits | percent) | row))' "${files[@]}"
[ -z "$bad" ] || die "major faults by class do not add up to what the kernel counted"
