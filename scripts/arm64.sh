#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# An emulated arm64 machine with hardware counters, to test profinfer on: Debian's arm64 kernels and Debian's
# llama.cpp in qemu-system-aarch64, without KVM, without root. All of it is an initramfs: no disk, no modules, no
# network but lo. docs/arm64.md says what it shows and what it cannot.
#
#   arm64.sh setup                  download and unpack kernels and programs, once (does nothing where they are)
#   arm64.sh run [FILE...] -- CMD   boot with the FILEs in /job, run CMD there with sh, end with its status.
#                                   What CMD leaves in /out comes to $OUT. 125: the machine could not be booted,
#                                   or did not get to its end.
#   arm64.sh status                 what is there
#
# Environment:
#   PROFINFER_ARM64  its folder (default: arm64 in the folder of the engines, see CONTRIBUTING.md)
#   OUT        run: folder for what comes back, made if it is not there (default: nothing comes back)
#   KERNEL     trixie | sid: that release's, 6.12 and 7.2 when this was written    (default trixie)
#   PMU        insn    cycles and instructions; the same run always counts the same; one CPU by default
#              cycles  cycles only, two CPUs that run at the same time
#              off     no counters: perf_event_open gives ENOENT                   (default insn)
#   IPC_SHIFT  with PMU=insn: an instruction takes 2^N ns and 2^N cycles           (default 1)
#   SMP        CPUs                        (default 1 with insn, else 2)
#   CPU        of qemu's                   (default neoverse-n1: ggml takes its armv8.2_2 code)
#   MEM        memory                      (default 1500M)
#   LIMIT      seconds until it is ended   (default 600)
#   QEMU       qemu-system-aarch64 to use
#   DEBIAN     setup: address of a Debian mirror (default: the one this system's apt uses)
set -euo pipefail

fail() {
  echo "arm64.sh: $*" >&2
  exit "$failed"
}
failed=1

cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
state=${PROFINFER_ARM64:-${PROFINFER_ENGINES:-${cache:-/var/cache}/profinfer}/arm64}
# What setup makes changes with this number: a folder of another one is made again.
recipe=1
packages=(busybox-static llama.cpp-tools llama.cpp-examples)
releases=(trixie sid)

# retry COMMAND...: three times, as mirrors and networks have bad moments
retry() {
  local n
  for n in 1 2 3; do
    "$@" && return 0
    [ "$n" = 3 ] || { echo "arm64.sh: ${*:2} failed, again in $((n * 10)) s" >&2; sleep $((n * 10)); }
  done
  return 1
}

# apt64 COMMAND...: runs one of apt's in a world of its own: arm64 only, nothing installed, nothing of this system's
# changed. How the network is reached (proxies, certificates) is this system's.
apt64() { APT_CONFIG=$state/apt/apt.conf "$@"; }

keyring() { # prints the file with the keys of Debian's archive
  local f=/usr/share/keyrings/debian-archive-keyring.gpg
  if [ ! -e $f ]; then # Ubuntu: from its package, which need not be installed
    mkdir -p "$state/keyring"
    (cd "$state/keyring" && apt-get -qq download debian-archive-keyring && dpkg -x debian-archive-keyring_*.deb .) >&2 ||
      fail "the keys of Debian's archive are not here: install the package debian-archive-keyring"
    f=$state/keyring$f
  fi
  echo "$f"
}

apt_world() {
  local a=$state/apt mirror key r
  # shellcheck disable=SC2016 # apt's own variables
  mirror=${DEBIAN:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 -E '/debian/?$' || true)}
  [ -n "$mirror" ] || fail "no Debian mirror is among apt's sources here: name one in DEBIAN"
  key=$(keyring)
  mkdir -p "$a/lists/partial" "$a/cache/archives/partial" "$a/state"
  : >"$a/state/status"
  : >"$a/sources.list"
  for r in "${releases[@]}"; do
    echo "deb [arch=arm64 signed-by=$key] $mirror $r main" >>"$a/sources.list"
  done
  # A mirror that is not updated daily has a list of sid past its Valid-Until, which is a week: a month is taken
  # (apt.conf(5)). A proxy's address can have a password: the file is nobody else's, and does not stay.
  rm -f "$a/apt.conf"
  (umask 077 && : >"$a/apt.conf")
  {
    apt-config dump Acquire::http Acquire::https
    cat <<CONF
APT::Architecture "arm64"; #clear APT::Architectures; APT::Architectures { "arm64"; };
APT::Install-Recommends "false"; APT::Sandbox::User "root";
#clear Acquire::Languages; Acquire::Languages { "none"; };
APT::Update::Error-Mode "any"; Acquire::Retries "3"; Acquire::Min-ValidTime "2678400"; Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Dir::Etc::SourceList "$a/sources.list"; Dir::Etc::SourceParts "/dev/null"; Dir::Etc::Parts "/dev/null";
Dir::Etc::Main "/dev/null"; Dir::Etc::Preferences "/dev/null"; Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$a/state"; Dir::State::status "$a/state/status"; Dir::State::Lists "$a/lists"; Dir::Cache "$a/cache"; Dir::Log "$a";
CONF
  } >"$a/apt.conf"
  retry apt64 apt-get -qq update || fail "the package lists of Debian (arm64: ${releases[*]}) cannot be had from $mirror"
}

