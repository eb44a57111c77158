// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/safeopen"
)

const (
	olderText = "an older recording"
	theNew    = "(the new one)" // beside it, where it needs a name
)

// bothNamed runs a test as on file systems that have files without a name and on those that have not.
func bothNamed(t *testing.T, test func(t *testing.T)) {
	for _, all := range []bool{safeopen.AllNamed, true} {
		t.Run(map[bool]string{true: "named", false: "unnamed"}[all], func(t *testing.T) {
			defer func(was bool) { safeopen.AllNamed = was }(safeopen.AllNamed)
			safeopen.AllNamed = all
			test(t)
		})
	}
}

// older writes a file as an older recording, and returns its path and a function that tells what the folder
// holds.
func older(t *testing.T, names ...string) (path string, holds func(want ...string)) {
	t.Helper()
	dir := t.TempDir()
	for _, n := range append([]string{"run.pinf"}, names...) {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(fileMagic+olderText), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "run.pinf"), func(want ...string) {
		t.Helper()
		es, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range es {
			if strings.HasPrefix(e.Name(), ".run.pinf.") {
				got = append(got, theNew)
			} else {
				got = append(got, e.Name())
			}
		}
		if !safeopen.AllNamed {
			want = slices.DeleteFunc(want, func(s string) bool { return s == theNew })
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the folder holds %v, want %v", got, want)
		}
	}
}

func isOlder(t *testing.T, path string, want bool) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b) == fileMagic+olderText; got != want {
		t.Errorf("%s is the older recording: %v, want %v", filepath.Base(path), got, want)
	}
}

func all(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An older recording stays until the new one has a hit or a mark; then it is replaced at once, permissions
// and all.
func TestOlderIsReplaced(t *testing.T) { bothNamed(t, olderIsReplaced) }

func olderIsReplaced(t *testing.T) {
	for _, first := range []string{"hits", "marks"} {
		path, holds := older(t)
		w, err := Create(path)
		all(t, err)
		all(t, w.Meta(Meta{Tool: "new"}), w.Sched([]Sched{{Time: 5}}), w.Drain(10), w.Flush())
		isOlder(t, path, true)
		holds("run.pinf", theNew)
		if first == "hits" {
			all(t, w.Hits([]Hit{{Time: 20, TID: 1}}))
		} else {
			all(t, w.Marks([]Mark{{Time: 20, TID: 1}}))
		}
		isOlder(t, path, true) // it is buffered
		all(t, w.Drain(30), w.Flush())
		holds("run.pinf")
		isOlder(t, path, false)
		all(t, w.Close(End{Time: 40, Reason: "done"}))
		m, err := metaOf(path)
		if err != nil || m.Tool != "new" {
			t.Errorf("%+v, %v", m, err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", st.Mode(), err)
		}
	}
}

// The ends of a recording that came to nothing: whoever calls says which.
func TestOlderStays(t *testing.T) { bothNamed(t, olderStays) }

func olderStays(t *testing.T) {
	t.Run("discarded", func(t *testing.T) {
		path, holds := older(t)
		w, err := Create(path)
		all(t, err)
		all(t, w.Meta(Meta{}), w.Discard(), w.Discard())
		holds("run.pinf")
		isOlder(t, path, true)
		if w.Hits([]Hit{{}}) == nil || w.Close(End{}) != nil {
			t.Error("it goes on")
		}
	})
	t.Run("closed", func(t *testing.T) { // it was asked for, if nothing is in it
		path, holds := older(t)
		w, err := Create(path)
		all(t, err)
		all(t, w.Close(End{Reason: "done"}))
		holds("run.pinf")
		isOlder(t, path, false)
	})
	t.Run("there was none", func(t *testing.T) {
		path, holds := older(t)
		all(t, os.Remove(path))
		w, err := Create(path)
		all(t, err)
		holds("run.pinf")
		all(t, w.Discard())
		holds()
	})
	t.Run("it was empty", func(t *testing.T) {
		path, holds := older(t)
		all(t, os.Truncate(path, 0))
		w, err := Create(path)
		all(t, err)
		holds("run.pinf")
		all(t, w.Close(End{}))
	})
	t.Run("the disk is full", func(t *testing.T) {
		path, holds := older(t)
		w, err := Create(path)
		all(t, err)
		w.w = noRoom{}
		all(t, w.Hits([]Hit{{Time: 20, TID: 1}}))
		if err := w.Flush(); err == nil || !strings.Contains(err.Error(), "nothing was recorded") {
			t.Errorf("%v", err)
		}
		if err := w.Close(End{}); err == nil {
			t.Error("it was closed without an error")
		}
		holds("run.pinf")
		isOlder(t, path, true)
	})
	t.Run("another was made meanwhile", func(t *testing.T) {
		path, holds := older(t)
		w, err := Create(path)
		all(t, err)
		all(t, os.Remove(path), os.WriteFile(path, []byte("mine"), 0o644), w.Hits([]Hit{{Time: 20, TID: 1}}))
		if err := w.Flush(); err == nil || !strings.Contains(err.Error(), "it is kept") {
			t.Errorf("%v", err)
		}
		w.Close(End{})
		holds("run.pinf")
		if b, _ := os.ReadFile(path); string(b) != "mine" {
			t.Errorf("%q", b)
		}
	})
	t.Run("it was removed meanwhile", func(t *testing.T) {
		path, holds := older(t)
		w, err := Create(path)
		all(t, err)
		all(t, os.Remove(path), w.Hits([]Hit{{Time: 20, TID: 1}}), w.Close(End{}))
		holds("run.pinf")
		isOlder(t, path, false)
	})
	t.Run("the new one was removed meanwhile", func(t *testing.T) {
		if !safeopen.AllNamed {
			t.Skip("it has no name that could be taken")
		}
		path, holds := older(t)
		w, err := Create(path)
		all(t, err)
		names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".run.pinf.*"))
		all(t, os.Remove(names[0]), os.WriteFile(names[0], nil, 0o644), w.Hits([]Hit{{Time: 20, TID: 1}}))
		if err := w.Flush(); err == nil {
			t.Error("another file was given its name")
		}
		w.Close(End{})
		isOlder(t, path, true)
		_ = holds
	})
}

