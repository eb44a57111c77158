// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Where a file can be opened by its name only, another can have the name when the probes are set: a pipe does
// not make the recorder wait, and no other file gets probes at offsets that were found in the one that was
// analysed.
func TestAttachAnotherFile(t *testing.T) {
	at := newSleeper(t)
	s, err := Open(Config{})
	if err != nil {
		t.Skip(err)
	}
	defer s.Close()
	c, _ := at.start(t, "true")
	dir := t.TempDir()
	b, err := os.ReadFile(at.path)
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(dir, "lib.so")
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(lib)
	f, err := os.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // its inode's number is not given to another
	id, err := target.Identify(f)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Process(c.Process.Pid, &engine.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	for _, role := range []engine.Role{engine.RoleStepBegin, engine.RoleOpEnd} {
		site := at.site
		site.Role, site.A = role, engine.Arg{Kind: engine.ArgReg, Reg: 2}
		for _, k := range []struct {
			name string
			put  func()
			want error
		}{
			{"the same", func() {}, nil},
			{"rewritten", func() { os.WriteFile(lib, append(b, 0), 0o755) }, ErrGone},
			{"another", func() { write(lib + ".new"); os.Rename(lib+".new", lib) }, ErrGone},
			{"a pipe", func() { os.Remove(lib); unix.Mkfifo(lib, 0o755) }, ErrGone},
			{"nothing", func() { os.Remove(lib) }, ErrGone},
		} {
			if role == engine.RoleOpEnd && k.name == "the same" {
				continue // it is gone
			}
			k.put()
			done := make(chan error, 1)
			go func() {
				done <- a.Attach([]engine.File{{Path: lib, Open: lib, ID: id}}, []engine.Site{site})
			}()
			select {
			case err := <-done:
				if !errors.Is(err, k.want) {
					t.Errorf("%v, %s: %v", role, k.name, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%v, %s: it waits", role, k.name)
			}
		}
	}
}
