// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/internal/safeopen"
)

// Process IDs are always those of profinfer's own PID namespace, as in /proc.

// ErrNoProcess means that there is no such process, or no longer.
var ErrNoProcess = errors.New("no such process")

// procError describes an error of a file below /proc.
func procError(pid int, what string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		if _, serr := os.Stat("/proc/self/stat"); serr != nil {
			return fmt.Errorf("process %d: /proc is not mounted here: %w", pid, err)
		}
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d: not allowed to read %s (it belongs to another user or is protected: needs root or CAP_SYS_PTRACE): %w", pid, what, err)
	}
	return fmt.Errorf("process %d: reading %s: %w", pid, what, err)
}

// readProc reads a file below /proc/PID, at most 64 MiB.
func readProc(pid int, name string) ([]byte, error) { return readProcUpTo(pid, name, 64<<20) }

func readProcUpTo(pid int, name string, limit int64) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		return nil, procError(pid, "/proc/"+strconv.Itoa(pid)+"/"+name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, procError(pid, "/proc/"+strconv.Itoa(pid)+"/"+name, err)
	}
	return b, nil
}

// Mapping is one line of /proc/PID/maps.
type Mapping struct {
	Start, End uint64 // addresses in the process; End is exclusive
	Offset     uint64 // of Start in the file
	Dev        uint64 // as st_dev of stat
	Inode      uint64 // 0: no file
	Path       string // as in the process's own mount namespace; "[heap]" and the like
	Perms      string // "r-xp"
	Deleted    bool   // the file no longer has a name (removed or replaced)
}

// Exec reports whether code can run there.
func (m Mapping) Exec() bool { return len(m.Perms) >= 3 && m.Perms[2] == 'x' }

// Maps reads what a process has mapped, in order of address. A process that has ended but was not waited for
// has no mappings.
func Maps(pid int) ([]Mapping, error) {
	b, err := readProc(pid, "maps")
	if err != nil {
		return nil, err
	}
	out, err := parseMaps(b)
	if err != nil {
		return out, fmt.Errorf("process %d: %w", pid, err)
	}
	return out, nil
}

// parseMaps reads lines until one that is not a mapping.
func parseMaps(b []byte) (out []Mapping, err error) {
	for line := range bytes.Lines(b) {
		m, err := parseMapping(strings.TrimSuffix(string(line), "\n"))
		if err != nil {
			return out, err
		}
		out = append(out, m)
	}
	return out, nil
}

