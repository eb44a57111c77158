// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/testkit"
)

var errInjected = errors.New("injected")

// failing counts what is done to names, and lets the n-th fail or end the program.
type failing struct {
	n, at int
	kill  bool
	what  string
}

func (f *failing) step(what string) error {
	f.n++
	if f.n-1 != f.at {
		return nil
	}
	f.what = what
	if f.kill {
		panic(errInjected)
	}
	return &os.PathError{Op: what, Path: "x", Err: errInjected}
}

func (f *failing) names(disk names, links bool) names {
	do := func(what string, then func() error) error {
		if err := f.step(what); err != nil {
			return err
		}
		return then()
	}
	return names{
		create: func(p string) (file *os.File, err error) {
			err = do("create", func() error { file, err = disk.create(p); return err })
			return file, err
		},
		link: func(a, b string) error {
			if !links {
				return syscall.EPERM
			}
			return do("link", func() error { return disk.link(a, b) })
		},
		rename: func(a, b string) error { return do("rename", func() error { return disk.rename(a, b) }) },
		remove: func(p string) error { return do("remove", func() error { return disk.remove(p) }) },
	}
}

// Each thing that Rotate does can fail: the recording goes on, the next Rotate works, and
// nothing is lost or told twice.
func TestRotateFails(t *testing.T) {
	for _, links := range []bool{true, false} {
		for at := 0; ; at++ {
			l, path := newLong(t)
			for range 3 {
				must(t, l.drain(), l.drain(), l.w.Rotate(3))
			}
			must(t, l.drain())
			f := &failing{at: at}
			l.w.fs = f.names(l.w.fs, links)
			err := l.w.Rotate(3)
			if f.what == "" {
				must(t, err, l.w.Close(End{}))
				if at < 5 {
					t.Errorf("only %d things were done", at)
				}
				break
			}
			var re *RotateError
			// A link that cannot be made has something in its place.
			if f.what == "link" && err != nil || f.what != "link" &&
				(!errors.As(err, &re) || !errors.Is(err, errInjected)) || l.w.Err() != nil {
				t.Fatalf("%s (%d): %v, %v", f.what, at, err, l.w.Err())
			}
			if err != nil {
				for range 5 { // failing again and again costs no more files
					f.at = f.n + at
					must(t, l.drain())
					l.w.Rotate(3)
				}
			}
			f.at = -1
			must(t, l.drain(), l.w.Rotate(3), l.drain(), l.w.Close(End{}))
			all, each := readParts(t, path)
			if len(each) != 4 && len(each) != 3 {
				t.Fatalf("%s (%d): %d files", f.what, at, len(each))
			}
			equal(t, "hit", all.Hits, l.sent.Hits[len(l.sent.Hits)-len(all.Hits):])
			equal(t, "mark", all.Marks, l.sent.Marks[len(l.sent.Marks)-len(all.Marks):])
			if _, err := os.Lstat(nextName(path)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s (%d): %v", f.what, at, err)
			}
		}
	}
}

// The recorder can be killed between any two of them: what was written is there.
func TestRotateKilledBetween(t *testing.T) {
	for _, links := range []bool{true, false} {
		for at := 0; ; at++ {
			l, path := newLong(t)
			for range 2 {
				must(t, l.drain(), l.drain(), l.w.Rotate(3))
			}
			must(t, l.drain())
			f := &failing{at: at, kill: true}
			l.w.fs = f.names(l.w.fs, links)
			func() {
				defer func() { recover() }()
				must(t, l.w.Rotate(3))
			}()
			if f.what == "" {
				break
			}
			newest := path
			if _, err := os.Stat(path); err != nil {
				if links {
					t.Fatalf("killed before %s (%d): %v", f.what, at, err)
				}
				ps, err := partsOf(path)
				must(t, err)
				newest = ps[0]
			}
			if links {
				all, _ := readPartsCut(t, path)
				sameEvents(t, all, l.sent)
			} else {
				readPart(t, newest)
			}
			// The next recording cleans up.
			w, err := CreateParts(path)
			must(t, err)
			must(t, w.Close(End{}))
			if es, _ := os.ReadDir(filepath.Dir(path)); len(es) != 1 {
				t.Errorf("left over: %v", es)
			}
		}
	}
}

