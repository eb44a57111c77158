// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a real full file system. It takes root to make one.
func TestFullTmpfs(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	path := filepath.Join(dir, "run.pinf")
	w, err := Create(path)
	must(t, err)
	err = record(w, 1000)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "is kept") {
		t.Fatal(err)
	}
	t.Log(err)
	if e := w.Close(End{Time: 300 * second, Reason: "interrupted"}); e != err {
		t.Fatal(e)
	}
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	c := collect(t, r)
	if len(c.Hits) == 0 || r.Problems() != nil {
		t.Errorf("%d hits, %v", len(c.Hits), r.Problems())
	}
	t.Logf("%d hits, losses %+v, ends %+v", len(c.Hits), c.Losses, c.Ends)
}

// A recording whose files fit a file system goes on in it for ever: what is removed makes room
// for what comes.
func TestRotateTmpfs(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	path := filepath.Join(dir, "run.pinf")
	run := func(limit int64, drains int) (l *long, err error) {
		w, err := CreateParts(path)
		must(t, err)
		l = startLong(t, w)
		for range drains {
			if err := l.drain(); err != nil {
				return l, err
			}
			if w.Full(limit) {
				if err := w.Rotate(1); err != nil {
					return l, err
				}
			}
		}
		return l, w.Close(End{Time: 300 * second, Reason: "interrupted"})
	}
	l, err := run(240<<10, 20_000)
	must(t, err)
	all, each := readParts(t, path)
	if len(each) != 2 || each[0].Metas[0].Part() < 4 {
		t.Fatalf("%d files, the first is part %d", len(each), each[0].Metas[0].Part())
	}
	equal(t, "hit", all.Hits, l.sent.Hits[len(l.sent.Hits)-len(all.Hits):])
	// Somebody else fills the disk: that ends the recording, and costs nothing that was written.
	must(t, os.Remove(path), os.Remove(path+".1"),
		os.WriteFile(filepath.Join(dir, "other"), make([]byte, 160<<10), 0o600))
	l, err = run(240<<10, 20_000)
	var we *WriteError
	if !errors.As(err, &we) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if e := l.w.Close(End{Time: 300 * second, Reason: "interrupted"}); e != l.w.Err() || e != error(we) {
		t.Fatal(e)
	}
	all, n := readPartsCut(t, path)
	if n != 2 || len(all.Hits) < 1000 {
		t.Fatalf("%d files, %d hits", n, len(all.Hits))
	}
	from := 0
	for l.sent.Hits[from] != all.Hits[0] {
		from++
	}
	equal(t, "hit", all.Hits, l.sent.Hits[from:from+len(all.Hits)])
}

// Where no file can be made beside it, the older one is emptied at once. To root every folder is open.
func TestOlderInClosedFolder(t *testing.T) {
	if path := os.Getenv("PROFINFER_TEST_CLOSED"); path != "" {
		w, err := Create(path)
		all(t, err)
		isOlder(t, path, false)
		all(t, w.Close(End{}))
		return
	}
	path, holds := older(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestOlderInClosedFolder$")
	if os.Getuid() == 0 {
		all(t, os.Chown(path, 65534, 65534))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		exe := filepath.Join(t.TempDir(), "trace.test") // go test's own lies where nobody else may look
		b, err := os.ReadFile(os.Args[0])
		all(t, err, os.WriteFile(exe, b, 0o755))
		all(t, os.Chmod(filepath.Dir(filepath.Dir(exe)), 0o755)) // both are below it
		cmd.Path, cmd.Dir = exe, filepath.Dir(exe)
	}
	all(t, os.Chmod(filepath.Dir(path), 0o555))
	cmd.Env = append(os.Environ(), "PROFINFER_TEST_CLOSED="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	holds("run.pinf")
	isOlder(t, path, false)
}
