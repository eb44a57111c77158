// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/docs/sample"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
)

// Two users that nobody else is: one who plants links, one who called sudo.
const planter, admin = 64711, 64712

// estate is a folder of root's with files that nobody else is to change, and one of another user's.
type estate struct {
	t           *testing.T
	roots, home string
	before      string
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: nothing of root's can be put in another's hands")
	}
	dir := t.TempDir()
	e := &estate{t: t, roots: filepath.Join(dir, "roots"), home: filepath.Join(dir, "home")}
	for _, d := range []string{e.roots, e.home, filepath.Join(e.roots, "folder")} {
		must(t, os.Mkdir(d, 0o755))
	}
	if err := os.Lchown(e.home, planter, planter); err != nil {
		t.Skip(err)
	}
	must(t, os.WriteFile(filepath.Join(e.roots, "shadow"), []byte("root:secret"), 0o600),
		os.WriteFile(filepath.Join(e.roots, "empty"), nil, 0o600),
		os.WriteFile(filepath.Join(e.roots, "run.pinf"), sample.Recording,
			0o600), os.WriteFile(filepath.Join(e.roots, "run.html"), []byte("<!doctype html>\n"), 0o600))
	if err := syscall.Mkfifo(filepath.Join(e.roots, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.before = e.state()
	return e
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// state tells everything of root's folder that is not to change.
func (e *estate) state() string {
	var b strings.Builder
	must(e.t, filepath.WalkDir(e.roots, func(path string, d fs.DirEntry, err error) error {
		st, err2 := os.Lstat(path)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		own := st.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d:%d %d", strings.TrimPrefix(path, e.roots), st.Mode(), own.Uid, own.Gid,
			own.Ino)
		if st.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			must(e.t, err)
			fmt.Fprintf(&b, " %d %q", len(text), text[:min(len(text), 40)])
		}
		b.WriteString("\n")
		return nil
	}))
	return b.String()
}

func (e *estate) untouched() {
	e.t.Helper()
	if now := e.state(); now != e.before {
		e.t.Errorf("what is root's was\n%sand is\n%s", e.before, now)
	}
}

// plant puts a file, a link, a pipe into the other user's folder, and returns its path.
func (e *estate) plant(name string, put func(path string) error) string {
	e.t.Helper()
	path := filepath.Join(e.home, name)
	must(e.t, os.MkdirAll(filepath.Dir(path), 0o755), put(path), os.Lchown(path, planter, planter))
	return path
}

func (e *estate) link(name, to string) string {
	return e.plant(name, func(path string) error { return os.Symlink(filepath.Join(e.roots, to), path) })
}

func (e *estate) file(name string, text []byte, mode fs.FileMode) string {
	return e.plant(name, func(path string) error {
		return errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, mode))
	})
}

