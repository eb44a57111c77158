// SPDX-License-Identifier: Apache-2.0

//go:build linux

package safeopen

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const stranger, admin = 64711, 64712

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	t.Setenv("SUDO_UID", "")
	t.Setenv("SUDO_GID", "")
	probe := filepath.Join(t.TempDir(), "x")
	must(t, os.WriteFile(probe, nil, 0o600))
	if err := os.Chown(probe, stranger, stranger); err != nil {
		t.Skip(err)
	}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func is(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	st, err := os.Lstat(path)
	must(t, err)
	if string(b) != want || st.Mode() != mode {
		t.Errorf("%s: %q, %v; want %q, %v", filepath.Base(path), b, st.Mode(), want, mode)
	}
}

func TestWrite(t *testing.T) {
	was := AllNamed
	defer func() { AllNamed = was }()
	for _, AllNamed = range []bool{was, true} {
		testWrite(t)
	}
}

func testWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	ours := func(b []byte) bool { return strings.HasPrefix(string(b), "ours") }
	must(t, Write(path, false, ours, text("ours 1")))
	is(t, path, "ours 1", 0o600)
	must(t, os.Chmod(path, 0o644), Write(path, false, ours, text("ours 2")))
	is(t, path, "ours 2", 0o600)
	must(t, os.Chmod(path, 0o400), Write(path, false, ours, text("ours 3")))
	is(t, path, "ours 3", 0o400) // what was stricter stays so
	must(t, os.Chmod(path, 0o600), os.WriteFile(path, []byte("theirs"), 0))
	if err := Write(path, false, ours, text("ours")); err == nil || !strings.Contains(err.Error(), "-o") {
		t.Error(err)
	}
	is(t, path, "theirs", 0o600)
	failed := errors.New("failed")
	if err := Write(path, true, ours, func(w io.Writer) error {
		io.WriteString(w, "half")
		return failed
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	is(t, path, "theirs", 0o600)
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("out", link), Write(link, true, ours, text("by a link")))
	is(t, path, "by a link", 0o600)
	if to, err := os.Readlink(link); err != nil || to != "out" {
		t.Errorf("%q, %v", to, err)
	}
	for _, bad := range []string{dir, dir + "/", filepath.Join(dir, "none", "x"), filepath.Join(path, "x"),
		filepath.Join(dir, ".")} {
		if err := Write(bad, true, ours, text("x")); err == nil {
			t.Errorf("%s was written", bad)
		}
	}
	es, err := os.ReadDir(dir)
	must(t, err)
	if len(es) != 2 {
		t.Errorf("left over: %v", es)
	}
}

// While a page is written, who owns the folder can put a link in the place of the file that it is written to.
func TestWriteReplacedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	home, victim := filepath.Join(dir, "home"), filepath.Join(dir, "shadow")
	defer func(was bool) { AllNamed = was }(AllNamed)
	AllNamed = true // without a name there is nothing to replace
	must(t, os.Mkdir(home, 0o755), os.WriteFile(victim, []byte("secret"), 0o600))
	_ = Write(filepath.Join(home, "run.html"), true, nil, func(w io.Writer) error {
		es, err := os.ReadDir(home)
		must(t, err)
		tmp := filepath.Join(home, es[0].Name())
		must(t, os.Rename(tmp, tmp+".old"), os.Symlink(victim, tmp))
		_, err = io.WriteString(w, "page")
		return err
	})
	is(t, victim, "secret", 0o600)
}

// A folder that is renamed while a file in it is written, and another one put in its place, leads nowhere
// else.
func TestFolderReplacedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	home, roots := filepath.Join(dir, "home"), filepath.Join(dir, "roots")
	must(t, os.Mkdir(home, 0o755), os.Mkdir(roots, 0o755))
	must(t, Write(filepath.Join(home, "run.html"), true, nil, func(w io.Writer) error {
		must(t, os.Rename(home, home+".old"), os.Symlink(roots, home))
		_, err := io.WriteString(w, "page")
		return err
	}))
	is(t, filepath.Join(home+".old", "run.html"), "page", 0o600)
	if es, err := os.ReadDir(roots); err != nil || len(es) > 0 {
		t.Errorf("%v, %v", es, err)
	}
}

