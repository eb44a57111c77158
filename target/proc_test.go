// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseMapping(t *testing.T) {
	for _, c := range []struct {
		line string
		want Mapping
	}{
		{"7f0c4a000000-7f0c4a021000 r-xp 00001000 fe:01 131090                     /usr/lib/libm.so.6",
			Mapping{0x7f0c4a000000, 0x7f0c4a021000, 0x1000, unix.Mkdev(0xfe, 1), 131090, "/usr/lib/libm.so.6",
				"r-xp", false}},
		{"00400000-00452000 r-xp 00000000 08:02 173521      /opt/a b/prog (deleted)",
			Mapping{0x400000, 0x452000, 0, unix.Mkdev(8, 2), 173521, "/opt/a b/prog", "r-xp", true}},
		{"7ffc0000-7ffd0000 rw-p 00000000 00:00 0                          [stack]",
			Mapping{0x7ffc0000, 0x7ffd0000, 0, 0, 0, "[stack]", "rw-p", false}},
		{"7ffc0000-7ffd0000 rw-p 00000000 00:00 0 ",
			Mapping{0x7ffc0000, 0x7ffd0000, 0, 0, 0, "", "rw-p", false}},
		{"1000-2000 r-xp 00000000 103:12345 7 /x",
			Mapping{0x1000, 0x2000, 0, unix.Mkdev(0x103, 0x12345), 7, "/x", "r-xp", false}},
		{`1000-2000 r--s 00000000 00:01 7 /memfd:a\012b (deleted)`,
			Mapping{0x1000, 0x2000, 0, 1, 7, "/memfd:a\nb", "r--s", true}},
	} {
		got, err := parseMapping(c.line)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v; want %+v", c.line, got, err, c.want)
		}
	}
	for _, s := range []string{"", "x", "1-2", "1-2 r-xp 0 8:1", "g-2 r-xp 0 8:1 5 x", "1-2 r-xp 0 8 5 x",
		"1-2 r-xp 0 8:1 x /y", "12 r-xp 0 8:1 5 x"} {
		if m, err := parseMapping(s); err == nil {
			t.Errorf("%q was read as %+v", s, m)
		}
	}
}

func TestExecutableFiles(t *testing.T) {
	maps := []Mapping{
		{Start: 1, Dev: 1, Inode: 5, Perms: "r--p"}, {Start: 2, Dev: 1, Inode: 5, Perms: "r-xp"}, {Start: 3,
			Dev: 1, Inode: 5, Perms: "rwxp"},
		{Start: 4, Dev: 2, Inode: 5, Perms: "r-xp"}, {Start: 5, Inode: 0, Perms: "r-xp",
			Path: "[vdso]"}, {Start: 6, Dev: 1, Inode: 6, Perms: "r-"},
	}
	var got []uint64
	for _, m := range ExecutableFiles(maps) {
		got = append(got, m.Start)
	}
	if !slices.Equal(got, []uint64{2, 4}) {
		t.Errorf("%v, want those at 2 and 4", got)
	}
}

func TestParseStat(t *testing.T) {
	s, err := parseStat("42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 12 0 123456 1 2 3")
	want := Stat{Comm: "a) b (c", State: 'S', Parent: 7, Threads: 12, StartTime: 1234560 * time.Millisecond}
	if err != nil || s != want {
		t.Errorf("%+v, %v; want %+v", s, err, want)
	}
	for _, bad := range []string{"", "1 (x", "1 )x( S", "1 (x) S 1 2",
		"1 (x) S z 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 12 0 1 1"} {
		if s, err := parseStat(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, s)
		}
	}
	for _, c := range []struct {
		s    Stat
		want bool
	}{{Stat{State: 'Z', Threads: 1}, true}, {Stat{State: 'X'}, true}, {Stat{State: 'Z', Threads: 2},
		false}, {Stat{State: 'S', Threads: 1}, false}} {
		if c.s.Ended() != c.want {
			t.Errorf("%+v: ended %v", c.s, !c.want)
		}
	}
}