// readPartsCut is readParts of files whose ends are missing.
func readPartsCut(t testing.TB, path string) (all content, n int) {
	t.Helper()
	ps, err := Parts(path)
	must(t, err)
	for _, p := range ps {
		c := readPart(t, p)
		all.Marks, all.Seqs, all.Hits, all.Sched = append(all.Marks, c.Marks...), append(all.Seqs, c.Seqs...),
			append(all.Hits, c.Hits...), append(all.Sched, c.Sched...)
	}
	return all, len(ps)
}

// A recorder that rotates all the time is killed: the files that are left follow each other.
func TestRotateKill(t *testing.T) {
	if path := os.Getenv("TRACE_TEST_ROTATE"); path != "" {
		w, err := CreateParts(path)
		if err != nil {
			panic(err)
		}
		for l := startLong(t, w); ; {
			if err := l.drain(); err != nil {
				panic(err)
			}
			if l.n%3 == 0 {
				if err := w.Rotate(4); err != nil {
					panic(err)
				}
			}
			if l.n == 30 { // as many files as are kept, and more
				os.Stdout.WriteString("!")
			}
		}
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	path := filepath.Join(t.TempDir(), "run.pinf")
	random := testkit.Rand(t)
	for range 12 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRotateKill$")
		cmd.Env = append(os.Environ(), "TRACE_TEST_ROTATE="+path)
		out, err := cmd.StdoutPipe()
		must(t, err, cmd.Start())
		_, err = io.ReadFull(out, make([]byte, 1))
		must(t, err)
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond) // somewhere in its work
		must(t, cmd.Process.Kill())
		cmd.Wait()
		all, n := readPartsCut(t, path)
		if n < 4 || len(all.Sched) == 0 {
			t.Fatalf("%d files, %d events", n, len(all.Sched))
		}
		for j, s := range all.Sched { // one a drain
			if want := all.Sched[0].Time + int64(j)*second/10; s.Time != want {
				t.Fatalf("drain %d is of %d, not %d", j, s.Time, want)
			}
		}
	}
}

func TestRotateFullDisk(t *testing.T) {
	l, path := newLong(t)
	must(t, l.drain(), l.w.Rotate(2), l.drain())
	disk := l.w.fs
	l.w.fs.create = func(string) (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	err := l.w.Rotate(2)
	var re *RotateError
	if !errors.As(err, &re) || !errors.Is(err, syscall.ENOSPC) || l.w.Err() != nil ||
		!strings.HasPrefix(err.Error(), "cannot begin a new file after "+path+": ") ||
		!strings.HasSuffix(err.Error(), "it is written on") {
		t.Fatalf("%v, %v", err, l.w.Err())
	}
	l.w.fs = disk
	must(t, l.drain(), l.w.Rotate(2), l.drain(), l.w.Close(End{}))
	all, _ := readParts(t, path)
	sameEvents(t, all, l.sent)
}

func TestRotateRefuses(t *testing.T) {
	w := NewWriter(discard{})
	must(t, w.Hits([]Hit{{Time: 1}}))
	var re *RotateError
	if err := w.Rotate(1); !errors.As(err, &re) {
		t.Errorf("rotated a stream: %v", err)
	}
	// The name leads elsewhere by now: that file is not ours.
	l, path := newLong(t)
	must(t, l.drain(), os.Rename(path, path+".mine"), os.WriteFile(path, []byte("something else"), 0o600))
	if err := l.w.Rotate(1); !errors.As(err, &re) {
		t.Errorf("took another file's name: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "something else" {
		t.Errorf("%q, %v", b, err)
	}
	// Once the name is free, the file that was moved away stays where it is.
	must(t, os.Remove(path), l.w.Rotate(1), l.drain(), l.w.Close(End{}))
	a, b := readPart(t, path+".mine"), readPart(t, path)
	a.Hits = append(a.Hits, b.Hits...)
	equal(t, "hit", a.Hits, l.sent.Hits)
	if err := l.w.Rotate(1); err == nil {
		t.Error("rotated after Close")
	}
}