# fetch PATTERN PACKAGE...: downloads the packages, and those of what they depend on whose file's name matches; prints
# the files
fetch() {
  local pattern=$1 list file uris sum
  shift
  uris=$(apt64 apt-get -qq -y --print-uris -o Acquire::ForceHash=SHA256 -o Dir::Cache::archives="$state/none" install "$@") ||
    fail "Debian's arm64 packages $* cannot be installed together, or are not there (any more)"
  mkdir -p "$state/debs"
  list=()
  local -A sums=()
  while read -r _ file _ sum; do
    [[ $file =~ $pattern ]] && list+=("$file") && sums[$file]=${sum#SHA256:}
  done <<<"$uris"
  [ ${#list[@]} -gt 0 ] || fail "none of the packages of $* matches $pattern: Debian has changed their names"
  # by name and version, as only some are wanted
  local want=() name version
  for file in "${list[@]}"; do
    same "${sums[$file]}" "$file" && continue
    name=${file%%_*}
    version=${file#*_}
    want+=("$name=$(printf %b "${version%_*}" | sed 's/%3a/:/')")
  done
  if [ ${#want[@]} -gt 0 ]; then
    (cd "$state/debs" && retry apt64 apt-get -qq download "${want[@]}" >&2) || fail "downloading failed: ${want[*]}"
  fi
  for file in "${list[@]}"; do
    same "${sums[$file]}" "$file" || fail "$file is not the file that Debian's lists name: try again"
  done
  printf "$state/debs/%s\n" "${list[@]}"
}

# same SUM FILE: whether the package is here, and the one that the signed lists name
same() { [ -s "$state/debs/$2" ] && sha256sum --status -c <<<"$1  $state/debs/$2"; }

kernels() {
  local r debs deb v
  mkdir -p "$state/kernel"
  for r in "${releases[@]}"; do
    rm -rf "$state/unpacked"
    mkdir "$state/unpacked"
    debs=$(fetch '^linux-(image|binary|base|modules)-[0-9]' "linux-image-cloud-arm64/$r" -t "$r")
    for deb in $debs; do dpkg -x "$deb" "$state/unpacked"; done
    v=$(find "$state/unpacked" -type f \( -name 'vmlinuz-*' -o -name vmlinuz \) | sort -V | tail -1)
    [ -n "$v" ] || fail "there is no kernel in $debs: Debian has put it elsewhere"
    cp "$v" "$state/kernel/$r"
    # shellcheck disable=SC2001 # boot/vmlinuz-VERSION, or usr/lib/modules/VERSION/vmlinuz
    sed 's#/vmlinuz$##; s#.*/\(vmlinuz-\)\{0,1\}##' <<<"$v" >"$state/kernel/$r.version"
  done
  rm -rf "$state/unpacked"
}

userland() {
  local root=$state/root debs deb d
  # Kernels of sid's come with nothing that these need; what only installing needs is left out.
  debs=$(fetch '^(busybox-static|llama|lib|gcc|zlib|openssl)' "${packages[@]}")
  rm -rf "$root"
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{dev,etc,job,out,proc,root,run,sys,tmp}
  for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done
  for deb in $debs; do
    case ${deb##*/} in libpython* | libperl* | libc-gconv* | libsystemd*) continue ;; esac
    dpkg -x "$deb" "$root"
  done
  d=${root:?}/usr
  rm -rf "$d/share" "$d/include" "$d"/lib/aarch64-linux-gnu/{gconv,perl*,engines-*} "$d"/lib/{python*,systemd}
  for deb in busybox llama-bench llama-eval-callback; do
    [ -x "$d/bin/$deb" ] || fail "$deb is missing among $debs"
  done
  init >"$root/init"
  chmod +x "$root/init"
  (cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0) >"$state/root.cpio"
  rm -rf "$root"
}

init() {
  cat <<'INIT'
#!/usr/bin/busybox sh
# the first process of the machine
export PATH=/usr/sbin:/usr/bin:/usr/local/bin HOME=/root LANG=C.UTF-8
B=/usr/bin/busybox
$B mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
$B mkdir -p /usr/local/bin /dev/shm /dev/pts
$B --install -s /usr/local/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm; mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /tmp; mount -t tmpfs tmpfs /run
mount -t tracefs tracefs /sys/kernel/tracing; mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf; mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
ip link set lo up
hostname arm64
echo -1 >/proc/sys/kernel/perf_event_paranoid
echo 0 >/proc/sys/kernel/kptr_restrict
echo "ARM64: up after $(cut -d' ' -f1 /proc/uptime) s: Linux $(uname -r)"
cd /job
sh /job/.cmd
rc=$?
cd /
if [ -n "$(ls -A /out)" ]; then
  for p in /sys/class/virtio-ports/*; do
    [ "$(cat "$p/name")" = out ] && tar -C /out -cf "/dev/${p##*/}" .
  done
fi
echo "ARM64: exit=$rc after $(cut -d' ' -f1 /proc/uptime) s"
sync
poweroff -f
INIT
}

setup() {
  local p begin=$SECONDS
  complete && return 0
  for p in apt-get:apt dpkg:dpkg cpio:cpio flock:util-linux; do
    command -v "${p%:*}" >/dev/null || fail "${p%:*} is missing: install the package ${p#*:}, as in Debian"
  done
  mkdir -p "$state"
  exec 9>"$state/lock"
  flock 9
  complete && return 0 # another process was quicker
  rm -f "$state/complete"
  echo "making the emulated arm64 machine in $state" >&2
  apt_world
  kernels
  userland
  rm -rf "$state/apt" # read once
  echo "$recipe" >"$state/complete"
  echo "made in $((SECONDS - begin)) s: kernels $(cat "$state"/kernel/*.version | paste -sd ' ')" >&2
}

complete() { [ "$(cat "$state/complete" 2>/dev/null)" = "$recipe" ] && [ -s "$state/root.cpio" ]; }

run() {
  local files=() t rc kernel=${KERNEL:-trixie} pmu=${PMU:-insn} accel smp cpu=${CPU:-neoverse-n1} clock=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    files+=("$1")
    shift
  done
  [ $# -gt 1 ] || usage
  shift
  failed=125
  complete || fail "the machine is not in $state: make it with: make arm64"
  [ -s "$state/kernel/$kernel" ] || fail "there is no kernel $kernel: KERNEL is one of ${releases[*]}"
  command -v "${QEMU:-qemu-system-aarch64}" >/dev/null || fail "qemu-system-aarch64 is missing: install the package qemu-system-arm, as in Debian"
  case $pmu in
  insn) accel=tcg smp=${SMP:-1} clock=(-icount "shift=${IPC_SHIFT:-1}") ;;
  cycles) accel=tcg,thread=multi smp=${SMP:-2} ;;
  off) accel=tcg,thread=multi smp=${SMP:-2} cpu=$cpu,pmu=off ;;
  *) fail "PMU is insn, cycles or off, not $pmu" ;;
  esac
  t=$(mktemp -d "${TMPDIR:-/tmp}/arm64.XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$t'" EXIT
  mkdir -p "$t/w/job"
  [ ${#files[@]} = 0 ] || cp -rL "${files[@]}" "$t/w/job/" || fail "a file could not be copied"
  printf '%s\n' "$*" >"$t/w/job/.cmd"
  # an initramfs may be several archives one behind the other
  cp "$state/root.cpio" "$t/initrd"
  (cd "$t/w" && find . | cpio -o -H newc --quiet -R 0:0) >>"$t/initrd"
  set +e
  timeout -k 10 "${LIMIT:-600}" "${QEMU:-qemu-system-aarch64}" -M virt,gic-version=3 -cpu "$cpu" -smp "$smp" -m "${MEM:-1500M}" \
    -accel "$accel" "${clock[@]}" -nodefaults -nographic -monitor none -serial stdio -no-reboot \
    -device virtio-serial-pci -chardev "file,id=out,path=$t/out.tar" -device virtserialport,chardev=out,name=out \
    -kernel "$state/kernel/$kernel" -initrd "$t/initrd" \
    -append "console=ttyAMA0 panic=-1 quiet loglevel=4" </dev/null 2>"$t/err" | sed -u 's/\r//g' | tee "$t/log"
  rc=${PIPESTATUS[0]}
  set -e
  cat "$t/err" >&2
  if [ -n "${OUT:-}" ]; then
    mkdir -p "$OUT"
    [ ! -s "$t/out.tar" ] || tar -C "$OUT" --no-same-owner -xf "$t/out.tar"
  fi
  if ! grep -q '^ARM64: exit=' "$t/log"; then
    [ "$rc" != 124 ] || echo "arm64.sh: not done within ${LIMIT:-600} s (LIMIT)" >&2
    echo "arm64.sh: the machine did not get to its end (qemu ended with status $rc)" >&2
    exit 125
  fi
  exit "$(sed -n 's/^ARM64: exit=\([0-9]*\).*/\1/p' "$t/log" | tail -1)"
}

usage() {
  sed -n '4,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2
  exit 2
}

case ${1:-} in
setup) setup ;;
run)
  shift
  run "$@"
  ;;
status)
  complete || fail "nothing complete in $state: make arm64"
  echo "$state: kernels $(cat "$state"/kernel/*.version | paste -sd ' ')"
  ;;
*) usage ;;
esac