// Whose links root follows.
func TestLinksOfOthers(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink("real", filepath.Join(dir, "folder")),
		os.Symlink("real/file", filepath.Join(dir, "file")))
	for _, owner := range []int{0, admin, stranger} {
		for _, name := range []string{"folder", "file"} {
			must(t, os.Lchown(filepath.Join(dir, name), owner, owner))
		}
		for _, sudo := range []string{"", "64712"} {
			t.Setenv("SUDO_UID", sudo)
			t.Setenv("SUDO_GID", sudo)
			for _, path := range []string{"folder/x", "file", "folder/../file"} {
				p, err := At(filepath.Join(dir, path))
				follows := owner == 0 || owner == admin && sudo != ""
				var le *LinkError
				if (err == nil) != follows || err != nil && (!errors.As(err, &le) || int(le.UID) != owner) {
					t.Errorf("a link of %d, by sudo of %q: %s: %v", owner, sudo, path, err)
				}
				if err == nil {
					p.Close()
				}
			}
			made := filepath.Join(dir, "folder", "new")
			if err := MkdirAll(made); (err == nil) != (owner == 0 || owner == admin && sudo != "") {
				t.Errorf("%d, %q: %v", owner, sudo, err)
			}
			os.Remove(filepath.Join(dir, "real", "new"))
		}
	}
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	if _, err := At(filepath.Join(dir, "loop")); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
}

// What is written where it is: never another user's file, nor one that has a second name.
func TestEmpty(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	must(t, os.WriteFile(path, []byte("older"), 0o666), os.Chmod(path, 0o666))
	p, err := At(path)
	must(t, err)
	defer p.Close()
	must(t, os.Chown(path, stranger, stranger))
	if _, err := p.Empty("out", Private); err == nil {
		t.Error("another user's file was emptied")
	}
	must(t, os.Chown(path, 0, 0), os.Link(path, path+".2"))
	if _, err := p.Empty("out", Private); err == nil {
		t.Error("a file with two names was emptied")
	}
	is(t, path, "older", 0o666)
	must(t, os.Remove(path+".2"))
	f, err := p.Empty("out", Private)
	must(t, err)
	f.Close()
	is(t, path, "", 0o600)
}

// Streams of this process are written to, as -o /dev/stdout and >(command) are.
func TestStreams(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(w.Fd())))
	must(t, Write(path, true, nil, text("piped")), w.Close())
	b, err := io.ReadAll(r)
	if err != nil || string(b) != "piped" {
		t.Errorf("%q, %v", b, err)
	}
	must(t, Write("/dev/null", true, nil, text("nothing")))
	if err := Write("/dev/null", false, nil, text("nothing")); err == nil {
		t.Error("a device was written to that nobody named")
	}
	file := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(file)
	must(t, err)
	defer f.Close()
	must(t, Write(filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd()))), true, nil, text("to a file")))
	is(t, file, "to a file", 0o644)
}

// Whose a new file is.
func TestOwner(t *testing.T) {
	asRoot(t)
	t.Setenv("SUDO_UID", "64712")
	t.Setenv("SUDO_GID", "64712")
	for _, c := range []struct {
		folder          int
		private, public uint32
	}{{0, admin, 0}, {admin, admin, admin}, {stranger, 0, 0}} {
		dir := t.TempDir()
		must(t, os.Chown(dir, c.folder, c.folder))
		p, err := At(filepath.Join(dir, "x"))
		must(t, err)
		for name, want := range map[string]uint32{"private": c.private, "public": c.public} {
			f, err := p.Create(name, map[string]fs.FileMode{"private": Private, "public": Public}[name])
			must(t, err)
			st, err := f.Stat()
			must(t, err)
			if got := st.Sys().(*syscall.Stat_t).Uid; got != want {
				t.Errorf("%s in a folder of %d belongs to %d, want %d", name, c.folder, got, want)
			}
			f.Close()
			if _, err := p.Create(name, Private); !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		}
		p.Close()
	}
}
