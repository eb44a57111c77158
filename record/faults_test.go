// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/target"
)

// opened tells which of some files are opened from now on, by anybody.
func opened(t *testing.T, paths ...string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	of := map[int32]string{}
	for _, p := range paths {
		w, err := unix.InotifyAddWatch(fd, p, unix.IN_OPEN)
		if err != nil {
			t.Fatal(err)
		}
		of[int32(w)] = filepath.Base(p)
	}
	return func() (got []string) {
		b := make([]byte, 1<<16)
		n, err := unix.Read(fd, b)
		if err != nil {
			return nil
		}
		for b = b[:n]; len(b) >= unix.SizeofInotifyEvent; b = b[unix.SizeofInotifyEvent+int(b[12]):] {
			w := int32(b[0]) | int32(b[1])<<8 | int32(b[2])<<16
			if !slices.Contains(got, of[w]) {
				got = append(got, of[w])
			}
		}
		slices.Sort(got)
		return got
	}
}

func bigFile(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("GGUF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2*minData); err != nil {
		t.Fatal(err)
	}
	return path
}

func device(t *testing.T, path string) string {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Skipf("no devices can be made here: %v", err)
	}
	if f, err := os.Open(path); err != nil {
		t.Skipf("no devices can be opened here: %v", err)
	} else {
		f.Close()
	}
	return path
}

// What a command line names is opened only if it is a regular file, large enough for a model, and inside of
// the process's root.
func TestNamedFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(dir, "small")
	if err := os.WriteFile(small, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	model, link := bigFile(t, filepath.Join(dir, "model")), filepath.Join(dir, "link")
	if err := os.Symlink("model", link); err != nil {
		t.Fatal(err)
	}
	named := func(words ...string) (paths []string) {
		t.Helper()
		cmd := exec.Command("sh", append([]string{"-c", "sleep 60 & wait", "sh"}, words...)...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		defer func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() }()
		for range 200 { // until it has executed
			if got, _ := target.Cmdline(cmd.Process.Pid); len(got) >= len(words) && got[0] == "sh" {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		m := memory{files: make(map[fileKey]*dataFile)}
		for _, d := range m.named(cmd.Process.Pid) {
			paths = append(paths, d.path)
			d.f.Close()
		}
		slices.Sort(paths)
		return paths
	}
	dev := device(t, filepath.Join(dir, "device"))
	events := opened(t, pipe, small, model, dev)
	if got, want := named(pipe, "--log-file", dev, "small", "-m", "link", "/proc/kmsg", "/proc/kcore",
		"../../none"), []string{link}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got, want := events(), []string{"model"}; !slices.Equal(got, want) {
		t.Errorf("opened %q, want %q", got, want)
	}
}

// A process in a root of its own names files of that root, whatever .. and links it writes.
func TestNamedInRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: no chroot")
	}
	out, root := t.TempDir(), t.TempDir()
	secret := bigFile(t, filepath.Join(out, "secret"))
	inside := filepath.Join(root, out)
	for _, err := range []error{os.MkdirAll(inside, 0o755), os.Symlink(secret, filepath.Join(root, "link")),
		os.Symlink("/proc/self/root"+secret, filepath.Join(root, "magic"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	own := bigFile(t, filepath.Join(root, "own"))
	// A copy of this test waits there.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	exe, err := os.Create(filepath.Join(root, "waits"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = exe.ReadFrom(self); err == nil {
		err = exe.Chmod(0o755)
	}
	exe.Close()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/waits", "-test.run=TestWaits", "--", "/../../../.."+secret, secret, "/link",
		"/magic", "/own")
	cmd.Env = []string{"PROFINFER_TEST_WAITS=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	if _, err := said.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	events := opened(t, secret, own)
	m := memory{files: make(map[fileKey]*dataFile)}
	for _, d := range m.named(cmd.Process.Pid) {
		if d.path != "/own" {
			t.Errorf("found %s", d.path)
		}
		d.f.Close()
	}
	if got, want := events(), []string{"own"}; !slices.Equal(got, want) {
		t.Errorf("opened %q, want %q", got, want)
	}
}

// TestWaits is a process for others to look at.
func TestWaits(t *testing.T) {
	if os.Getenv("PROFINFER_TEST_WAITS") == "" {
		t.Skip("it is run by other tests")
	}
	os.Stdout.WriteString("x")
	os.Stdin.Read(make([]byte, 1))
}

// A device that is mapped is not opened for that, and what was refused is not looked at again.
func TestMappedFiles(t *testing.T) {
	dir := t.TempDir()
	dev, model, small := device(t, filepath.Join(dir, "device")), bigFile(t, filepath.Join(dir, "model")),
		filepath.Join(dir, "small")
	if err := os.WriteFile(small, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dev, model, small} {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(b)
	}
	events := opened(t, dev, model, small)
	m := memory{files: make(map[fileKey]*dataFile)}
	for _, want := range [][]string{{"model", "small"}, nil} {
		m.read(os.Getpid())
		m.mapped(os.Getpid())
		if got := events(); !slices.Equal(got, want) {
			t.Errorf("opened %q, want %q", got, want)
		}
	}
	for k, d := range m.files {
		if d.path == model {
			d.f.Close()
			delete(m.files, k)
			return
		}
	}
	t.Errorf("%s was not found", model)
}