func FuzzProcText(f *testing.F) {
	const stat = "42 (a) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 12 0 123456 1 2 3"
	f.Add("1000-2000 r--s 00000000 00:01 7 /memfd:a (deleted)\n7f00-7f01 r-xp 0 08:02 0 [vdso]\n")
	f.Add(stat)
	f.Add("1 (x) S 1 1 1 0 -1 1 -1 0 -9 0 0 0 0 0 0 0 -3 0 9223372036854775807")
	f.Add("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n")
	f.Add("rchar: 1\nread_bytes: 4096\nwrite_bytes: -1\n")
	f.Add("llama-server\x00-m\x00\x00model.gguf\x00")
	f.Fuzz(func(t *testing.T, s string) {
		maps, err := parseMaps([]byte(s))
		if len(maps) > 1+strings.Count(s, "\n") || err == nil && s != "" && len(maps) == 0 {
			t.Fatalf("%d mappings, %v", len(maps), err)
		}
		for _, m := range maps {
			if m.End <= m.Start || m.Deleted && m.Inode == 0 {
				t.Fatalf("%+v", m)
			}
			if got, ok := m.RuntimeAddr([]Mapping{m}, m.FileOffset(m.Start)); !ok || got != m.Start {
				t.Fatalf("%+v: its start is at %#x (%v)", m, got, ok)
			}
		}
		ExecutableFiles(maps)
		if st, err := parseStat(s); err == nil && (st.Threads < 0 || st.StartTime < 0 || st.Parent < 0) {
			t.Fatalf("%+v", st)
		}
		if a, err := parseFaults(s); err == nil && (a.Minor < 0 || a.Major < 0) {
			t.Fatalf("%+v", a)
		}
		if n := parseRead([]byte(s)); n < -1 {
			t.Fatalf("%d bytes read", n)
		}
		if mode, ok := parseSeccomp([]byte(s)); mode != strings.TrimSpace(mode) || !ok && mode != "" {
			t.Fatalf("mode %q", mode)
		}
		words := parseCmdline([]byte(s))
		if len(words) > maxWords || len(words) < maxWords && len(s) < maxCmdline &&
			strings.Join(words, "\x00") != strings.TrimSuffix(s, "\x00") {
			t.Fatalf("%q", words)
		}
	})
}

// A process can show 64 MiB of nothing but ends of words as its command line (PR_SET_MM_ARG_END).
func TestHugeCmdline(t *testing.T) {
	text := make([]byte, 64<<20)
	text[0] = 'x'
	n := testing.AllocsPerRun(1, func() {
		if w := parseCmdline(text); len(w) != maxWords || w[0] != "x" {
			t.Errorf("%d words, the first %q", len(w), w[0])
		}
	})
	if n > 8 {
		t.Errorf("%v allocations", n)
	}
}

func TestProcess(t *testing.T) {
	before := boottime(t)
	h := startHelper(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if st, err := ReadStat(h.pid); err != nil || st.Parent != os.Getpid() {
		t.Errorf("parent %d, %v; want %d", st.Parent, err, os.Getpid())
	}
	if c, err := Comm(h.pid); err != nil || c != filepath.Base(self)[:min(15, len(filepath.Base(self)))] {
		t.Errorf("comm %q, %v", c, err)
	}
	if c, err := ThreadComm(h.pid, h.pid); err != nil || c == "" {
		t.Errorf("thread's comm %q, %v", c, err)
	}
	if a, err := Cmdline(h.pid); err != nil || !slices.Equal(a, []string{self}) {
		t.Errorf("command line %q, %v", a, err)
	}
	if e, err := Exe(h.pid); err != nil || e != self {
		t.Errorf("executable %q, %v; want %q", e, err, self)
	}
	if ids, err := Threads(h.pid); err != nil || len(ids) < 2 || ids[0] != h.pid {
		t.Errorf("threads %v, %v", ids, err)
	}
	if ids, err := Processes(); err != nil || !slices.Contains(ids, h.pid) || !slices.IsSorted(ids) {
		t.Errorf("the helper is not among the processes (%v)", err)
	}
	st, err := StartTime(h.pid)
	if err != nil || int64(st) < before-int64(20*time.Millisecond) || int64(st) > boottime(t) {
		t.Errorf("started at %v, %v; between %d and %d", st, err, before, boottime(t))
	}
}

func TestNoProcess(t *testing.T) {
	h := startHelper(t, "")
	h.stop()
	var buf [4]byte
	_, e1 := Maps(h.pid)
	_, e2 := Threads(h.pid)
	_, e3 := Exe(h.pid)
	_, e4 := Cmdline(h.pid)
	e5 := ReadMem(h.pid, 0x1000, buf[:])
	e6 := readMemFile(h.pid, 0x1000, buf[:])
	_, _, e7 := OpenMapped(h.pid, Mapping{Start: 0x1000, End: 0x2000, Inode: 5, Path: "/bin/sh"})
	_, _, e8 := OpenMapped(h.pid, Mapping{Start: 0x1000, End: 0x2000, Inode: 5, Path: "/bin/sh",
		Deleted: true})
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8} {
		if !errors.Is(err, ErrNoProcess) {
			t.Errorf("%d: %v; want ErrNoProcess", i+1, err)
		}
	}
}

