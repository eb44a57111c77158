# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
#
# Sourced: the engine that scripts record, as `profinfer demo` takes it. ENGINE_ROOT is a folder to chroot into; without it
# this system's llama-bench is taken, else Debian's that `profinfer demo` has fetched.
# Wants die(), and own_models: the folder of models where no root is used. Sets root (empty: none), bench (the command),
# models (their folder) and inside (the same as bench sees it).
root=${ENGINE_ROOT:-}
if [ -z "$root" ] && ! command -v llama-bench >/dev/null; then
  root=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/profinfer/debian-sid
  [ -e "$root/.complete" ] || die "there is no llama-bench here: install llama.cpp, or let profinfer demo fetch Debian's"
fi
if [ -n "$root" ]; then
  bench=(chroot "$root" llama-bench)
  models=$root/models
  inside=/models
else
  bench=(llama-bench)
  models=$own_models
  inside=$models
fi