// as runs the program as a user, by sudo of another where that is not 0. It has to end by itself.
func (e *estate) as(uid, sudo uint32, dir string, args ...string) result {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+e.home, "XDG_CACHE_HOME="+filepath.Join(e.home, "cache"),
		"SUDO_UID=", "SUDO_GID=")
	if sudo != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("SUDO_UID=%d", sudo), fmt.Sprintf("SUDO_GID=%d", sudo))
	}
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); ctx.Err() != nil {
		e.t.Errorf("%v did not end: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// owned checks whose a file is, and its mode.
func owned(t *testing.T, path string, uid uint32, mode fs.FileMode) {
	t.Helper()
	st, err := os.Lstat(path)
	must(t, err)
	if own := st.Sys().(*syscall.Stat_t); !st.Mode().IsRegular() || own.Uid != uid || own.Gid != uid ||
		st.Mode().Perm() != mode {
		t.Errorf("%s: %v of %d:%d, want %v of %d", filepath.Base(path), st.Mode(), own.Uid, own.Gid, mode,
			uid)
	}
}

// Reports and exports that root writes into the folder of another user, who has put something under their
// name.
func TestPlantedExports(t *testing.T) {
	verbs := map[string][]string{"run.html": {"report"}, "run.pftrace.gz": {"export", "--format", "perfetto"},
		"run.pb.gz": {"export", "--format", "pprof"}}
	for out, verb := range verbs {
		for _, to := range []string{"shadow", "empty", "run.html", "pipe", "none", "folder/none", "folder"} {
			for _, asked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s %v", out, to, asked), func(t *testing.T) {
					if asked && to != "empty" {
						testkit.Long(t)
					}
					e := newEstate(t)
					in := e.file("run.pinf", sample.Recording, 0o644)
					path := e.link(out, to)
					args := append(append([]string{}, verb...), "-i", in)
					if asked {
						args = append(args, "-o", path)
					}
					pipe, err := os.OpenFile(filepath.Join(e.roots, "pipe"), os.O_RDWR|syscall.O_NONBLOCK, 0)
					must(t, err)
					defer pipe.Close()
					if r := e.as(0, 0, e.home, args...); r.status != 1 ||
						!strings.Contains(r.stderr, "symbolic link of another user") {
						t.Errorf("status %d: %s", r.status, r.stderr)
					}
					e.untouched()
					must(t, pipe.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
					if n, _ := pipe.Read(make([]byte, 100)); n > 0 {
						t.Error("the pipe was written to")
					}
				})
			}
		}
	}
	t.Run("a link for the folder", func(t *testing.T) {
		e := newEstate(t)
		e.link("models", ".")
		if r := e.as(0, 0, e.home, "report", "-i", "models/run.pinf"); r.status == 0 {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		e.untouched()
	})
	t.Run("a device", func(t *testing.T) {
		e := newEstate(t)
		image := filepath.Join(filepath.Dir(e.roots), "image")
		must(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
		b, err := exec.Command("losetup", "--find", "--show", image).Output()
		if err != nil {
			t.Skip("there is no loop device: ", err)
		}
		device := strings.TrimSpace(string(b))
		defer exec.Command("losetup", "-d", device).Run()
		in := e.file("run.pinf", sample.Recording, 0o644)
		path := e.plant("run.html", func(path string) error { return os.Symlink(device, path) })
		for _, args := range [][]string{{"report", "-i", in}, {"report", "-i", in, "-o", path},
			{"report", "-i", in, "-o", device}} {
			if r := e.as(0, 0, e.home, args...); r.status != 1 {
				t.Errorf("%v: status %d: %s", args, r.status, r.stderr)
			}
		}
		b, err = os.ReadFile(device)
		must(t, err)
		if len(bytes.Trim(b, "\x00")) > 0 {
			t.Error("the device was written to")
		}
	})
	t.Run("pipes", func(t *testing.T) {
		e := newEstate(t)
		in := e.file("run.pinf", sample.Recording, 0o644)
		pipe := func(path string) error { return syscall.Mkfifo(path, 0o666) }
		e.plant("run.html", pipe)
		other := e.plant("other.pinf", pipe)
		for _, args := range [][]string{{"report", "-i", in},
			{"report", "-i", in, "-o", filepath.Join(e.home, "run.html")}} {
			if r := e.as(0, 0, e.home, args...); r.status != 1 || !strings.Contains(r.stderr, "a pipe") {
				t.Errorf("%v: status %d: %s", args, r.status, r.stderr)
			}
		}
		if r := e.as(0, 0, e.home, "stat", "-i", other); r.status != 1 {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
	})
	t.Run("what profinfer did not write", func(t *testing.T) {
		e := newEstate(t)
		in := e.file("run.pinf", sample.Recording, 0o644)
		for _, args := range [][]string{{"report"}, {"export", "--format", "perfetto"}} {
			path := e.file(map[bool]string{true: "run.html", false: "run.pftrace.gz"}[len(args) == 1],
				[]byte("a novel"), 0o644)
			if r := e.as(0, 0, e.home, append(args, "-i", in)...); r.status != 1 ||
				!strings.Contains(r.stderr, "-o") {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "a novel" {
				t.Errorf("%q, %v", b, err)
			}
			for range 2 { // named it is replaced, and what profinfer wrote without being named
				if r := e.as(0, 0, e.home, append(args, "-i", in, "-o", path)...); r.status != 0 {
					t.Errorf("status %d: %s", r.status, r.stderr)
				}
				owned(t, path, 0, 0o600)
			}
			if r := e.as(0, 0, e.home, append(args, "-i", in)...); r.status != 0 {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
		}
	})
}

// Recordings that root makes in the folder of another user.
func TestPlantedRecordings(t *testing.T) {
	needBPF(t)
	eng := engines.Debian(t)
	_, inside := engines.Model(t, eng, "llama-tiny")
	record := func(out string, more ...string) []string {
		return append(append([]string{"record", "-o", out}, more...),
			append([]string{"--"}, eng.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "30",
				"-r", "1")...)...)
	}
	for _, to := range []string{"shadow", "empty", "run.pinf", "pipe", "none", "folder/none", "folder"} {
		for _, parts := range [][]string{nil, {"--switch-output", "1M"}} {
			t.Run(fmt.Sprint(to, parts), func(t *testing.T) {
				if parts != nil && to != "run.pinf" {
					testkit.Long(t)
				}
				e := newEstate(t)
				e.link("run.pinf", to)
				if r := e.as(0, 0, e.home, record("run.pinf", parts...)...); r.status != 1 ||
					!strings.Contains(r.stderr, "symbolic link") {
					t.Errorf("status %d: %s", r.status, r.stderr)
				}
				e.untouched()
			})
		}
	}
	t.Run("beside", func(t *testing.T) { // names that the recorder gives its files itself
		e := newEstate(t)
		e.file("run.pinf", sample.Recording, 0o666)
		if r := e.as(0, 0, e.home, record("run.pinf")...); r.status != 0 {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		owned(t, filepath.Join(e.home, "run.pinf"), 0, 0o600)
		e.untouched()
		for _, name := range []string{"run.pinf.1", "run.pinf.next"} {
			e := newEstate(t)
			e.link(name, "run.pinf")
			if r := e.as(0, 0, e.home, record("run.pinf", "--switch-output", "1M")...); r.status != 1 {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
			e.untouched()
		}
	})
	t.Run("an older file of another user", func(t *testing.T) {
		e := newEstate(t)
		for _, text := range []string{string(sample.Recording), ""} {
			os.Remove(filepath.Join(e.home, "run.pinf"))
			path := e.file("run.pinf", []byte(text), 0o666)
			held, err := os.Open(path) // by who wants to read on
			must(t, err)
			defer held.Close()
			if r := e.as(0, 0, e.home, record("run.pinf")...); r.status != 0 {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
			owned(t, path, 0, 0o600)
			if st, err := held.Stat(); err != nil || st.Size() != int64(len(text)) {
				t.Errorf("the older file has %d bytes, had %d: %v", st.Size(), len(text), err)
			}
		}
	})
	t.Run("hard links", func(t *testing.T) {
		e := newEstate(t)
		for _, to := range []string{"empty", "run.pinf"} {
			path := filepath.Join(e.home, "run.pinf")
			os.Remove(path)
			must(t, os.Link(filepath.Join(e.roots, to), path))
			if r := e.as(0, 0, e.home, record("run.pinf")...); r.status != 0 {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
			owned(t, path, 0, 0o600)
			e.untouched()
		}
	})
	t.Run("no trace", func(t *testing.T) {
		e := newEstate(t)
		path := e.file("model.gguf", []byte("GGUF and 40 GB"), 0o644)
		if r := e.as(0, 0, e.home, record(path)...); r.status != 1 || !strings.Contains(r.stderr, "--force") {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "GGUF and 40 GB" {
			t.Errorf("%q, %v", b, err)
		}
		if r := e.as(0, 0, e.home, record(path, "--force")...); r.status != 0 {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		if _, err := os.Lstat(path); err != nil || len(load(t, path).steps) == 0 {
			t.Error("it was not replaced: ", err)
		}
	})
}

// The folder of demo's models, its lock, and the file of a model.
func TestPlantedModels(t *testing.T) {
	e := newEstate(t)
	for _, out := range []string{"folder", "folder/new"} {
		e.link("models", strings.TrimSuffix(out, "/new"))
		dir := "models" + strings.TrimPrefix(out, "folder")
		if r := e.as(0, 0, e.home, "demo", "--model", "llama-tiny", "-o", dir); r.status != 1 ||
			!strings.Contains(r.stderr, "symbolic link of another user") {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		e.untouched()
		os.Remove(filepath.Join(e.home, "models"))
	}
	e.link("models/llama-tiny-q4_0.gguf.part", "shadow")
	e.link("models/llama-tiny-q4_0.gguf", "none")
	if r := e.as(0, 0, e.home, "demo", "--model", "llama-tiny", "-o", "models"); r.status != 1 {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	e.untouched()
	os.Remove(filepath.Join(e.home, "models/llama-tiny-q4_0.gguf"))
	if r := e.as(0, 0, e.home, "demo", "--model", "llama-tiny", "-o", "models"); r.status != 0 {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	e.untouched()
	owned(t, filepath.Join(e.home, "models/llama-tiny-q4_0.gguf"), 0, 0o644)
}

// What root records by sudo is read by the user who called it, and by no other.
func TestSudo(t *testing.T) {
	needBPF(t)
	eng := engines.Debian(t)
	_, inside := engines.Model(t, eng, "llama-tiny")
	command := append([]string{"--"},
		eng.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "200", "-r", "1")...)
	bin := filepath.Join(t.TempDir(), "profinfer") // where the user can run it
	b, err := os.ReadFile(program)
	must(t, err, os.Chmod(filepath.Dir(filepath.Dir(bin)), 0o755), os.WriteFile(bin, b, 0o755))
	was := program
	program = bin
	defer func() { program = was }()
	for _, c := range []struct {
		name     string
		folder   uint32
		readable bool
	}{{"the user's folder", admin, true}, {"root's folder", 0, true}, {"a third's folder", planter, false}} {
		t.Run(c.name, func(t *testing.T) {
			if c.folder == 0 {
				testkit.Long(t)
			}
			e := newEstate(t)
			must(t, os.Chmod(filepath.Dir(filepath.Dir(e.home)), 0o755),
				os.Chmod(filepath.Dir(e.home), 0o755), os.Lchown(e.home, int(c.folder), int(c.folder)))
			path := filepath.Join(e.home, "run.pinf")
			// a new one, one in place of an older, one in parts
			for _, more := range [][]string{nil, nil, {"--switch-output", "1M"}} {
				if r := e.as(0, admin, e.home,
					append(append([]string{"record", "--level", "op"}, more...),
						command...)...); r.status != 0 {
					t.Fatalf("record: status %d: %s", r.status, r.stderr)
				}
				owner := uint32(0)
				if c.readable {
					owner = admin
				}
				files, err := filepath.Glob(path + "*")
				must(t, err)
				for _, f := range files {
					owned(t, f, owner, 0o600)
				}
				if r := e.as(planter, 0, e.home, "stat"); r.status != 1 ||
					!strings.Contains(r.stderr, "permission denied") {
					t.Errorf("another user reads it: status %d: %s", r.status, r.stderr)
				}
				r := e.as(admin, 0, e.home, "stat")
				if (r.status == 0) != c.readable {
					t.Errorf("stat: status %d: %s", r.status, r.stderr)
				}
				if !c.readable {
					if !strings.Contains(r.stderr, "sudo") {
						t.Errorf("it is not told what to do: %s", r.stderr)
					}
					continue
				}
				out := filepath.Join(e.home, "run.html")
				if c.folder == 0 { // where the user writes nothing
					out = filepath.Join(t.TempDir(), "run.html")
					must(t, os.Lchown(filepath.Dir(out), admin, admin))
				}
				if r := e.as(admin, 0, e.home, "report", "-o", out); r.status != 0 {
					t.Errorf("report: status %d: %s", r.status, r.stderr)
				}
				owned(t, out, admin, 0o600)
				if c.folder != 0 {
					if r := e.as(0, admin, e.home, "report"); r.status != 0 {
						t.Errorf("report by sudo: status %d: %s", r.status, r.stderr)
					}
					owned(t, out, admin, 0o600)
				}
				e.serves()
			}
		})
	}
}

// serves has the user serve the recording of the folder for a moment.
func (e *estate) serves() {
	e.t.Helper()
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0")
	cmd.Dir = e.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: admin, Gid: admin}}
	out, err := cmd.StdoutPipe()
	must(e.t, err, cmd.Start())
	line := make([]byte, 200)
	n, _ := out.Read(line)
	if !strings.HasPrefix(string(line[:n]), "http://127.0.0.1:") {
		e.t.Errorf("serve: %q", line[:n])
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		e.t.Errorf("serve: %v", err)
	}
}
