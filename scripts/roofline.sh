#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Records llama-bench with each model and number of threads, and prints a table in Markdown: what the products reached, of this
# machine's roof, and the verdict. Measure the roof first, on a quiet machine: profinfer peaks.
#
#   sudo scripts/roofline.sh MODEL.gguf...
#
# Environment: THREADS ("1 2": one row each), PROMPT (64 tokens), GENERATE (16), LLAMA_BENCH (llama-bench; can have arguments, as
# "chroot ROOT llama-bench"), PROFINFER (the one in the path), KEEP (a folder for the recordings; those that are there are
# taken as they are). Needs jq.
set -euo pipefail

die() {
  echo "roofline: $*" >&2
  exit 1
}

if [ $# -lt 1 ]; then
  sed -n '/^#   sudo/s/^# *//p' "$0" >&2
  exit 2
fi
command -v jq >/dev/null || die "jq is missing: apt-get install jq"
profinfer=${PROFINFER:-profinfer}
command -v "$profinfer" >/dev/null || die "there is no $profinfer: name it by PROFINFER"
read -ra bench <<<"${LLAMA_BENCH:-llama-bench}"
dir=${KEEP:-$(mktemp -d)}
mkdir -p "$dir"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$dir"' EXIT

echo "| model | threads | phase | t/s | GB/s | of the roof | GFLOP/s | of the roof | flop/B (ridge) | wait, off-CPU | verdict | sure |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
for model in "$@"; do
  name=$(basename "$model" .gguf)
  for threads in ${THREADS:-1 2}; do
    trace=$dir/$name-$threads.pinf
    [ -s "$trace" ] || "$profinfer" record -o "$trace" -- "${bench[@]}" -m "$model" -t "$threads" -p "${PROMPT:-64}" -n "${GENERATE:-16}" -r 1 \
      >"$dir/$name-$threads.log" 2>&1 || die "recording $name with $threads threads failed: $(tail -3 "$dir/$name-$threads.log")"
    "$profinfer" stat -i "$trace" --json | jq -r --arg name "$name" --arg threads "$threads" '
      def three: if . == null then "-" elif . >= 100 then round elif . >= 10 then (. * 10 | round / 10) else (. * 100 | round / 100) end | tostring;
      def percent: if . == null then "-" else (. * 100 | round | tostring) + " %" end;
      . as $stat | .verdicts[] | . as $v
      | ([.evidence[] | {(.name): .value}] | add // {}) as $e
      | ($stat.phases[] | select(.phase == $v.phase and .model == $v.model)) as $p
      | "| \($name) | \($threads) | \(.phase) | \($p.tokens_per_s | three) | \($e.gb_per_s | three) | \($e.of_peak_gb_per_s | percent) | \($e.gflop_per_s | three) | " +
        "\($e.of_peak_gflop_per_s | percent) | \($e.flop_per_byte | three) (\($e.ridge | three)) | \($p.wait_share | percent), \($p.off_cpu_share | percent) | " +
        "\(.bound)\(if .among != [] then " (" + (.among | join(", ")) + ")" else "" end) | \(.confidence) |"'
  done
done