func TestReadMem(t *testing.T) {
	h := startHelper(t, "")
	for name, read := range map[string]func(int, uint64, []byte) error{"process_vm_readv": ReadMem,
		"mem": readMemFile} {
		buf := make([]byte, 16)
		if err := read(h.pid, h.secret, buf); err != nil || string(buf) != string(secret[:]) {
			t.Errorf("%s: %q, %v", name, buf, err)
		}
		for _, addr := range []uint64{0, 0x10, 1 << 62, ^uint64(0)} {
			if err := read(h.pid, addr, buf); err == nil {
				t.Errorf("%s: reading at %#x succeeded", name, addr)
			}
		}
	}
	maps, err := Maps(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(maps, func(m Mapping) bool { return m.Path == "[stack]" })
	if i < 0 {
		t.Fatal("no stack")
	}
	if err := ReadMem(h.pid, maps[i].End-8, make([]byte, 16)); err == nil {
		t.Error("reading over the end of a mapping succeeded")
	}
}

func exeMapping(t *testing.T, pid int, path string) Mapping {
	t.Helper()
	maps, err := Maps(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ExecutableFiles(maps) {
		if m.Path == path {
			return m
		}
	}
	t.Fatalf("%s is not among what process %d has mapped: %v", path, pid, maps)
	return Mapping{}
}

func TestMapsAndAddresses(t *testing.T) {
	h := startHelper(t, "")
	self, _ := os.Executable()
	m := exeMapping(t, h.pid, self)
	maps, err := Maps(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, o := range ExecutableFiles(maps) {
		if o.Inode == m.Inode && o.Dev == m.Dev {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the executable is listed %d times", n)
	}
	// The bytes in the process at an address of code are the file's.
	e := openFile(t, self)
	var code uint64
	for _, r := range e.Ranges() {
		if r.Exec {
			code = r.Start + (r.End-r.Start)/2
		}
	}
	off, ok := e.FileOffset(code)
	if !ok {
		t.Fatal("no file offset")
	}
	addr, ok := m.RuntimeAddr(maps, off)
	if !ok {
		t.Fatal("not mapped")
	}
	back, ok := FindMapping(maps, addr)
	if !ok || back.FileOffset(addr) != off {
		t.Errorf("%#x maps back to %#x, want %#x", addr, back.FileOffset(addr), off)
	}
	live, file := make([]byte, 32), make([]byte, 32)
	if err := ReadMem(h.pid, addr, live); err != nil {
		t.Fatal(err)
	}
	if err := e.ReadAddr(code, file); err != nil || string(live) != string(file) {
		t.Errorf("in memory % x, in the file % x, %v", live, file, err)
	}
	if _, ok := FindMapping(maps, 1); ok {
		t.Error("a mapping at address 1")
	}
	if _, ok := m.RuntimeAddr(maps, 1<<40); ok {
		t.Error("an offset beyond the file is mapped")
	}
}

// mapFilesWork: opening through map_files needs a capability.
func mapFilesWork(t *testing.T, pid int, m Mapping) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End))
	if err != nil {
		needsRoot(t, "cannot open through map_files: %v", err)
		return
	}
	f.Close()
}

func openMapped(t *testing.T, pid int, m Mapping) (inode uint64, path string) {
	t.Helper()
	f, path, err := OpenMapped(pid, m)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenELF(f, path); err != nil {
		t.Error(err)
	}
	// The path has to lead to the same file, for a probe to be placed by it.
	g, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var st2 unix.Stat_t
	if err := unix.Fstat(int(g.Fd()), &st2); err != nil || st2.Ino != st.Ino || st2.Dev != st.Dev {
		t.Errorf("%s is another file", path)
	}
	return st.Ino, path
}

func TestOpenMapped(t *testing.T) {
	bin := copySelf(t, t.TempDir())
	h := startHelper(t, bin)
	m := exeMapping(t, h.pid, bin)
	if ino, _ := openMapped(t, h.pid, m); ino != m.Inode {
		t.Errorf("inode %d, want %d", ino, m.Inode)
	}
	// Without map_files (no such range), by name.
	byName := m
	byName.Start++
	if ino, path := openMapped(t, h.pid, byName); ino != m.Inode ||
		path != fmt.Sprintf("/proc/%d/root%s", h.pid, bin) {
		t.Errorf("inode %d through %s, want %d", ino, path, m.Inode)
	}

	// Replaced: another file has the name now.
	if err := os.Rename(bin, bin+".old"); err != nil {
		t.Fatal(err)
	}
	copySelf(t, filepath.Dir(bin))
	if _, _, err := OpenMapped(h.pid, byName); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("replaced file, by name: %v", err)
	}
	mapFilesWork(t, h.pid, m)
	if ino, _ := openMapped(t, h.pid, m); ino != m.Inode {
		t.Errorf("replaced: inode %d, want %d", ino, m.Inode)
	}

	// Deleted.
	if err := os.Remove(bin + ".old"); err != nil {
		t.Fatal(err)
	}
	del := exeMapping(t, h.pid, bin+".old")
	if !del.Deleted || del.Inode != m.Inode {
		t.Errorf("after removal: %+v", del)
	}
	if ino, _ := openMapped(t, h.pid, del); ino != m.Inode {
		t.Errorf("deleted: inode %d, want %d", ino, m.Inode)
	}
	del.Start++
	if _, _, err := OpenMapped(h.pid, del); err == nil ||
		!strings.Contains(err.Error(), "CAP_CHECKPOINT_RESTORE") {
		t.Errorf("deleted, without map_files: %v", err)
	}
	if _, _, err := OpenMapped(h.pid, Mapping{Path: "[heap]", Start: m.Start, End: m.End}); err == nil {
		t.Error("the heap was opened as a file")
	}
}