// parseMapping reads "start-end perms offset major:minor inode   path", see proc_pid_maps(5).
func parseMapping(line string) (Mapping, error) {
	var m Mapping
	bad := func() (Mapping, error) { return m, fmt.Errorf("cannot read the mapping %q", line) }
	rest := line
	field := func() string {
		var f string
		f, rest, _ = strings.Cut(rest, " ")
		return f
	}
	from, to, ok := strings.Cut(field(), "-")
	if !ok {
		return bad()
	}
	m.Perms = field()
	off := field()
	major, minor, ok := strings.Cut(field(), ":")
	if !ok {
		return bad()
	}
	inode := field()
	var errs [6]error
	m.Start, errs[0] = strconv.ParseUint(from, 16, 64)
	m.End, errs[1] = strconv.ParseUint(to, 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(off, 16, 64)
	maj, err3 := strconv.ParseUint(major, 16, 32)
	mnr, err4 := strconv.ParseUint(minor, 16, 32)
	errs[3], errs[4] = err3, err4
	m.Inode, errs[5] = strconv.ParseUint(inode, 10, 64)
	for _, err := range errs {
		if err != nil {
			return bad()
		}
	}
	if m.End <= m.Start {
		return bad()
	}
	m.Dev = unix.Mkdev(uint32(maj), uint32(mnr))
	m.Path, m.Deleted = cleanPath(strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n"))
	if m.Inode == 0 {
		m.Deleted = false
	}
	return m, nil
}

// cleanPath removes the kernel's marker from the path of a file without a name.
func cleanPath(p string) (string, bool) {
	if s, ok := strings.CutSuffix(p, " (deleted)"); ok {
		return s, true
	}
	return p, false
}

// ExecutableFiles returns one executable mapping for each distinct file (device and inode) of a process: the
// first, in order of address.
func ExecutableFiles(maps []Mapping) []Mapping {
	type key struct{ dev, inode uint64 }
	seen := map[key]bool{}
	var out []Mapping
	for _, m := range maps {
		k := key{m.Dev, m.Inode}
		if !m.Exec() || m.Inode == 0 || seen[k] {
			continue
		}
		seen[k] = true
		out = append(out, m)
	}
	return out
}

// FindMapping finds the mapping that contains an address; maps must be in order.
func FindMapping(maps []Mapping, addr uint64) (Mapping, bool) {
	i := sort.Search(len(maps), func(i int) bool { return maps[i].End > addr })
	if i < len(maps) && addr >= maps[i].Start {
		return maps[i], true
	}
	return Mapping{}, false
}

// FileOffset is the offset in the mapping's file for an address in the process.
func (m Mapping) FileOffset(addr uint64) uint64 { return addr - m.Start + m.Offset }

// RuntimeAddr is the address in the process of the byte at offset off of the file that m maps, in m or in
// another mapping of the same file. It returns false if that byte is not mapped.
func (m Mapping) RuntimeAddr(maps []Mapping, off uint64) (uint64, bool) {
	for _, o := range maps {
		if o.Dev == m.Dev && o.Inode == m.Inode && off >= o.Offset && off-o.Offset < o.End-o.Start {
			return o.Start + (off - o.Offset), true
		}
	}
	return 0, false
}

// OpenMapped opens the very file that a process has mapped, even if it was replaced or removed since, or lies
// in another mount namespace. The path returned opens the same file as long as the process keeps the mapping.
// The caller closes the file.
func OpenMapped(pid int, m Mapping) (*os.File, string, error) {
	if m.Inode == 0 {
		return nil, "", fmt.Errorf("process %d: %s at %#x is no file", pid, orAnon(m.Path), m.Start)
	}
	link := fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
	f, err := openSame(link, m)
	if err == nil || errors.Is(err, ErrNotRegular) {
		return f, link, err
	}
	// map_files requires CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; the name as the process sees it will do if
	// the file still has one.
	if m.Deleted {
		if perr := alive(pid); perr != nil {
			return nil, "", perr
		}
		return nil, "", fmt.Errorf("%s, which process %d has mapped, was removed or replaced since; reading it through %s failed (needs root or CAP_CHECKPOINT_RESTORE, and CAP_DAC_READ_SEARCH where the process is another user's): %w", m.Path, pid, link, err)
	}
	var nerr error
	other := false // that name now belongs to another file
	for _, name := range namesOf(pid, m.Path) {
		f, e := openSame(name, m)
		switch {
		case e == nil:
			return f, name, nil
		case errors.Is(e, errOther):
			other = true
		case nerr == nil || errors.Is(nerr, fs.ErrNotExist):
			nerr = e
		}
	}
	if perr := alive(pid); perr != nil {
		return nil, "", perr
	}
	switch {
	case other:
		return nil, "", fmt.Errorf("%s is not the file that process %d has mapped: it was replaced since; reading the old one through %s failed (needs root or CAP_CHECKPOINT_RESTORE, and CAP_DAC_READ_SEARCH where the process is another user's): %w", m.Path, pid, link, err)
	case errors.Is(nerr, fs.ErrPermission):
		return nil, "", fmt.Errorf("cannot open %s, which process %d has mapped: of another user or protected, needs root or CAP_SYS_PTRACE: %w", m.Path, pid, plain(nerr))
	}
	return nil, "", fmt.Errorf("cannot open %s, which process %d has mapped: %w; nor through %s: %w", m.Path,
		pid, nerr, link, err)
}

// namesOf lists the paths that may open a file shown in maps: maps gives paths of the caller's own mount
// namespace relative to its root, and paths of others relative to their own namespace.
func namesOf(pid int, path string) []string {
	root := fmt.Sprintf("/proc/%d/root", pid)
	names := []string{root + path}
	if r, err := os.Readlink(root); err == nil && r != "/" {
		if inside, ok := strings.CutPrefix(path, r+"/"); ok { // a chroot
			names = append(names, root+"/"+inside)
		}
	}
	return append(names, path)
}

func orAnon(p string) string {
	if p == "" {
		return "anonymous memory"
	}
	return p
}

// openSame opens a regular file if it is that of a mapping. It checks the file type first: the path may be a
// pipe by now, and opening a device makes its driver act.
func openSame(path string, m Mapping) (*os.File, error) {
	f, err := safeopen.Regular(path, func(st fs.FileInfo) error {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && !(FileID{Dev: sys.Dev, Inode: sys.Ino}).mapped(m) {
			return errOther
		}
		return nil
	})
	var special *safeopen.SpecialError
	if errors.As(err, &special) {
		return nil, fmt.Errorf("%w: %w", ErrNotRegular, err)
	}
	return f, err
}

var errOther = errors.New("another file is mapped there now")

// ErrNotRegular: the process has mapped a device, or something else that is not a regular file.
var ErrNotRegular = errors.New("it cannot be looked at")

// alive is nil for a process that exists, zombies included.
func alive(pid int) error {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
		return procError(pid, "/proc", err)
	}
	return nil
}

// Stat is the content of /proc/PID/stat.
type Stat struct {
	Comm      string
	State     byte // R, S, D, T, Z, X ...
	Parent    int
	Threads   int
	StartTime time.Duration // since boot (CLOCK_BOOTTIME), resolution 10 ms
}

// userHZ: the kernel shows times in 1/100 s on every supported architecture.
const userHZ = 100

// ReadStat reads a process's parent, state, start and number of threads.
func ReadStat(pid int) (Stat, error) {
	b, err := readProc(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(string(b))
}

// parseStat reads proc_pid_stat(5). The second field, in parentheses, can contain anything.
func parseStat(s string) (Stat, error) {
	open, end := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("cannot read a process's state from %q", s)
	}
	f := strings.Fields(s[end+1:]) // f[0] is field 3, the state
	if len(f) < 20 || len(f[0]) != 1 {
		return Stat{}, fmt.Errorf("cannot read a process's state from %q", s)
	}
	parent, err1 := strconv.Atoi(f[1])
	threads, err2 := strconv.Atoi(f[17])
	ticks, err3 := strconv.ParseInt(f[19], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Stat{}, fmt.Errorf("cannot read a process's state: %w", err)
	}
	if parent < 0 || threads < 0 || ticks < 0 || ticks > math.MaxInt64/int64(time.Second/userHZ) {
		return Stat{}, fmt.Errorf("cannot read a process's state from %q", s)
	}
	return Stat{Comm: s[open+1 : end], State: f[0][0], Parent: parent, Threads: threads,
		StartTime: time.Duration(ticks) * (time.Second / userHZ)}, nil
}

// Ended reports whether the whole process has ended, waited for or not.
func (s Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// StartTime is when a process started, since boot, to 10 ms. Together with the PID it identifies a process
// uniquely.
func StartTime(pid int) (time.Duration, error) {
	s, err := ReadStat(pid)
	return s.StartTime, err
}

// Comm is the name of a process's main thread, at most 15 bytes, chosen by the process.
func Comm(pid int) (string, error) {
	b, err := readProc(pid, "comm")
	return strings.TrimSuffix(string(b), "\n"), err
}

// ThreadComm is the name of one thread.
func ThreadComm(pid, tid int) (string, error) {
	b, err := readProc(pid, fmt.Sprintf("task/%d/comm", tid))
	return strings.TrimSuffix(string(b), "\n"), err
}

// Cmdline is a process's command line as it is now, at most 2 MiB and 16,384 arguments; empty for kernel
// threads and zombies.
func Cmdline(pid int) ([]string, error) {
	b, err := readProcUpTo(pid, "cmdline", maxCmdline)
	if err != nil {
		return nil, err
	}
	return parseCmdline(b), nil
}

// A process can make its command line as long as its memory (PR_SET_MM_ARG_END). This many bytes are what
// execve accepts with the usual stack limit.
const (
	maxCmdline = 2 << 20
	maxWords   = 1 << 14
)

func parseCmdline(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	b = bytes.TrimSuffix(b[:min(len(b), maxCmdline)], []byte{0})
	words := strings.SplitN(string(b), "\x00", maxWords+1)
	return words[:min(len(words), maxWords)]
}

// Exe is the path of a process's executable, as in its mount namespace.
func Exe(pid int) (string, error) {
	p, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", procError(pid, "its executable", err)
	}
	p, _ = cleanPath(p)
	return p, nil
}

// Threads lists the thread IDs of a process in order.
func Threads(pid int) ([]int, error) {
	return numbersIn(pid, fmt.Sprintf("/proc/%d/task", pid))
}

// Processes lists all processes in /proc, in order.
func Processes() ([]int, error) { return numbersIn(0, "/proc") }

func numbersIn(pid int, dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, procError(pid, dir, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, procError(pid, dir, err)
	}
	var out []int
	for _, n := range names {
		if v, err := strconv.Atoi(filepath.Base(n)); err == nil {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out, nil
}

// ReadMem fills buf from a process's memory. An incomplete read is an error.
func ReadMem(pid int, addr uint64, buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err == nil && n == len(buf) {
		return nil
	}
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return readMemFile(pid, addr, buf)
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("process %d: reading %d bytes of its memory at %#x: %w", pid, len(buf), addr, err)
}

// readMemFile reads through /proc/PID/mem, which some sandboxes allow although they refuse process_vm_readv.
func readMemFile(pid int, addr uint64, buf []byte) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return procError(pid, "its memory", err)
	}
	defer f.Close()
	if addr > 1<<63-1 {
		return fmt.Errorf("process %d: %#x is no address of a process", pid, addr)
	}
	if n, err := f.ReadAt(buf, int64(addr)); n < len(buf) {
		return fmt.Errorf("process %d: reading %d bytes of its memory at %#x: %w", pid, len(buf), addr, err)
	}
	return nil
}