type noRoom struct{}

func (noRoom) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A link stays a link.
func TestOlderLink(t *testing.T) { bothNamed(t, olderLink) }

func olderLink(t *testing.T) {
	path, holds := older(t)
	link := filepath.Join(filepath.Dir(path), "link.pinf")
	all(t, os.Symlink("run.pinf", link))
	w, err := Create(link)
	all(t, err)
	holds("run.pinf", theNew, "link.pinf")
	all(t, w.Hits([]Hit{{Time: 20, TID: 1}}), w.Close(End{}))
	holds("run.pinf", "link.pinf")
	isOlder(t, path, false)
	if to, err := os.Readlink(link); err != nil || to != "run.pinf" {
		t.Errorf("%q, %v", to, err)
	}
	// One that leads nowhere leads to the new file then.
	all(t, os.Remove(path))
	w, err = Create(link)
	all(t, err)
	all(t, w.Close(End{}))
	holds("run.pinf", "link.pinf")
}

// The older recording's other files go when it goes, and no file is ended before.
func TestOlderParts(t *testing.T) { bothNamed(t, olderParts) }

func olderParts(t *testing.T) {
	path, holds := older(t, "run.pinf.1", "run.pinf.2")
	w, err := CreateParts(path)
	all(t, err)
	all(t, w.Sched([]Sched{{Time: 5}}), w.Drain(10), w.Flush(), w.Rotate(2))
	holds("run.pinf", "run.pinf.1", "run.pinf.2", theNew)
	all(t, w.Discard())
	holds("run.pinf", "run.pinf.1", "run.pinf.2")

	w, err = CreateParts(path)
	all(t, err)
	all(t, w.Meta(Meta{Start: 1}), w.Hits([]Hit{{Time: 20, TID: 1}}), w.Drain(30), w.Flush())
	holds("run.pinf")
	all(t, w.Rotate(2))
	holds("run.pinf", "run.pinf.1")
	isOlder(t, path+".1", false)
	all(t, w.Hits([]Hit{{Time: 40, TID: 1}}), w.Close(End{}))

	// Without a newest one, too.
	all(t, os.Remove(path))
	w, err = CreateParts(path)
	all(t, err)
	holds("run.pinf", "run.pinf.1")
	all(t, w.Discard())
	holds("run.pinf.1")
}

// Recordings are their owner's alone, all parts of them, and what was stricter stays so.
func TestPrivate(t *testing.T) {
	for _, c := range []struct{ older, want os.FileMode }{{0, 0o600}, {0o644, 0o600}, {0o600, 0o600},
		{0o666, 0o600}, {0o400, 0o400}} {
		if c.older == 0o400 && os.Geteuid() != 0 {
			continue // it may not be replaced
		}
		path, _ := older(t)
		if c.older == 0 {
			all(t, os.Remove(path))
		} else {
			all(t, os.Chmod(path, c.older))
		}
		w, err := CreateParts(path)
		all(t, err)
		l := startLong(t, w)
		for range 3 {
			all(t, l.drain(), l.drain(), l.w.Rotate(5))
		}
		all(t, l.drain(), l.w.Close(End{}))
		files, err := filepath.Glob(path + "*")
		all(t, err)
		if len(files) != 4 {
			t.Errorf("%v", files)
		}
		for _, f := range files {
			if st, err := os.Stat(f); err != nil || st.Mode() != c.want {
				t.Errorf("older %v: %s is %v, %v", c.older, filepath.Base(f), st.Mode(), err)
			}
		}
	}
}

// Parts of an older recording that became something else meanwhile are not removed.
func TestOlderPartsChanged(t *testing.T) {
	path, holds := older(t, "run.pinf.1", "run.pinf.2", "run.pinf.3")
	w, err := CreateParts(path)
	all(t, err)
	all(t, os.Remove(path+".1"), os.WriteFile(path+".1", []byte("a thesis"), 0o600),
		os.WriteFile(path+".2", []byte("longer than a trace's first words"), 0o600))
	all(t, w.Hits([]Hit{{Time: 20, TID: 1}}), w.Drain(30), w.Flush())
	holds("run.pinf", "run.pinf.1", "run.pinf.2")
	all(t, w.Close(End{}))
}

// What is no recording is replaced only by force.
func TestOlderIsNoTrace(t *testing.T) {
	for _, text := range []string{"GGUF", "P", "PIN", "PINF"} {
		path, _ := older(t)
		all(t, os.WriteFile(path, []byte(text), 0o600))
		w, err := Create(path)
		if no := text == "GGUF"; no != (err != nil) || no && !strings.Contains(err.Error(), "--force") {
			t.Errorf("%q: %v", text, err)
		}
		if b, _ := os.ReadFile(path); string(b) != text {
			t.Errorf("%q", b)
		}
		if err == nil {
			all(t, w.Discard())
		}
		w, err = Create(path, Force())
		all(t, err)
		all(t, w.Close(End{}))
		isOlder(t, path, false)
	}
}