func TestOpenMappedNotRegular(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(fifo, &st); err != nil {
		t.Fatal(err)
	}
	// A pipe in the file's place must not make the open wait for a writer.
	if _, _, err := OpenMapped(os.Getpid(),
		Mapping{Start: 1, End: 2, Dev: st.Dev, Inode: st.Ino, Path: fifo}); err == nil {
		t.Error("a pipe was opened")
	}
}

func TestOpenMappedChroot(t *testing.T) {
	permitted(t, "chroot", &syscall.SysProcAttr{Chroot: "/"}, "true")
	dir := t.TempDir()
	if e := openFile(t, copySelf(t, dir)); len(e.Needed()) > 0 {
		t.Skip("the test executable needs libraries (it is built for the race detector), which are not in its new root")
	}
	h := startHelper(t, "/helper", func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
		c.Dir = "/"
	})
	// A process sees paths from its own root; /proc shows them from ours.
	maps, err := Maps(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	files := ExecutableFiles(maps)
	if len(files) == 0 {
		t.Fatal("no executable file is mapped")
	}
	openMapped(t, h.pid, files[0])
}

func TestOpenMappedNamespace(t *testing.T) {
	dir := t.TempDir()
	permitted(t, "mounting in a namespace of its own",
		&syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, "mount", "-t", "tmpfs", "none", dir)
	bin := copySelf(t, t.TempDir())
	// A tmpfs that only the helper sees hides dir.
	script := fmt.Sprintf("mount -t tmpfs none %s && cp %s %s/helper && exec %s/helper", dir, bin, dir, dir)
	h := startHelper(t, "sh", func(c *exec.Cmd) {
		c.Args = []string{"sh", "-c", script}
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	})
	if _, err := os.Stat(filepath.Join(dir, "helper")); err == nil {
		t.Skip("the mount is visible here: no namespace of its own")
	}
	m := exeMapping(t, h.pid, filepath.Join(dir, "helper"))
	if ino, _ := openMapped(t, h.pid, m); ino != m.Inode {
		t.Errorf("inode %d, want %d", ino, m.Inode)
	}
	m.Start++ // by name in the process's own mount namespace
	if ino, path := openMapped(t, h.pid, m); ino != m.Inode || !strings.Contains(path, "/root/") {
		t.Errorf("inode %d through %s, want %d", ino, path, m.Inode)
	}
}

func boottime(t *testing.T) int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}
