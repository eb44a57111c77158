#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves that a fresh clone works on an empty machine: makes a minimal Debian with Go, git
# and make in a new folder, clones the repository into it, and runs make demo and make test
# there, telling how long each took. Everything else they have to find themselves.
#
#   sudo scripts/newroot.sh [--worktree] [--as WHO] [--offline] DIR [COMMAND]
#
# DIR must not exist, or be what an interrupted run left; remove it afterwards (nothing
# stays mounted). --worktree takes the files of this working tree, committed or not.
# COMMAND runs instead of "make demo && make test". Needs debootstrap.
#
# --as says who runs them there, to prove what happens without privileges:
#   root       the machine's own (default)
#   user       an ordinary user: no capability, nor a way to get one (a CI runner)
#   bare       user 0 without any capability (a container that dropped them all)
#   namespace  root of a user namespace, and of a process namespace (a rootless container)
# --offline: Go's modules are fetched first, then there is no network but the machine itself.
#
# Environment: SUITE (trixie), MIRROR (the one apt uses here). Proxies, certificates and
# settings of Go, npm and apt of this machine are carried over, nothing else.
set -euo pipefail

die() {
  echo "newroot: $*" >&2
  exit 1
}

worktree="" who=root offline=""
while [[ "${1:-}" == --* ]]; do
  case $1 in
  --worktree) worktree=1 ;;
  --offline) offline=1 ;;
  --as) who=${2:-} && shift ;;
  *) break ;;
  esac
  shift || break
done
case $who in root | user | bare | namespace) ;; *) die "--as root, user, bare or namespace, not \"$who\"" ;; esac
if [ $# -lt 1 ] || [ $# -gt 2 ] || [[ $1 == -* ]]; then
  sed -n '/^#   sudo/s/^# *//p' "$0" >&2
  exit 2
fi
root=$(realpath -m "$1")
command=${2:-}
[ "$(id -u)" = 0 ] || die "needs root, for chroot and mounts"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
suite=${SUITE:-trixie}
# shellcheck disable=SC2016  # the variable is apt's
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 -E '/debian/?$' || true)}
[ -n "$mirror" ] || die "apt has no Debian mirror here: set MIRROR"
goroot=$(go env GOROOT)
repo=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$root/.made" ]; then
  [ ! -e "$root" ] || [ -d "$root/debootstrap" ] || [ -z "$(ls -A "$root")" ] || die "$root is there and is not mine"
  echo "newroot: $suite into $root"
  debootstrap --variant=minbase --include=ca-certificates,git,make "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
    die "debootstrap failed, see $root.log"
  touch "$root/.made"
fi
mkdir -p "$root/usr/local/go"
tar -C "$goroot" --exclude=./test --exclude=./doc -cf - . | tar -C "$root/usr/local/go" -xf -
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
# certificates that this machine trusts beyond Debian's, and apt's way to the network
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
echo "deb $mirror $suite main" >"$root/etc/apt/sources.list"
home=/root owner=0 as=()
case $who in
root) ;;
bare) as=(setpriv --bounding-set=-all --inh-caps=-all --no-new-privs) ;;
*)
  home=/home/user owner=1000
  grep -q ^user: "$root/etc/passwd" || chroot "$root" useradd --uid 1000 --user-group --home-dir /home/user user
  as=(setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs)
  ;;
esac
[ "$who" != namespace ] || as+=(unshare --user --map-root-user --mount --pid --fork --mount-proc)
mkdir -p "$root$home"
# These can have passwords and tokens: they are for who runs there alone, and do not stay.
secrets=("$root/etc/apt/apt.conf.d/99host" "$root$home/.npmrc")
trap 'rm -f "${secrets[@]}"' EXIT
rm -f "${secrets[@]}"
(umask 077 && apt-config dump Acquire::http Acquire::https >"${secrets[0]}" && { [ ! -e ~/.npmrc ] || cp ~/.npmrc "${secrets[1]}"; })
chown "$owner:$owner" "${secrets[0]}"

rm -rf "$root/src"
if [ -n "$worktree" ]; then
  mkdir "$root/src"
  (cd "$repo" && git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' f; do [ -f "$f" ] && printf '%s\0' "$f"; done |
    tar --null -T - -cf -) | tar -C "$root/src" --no-same-owner -xf -
  git -C "$root/src" init -q
  git -C "$root/src" add -A
else
  git clone -q --no-local "$repo" "$root/src"
fi
chown -R "$owner:$owner" "$root$home" "$root/src"

keep=(TERM="${TERM:-dumb}" HOME="$home" LANG=C.UTF-8 PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for v in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR \
  NODE_EXTRA_CA_CERTS NPM_CONFIG_REGISTRY PROFINFER_REQUIRE_BPF PROFINFER_SEED; do
  [ -z "${!v:-}" ] || keep+=("$v=${!v}")
done
for v in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE; do keep+=("$v=$(go env $v)"); done

cat >"$root/prove" <<'P'
#!/bin/bash
set -euo pipefail
cd /src
timed() {
  local start=$SECONDS status=0
  echo "newroot: $*"
  "$@" || status=$?
  echo "newroot: $* ended with status $status after $((SECONDS - start)) s"
  return $status
}
if [ $# -gt 0 ]; then timed bash -c "$1"; else
  timed make demo
  timed make test
fi
P
chmod 755 "$root" "$root/prove"
cat >"$root/offline" <<'P'
#!/bin/sh
# A machine without a network still reaches itself: lo is up (0x8914 is SIOCSIFFLAGS, 1 IFF_UP).
perl -e '$up = pack("a16s", "lo", 1); socket(S, 2, 2, 0) && ioctl(S, 0x8914, $up) or die "lo: $!\n"' && exec "$@"
P
chmod 755 "$root" "$root/prove" "$root/offline"
run=("${as[@]}" /prove ${command:+"$command"})
[ -z "$offline" ] || run=(unshare --net /offline "${run[@]}")

# enter COMMAND...: runs it in the new root.
# Mounts of a namespace of their own vanish with it. The new root becomes the real one of
# that namespace: programs in a mere chroot may not make namespaces, which tests do.
enter() {
  # shellcheck disable=SC2016  # the inner shell expands
  unshare --mount --propagation private bash -c '
set -e
root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
cd "$root"
pivot_root . mnt
exec chroot . sh -c "umount -l /mnt && exec env -i \"\$@\"" sh "$@"' newroot "$root" "${keep[@]}" "$@"
}
[ -z "$offline" ] || enter "${as[@]}" sh -c 'cd /src && go mod download'
enter "${run[@]}"
