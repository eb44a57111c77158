// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/internal/crafted"
	"github.com/profinfer/profinfer/target"
)

// fakeBaseOnly is a base library, for files that are looked at only beside one.
func fakeBaseOnly(t *testing.T) engine.OpenedFile {
	return fakeEngine(t, target.AMD64, map[string]string{graphCompute: "", hookName: ""}).open(t)
}

// Files that ask for hours and gigabytes are given up within a file's budget, whatever is asked of them, or
// need little of it.
func TestCrafted(t *testing.T) {
	left := map[string]string{ // why each is left out
		"headers": "more than 1170 program headers", "chain": "symbols in a chain of its hash table",
		"symbols": "symbols", "names": "steps of work",
		"strings": "bytes to read", "insns": "steps of work", "loops": "steps of work", "calls": "calls",
		"unwind":   "records of unwind information",
		"barriers": "barriers behind its operators", "fused": "calls of fused operators",
	}
	// each instruction is looked at a few times and not once for each other
	few := map[string]bool{"exits": true, "join": true}
	for _, f := range crafted.Rows() {
		t.Run(f.Name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			path := "/x/" + f.Name + ".so"
			e, err := target.OpenELF(f, path)
			if err == nil {
				files := []engine.OpenedFile{{File: engine.File{Path: path}, ELF: e}}
				if f.Base {
					files = append([]engine.OpenedFile{fakeBaseOnly(t)}, files...)
				}
				var p *engine.Plan
				if p, err = New().PlanFiles(files); err == nil {
					err = errors.New(strings.Join(texts(p.Warnings), "\n"))
				}
				_, _ = e.Functions() // and what a backend's library is asked for
				_, _ = e.Calls("x")
				l := newLib(e)
				if fn, ok := l.fn(graphCompute); ok {
					_ = l.callsGraphCompute(fn)
				}
				spent, limit := e.Spent(), target.FileLimits
				if few[f.Name] {
					limit = target.Limits{Bytes: limit.Bytes / 4, Steps: limit.Steps / 4}
				}
				t.Logf("spent %.1f%% of the bytes, %.1f%% of the steps",
					100*float64(spent.Bytes)/float64(limit.Bytes),
					100*float64(spent.Steps)/float64(limit.Steps))
				if spent.Bytes > limit.Bytes+1<<20 || spent.Steps > limit.Steps+limit.Steps/20 {
					t.Errorf("spent %+v of %+v", spent, limit)
				}
			}
			if want := left[f.Name]; want != "" &&
				(err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
					!strings.Contains(err.Error(), "not looked at any further")) {
				t.Errorf("%v; want %q of %s", err, want, path)
			}
			if want := left[f.Name]; want == "" &&
				strings.Contains(err.Error(), "not looked at any further") {
				t.Errorf("left out: %v", err)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 { // in all, not at a time
				t.Errorf("%d MiB were allocated", n>>20)
			}
		})
	}
}

// mapped maps a file executable, as any process can.
func mapped(t *testing.T, path string, size int) func() {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Skip("no file can be mapped executable here: ", err)
	}
	return func() { _ = unix.Munmap(b) }
}

// mappingOf finds a file in this process's maps.
func mappingOf(t *testing.T, path string) target.Mapping {
	t.Helper()
	maps, err := target.Maps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(maps, func(m target.Mapping) bool { return m.Path == path && m.Exec() })
	if i < 0 {
		t.Fatalf("%s is not mapped", path)
	}
	return maps[i]
}

// A crafted file in a live process is left out by name, and not looked at again; nor is it in another
// process.
func TestLeftOutIsRemembered(t *testing.T) {
	rows := crafted.Rows()
	row := rows[slices.IndexFunc(rows, func(f *crafted.File) bool { return f.Name == "chain" })]
	path := filepath.Join(t.TempDir(), "chain.so")
	if err := row.Write(path); err != nil {
		t.Fatal(err)
	}
	defer mapped(t, path, 4096)()
	g := New()
	var none *engine.NotFound
	for i := range 3 {
		_, err := g.Plan(os.Getpid(), nil)
		if !errors.As(err, &none) || len(target.LimitErrors(err)) != 1 ||
			target.LimitErrors(err)[0].File != path {
			t.Fatalf("look %d: %v", i, err)
		}
		spent := g.all.Spent()
		if _, err := g.Plan(os.Getpid(), nil); g.all.Spent() != spent || len(target.LimitErrors(err)) != 1 {
			t.Errorf("looked at again: %+v, then %+v; %v", spent, g.all.Spent(), err)
		}
	}
	if !g.Dull(os.Getpid(), mappingOf(t, path)) {
		t.Error("its mapping would hold a thread again")
	}
}

// What a process mapped for a moment, it may map again: it is probed, too. Nothing else is said of it.
func TestUnmapped(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole := fakeEngine(t, target.AMD64, nil).file
	stays, goes, removed := write("stays.so", whole), write("goes.so", whole), write("removed.so", whole)
	other := write("other.so", []byte("no library"))
	defer mapped(t, stays, 4096)()
	var gone []target.Mapping
	for _, path := range []string{goes, removed, other} {
		unmap := mapped(t, path, 4096)
		gone = append(gone, mappingOf(t, path))
		unmap()
	}
	if err := os.Remove(removed); err != nil {
		t.Fatal(err)
	}
	gone = append(gone, gone[0], mappingOf(t, stays))
	g := New()
	plain, err := g.Plan(os.Getpid(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the files are known
		p, err := g.Plan(os.Getpid(), gone)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Files) != 2 || p.Files[1].Path != goes || !p.Files[1].Unmapped ||
			len(p.Sites) != 2*len(plain.Sites) {
			t.Fatalf("files %+v, %d sites, want the second with as many as the first, %d", p.Files, len(p.Sites),
				len(plain.Sites))
		}
		for i, s := range plain.Sites {
			if !reflect.DeepEqual(p.Sites[i], s) {
				t.Errorf("site %+v, was %+v", p.Sites[i], s)
			}
			if s.File = 1; !slices.ContainsFunc(p.Sites[len(plain.Sites):], func(x engine.Site) bool {
				return x.File == s.File && x.Offset == s.Offset && x.Role == s.Role && x.Return == s.Return
			}) {
				t.Errorf("no site %+v", s)
			}
		}
		if !slices.Equal(p.Warnings, plain.Warnings) || !slices.Equal(p.Findings, plain.Findings) {
			t.Errorf("warnings %+v, findings %+v, without it %+v, %+v", p.Warnings, p.Findings, plain.Warnings,
				plain.Findings)
		}
	}
}

// A process that maps one dear file after the other, and all processes of a recording together, have a budget
// too.
func TestSharedBudgets(t *testing.T) {
	// used up while files are opened, while they are read
	for _, bytes := range []uint64{256 << 10, 1 << 20} {
		testSharedBudget(t, target.Limits{Bytes: bytes, Steps: 1 << 20})
	}
}

func testSharedBudget(t *testing.T, limits target.Limits) {
	b := fakeEngine(t, target.AMD64, nil)
	dir := t.TempDir()
	g := New()
	g.all = target.NewBudget("a recording", limits, nil)
	for i := range 100 {
		path := filepath.Join(dir, "lib"+string(rune('a'+i%26))+string(rune('a'+i/26))+".so")
		if err := os.WriteFile(path, b.file, 0o755); err != nil {
			t.Fatal(err)
		}
		defer mapped(t, path, 4096)()
	}
	p, err := g.Plan(os.Getpid(), nil)
	var said []string
	if err != nil {
		said = []string{err.Error()}
	} else {
		said = texts(p.Warnings)
	}
	if n := strings.Count(strings.Join(said, "\n"), "not looked at any further"); n == 0 || n > 2 ||
		!strings.Contains(strings.Join(said, "\n"), "(limit of a recording)") {
		t.Errorf("%+v: that files are left out is said %d times, want once, or for the base library too",
			limits, n)
	}
	if s := g.all.Spent(); s.Bytes > limits.Bytes+1<<20 || s.Steps > limits.Steps*2 {
		t.Errorf("spent %+v of %+v", s, limits)
	}
	for id, l := range g.seen {
		if l.why != nil {
			t.Errorf("%+v is remembered for what others cost: %v", id, l.why)
		}
	}
}

// A process that maps files without end is not looked at any more at some time, nor are its threads held.
func TestProcessBudget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.so")
	if err := os.WriteFile(path, []byte("no ELF file, but mapped"), 0o755); err != nil {
		t.Fatal(err)
	}
	defer mapped(t, path, 4096)()
	m := mappingOf(t, path)
	g := New()
	started, _ := target.StartTime(os.Getpid())
	b := target.NewBudget("a process", target.Limits{Bytes: 1 << 30, Steps: 1 << 20}, g.all)
	g.procs[os.Getpid()] = spender{started, g.all, b}
	n := 0
	for ; n < 10_000; n++ {
		_, err := g.Plan(os.Getpid(), nil)
		if l := target.LimitErrors(err); len(l) > 0 {
			if l[0].Scope != "a process" || !strings.Contains(l[0].File, "process") {
				t.Errorf("%v", l[0])
			}
			break
		}
		if g.Dull(os.Getpid(), target.Mapping{Inode: 1}) {
			// else that look spent just all there is
			if _, err := g.Plan(os.Getpid(), nil); len(target.LimitErrors(err)) == 0 {
				t.Fatal("a file that nobody knows is dull")
			}
		}
	}
	if n < 10 || n == 10_000 {
		t.Errorf("given up after %d looks", n)
	}
	if !g.Dull(os.Getpid(), target.Mapping{Inode: 1}) || !g.Dull(os.Getpid(), m) {
		t.Error("its threads would be held")
	}
	spent := b.Spent()
	if _, err := g.Plan(os.Getpid(), nil); b.Spent().Steps > spent.Steps+mappingSteps ||
		len(target.LimitErrors(err)) != 1 {
		t.Errorf("looked at again: %v", err)
	}
}

// What is remembered of a file is forgotten when it is written anew, or its number given to another.
func TestRewrittenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	names := fakeEngine(t, target.AMD64, nil).label
	none := map[string]string{}
	for n := range names {
		none[n] = ""
	}
	dull := fakeEngine(t, target.AMD64, none).file
	whole := fakeEngine(t, target.AMD64, nil).file
	other := fakeEngine(t, target.AMD64,
		map[string]string{"llama_decode": "llama_encode", "llama_encode": "llama_decode"}).file
	write := func(b []byte) { // in place
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(b); err != nil || f.Truncate(int64(len(b))) != nil {
			t.Fatal(err)
		}
	}
	g := New()
	plan := func() (*engine.Plan, target.Mapping, error) {
		defer mapped(t, path, 4096)()
		p, err := g.Plan(os.Getpid(), nil)
		return p, mappingOf(t, path), err
	}
	write(dull)
	_, first, err := plan()
	if err == nil {
		t.Fatal("a plan for a file without names")
	}
	un := mapped(t, path, 4096)
	if !g.Dull(os.Getpid(), mappingOf(t, path)) {
		t.Error("a file of no interest is not remembered")
	}
	un()
	write(whole)
	p1, m, err := plan()
	if err != nil {
		t.Fatalf("written anew it was not looked at: %v", err)
	}
	if m.Inode != first.Inode {
		t.Fatalf("inode %d, then %d: the test does not write in place", first.Inode, m.Inode)
	}
	write(other)
	p2, _, err := plan()
	if err != nil {
		t.Fatal(err)
	}
	entry := func(p *engine.Plan, name string) (addr uint64) {
		for _, s := range p.Sites {
			if s.Role == engine.RoleStepBegin && s.Entry == name {
				addr = s.Addr
			}
		}
		return addr
	}
	if a, b := entry(p1, "llama_decode"), entry(p2, "llama_decode"); a == 0 || b == 0 || a == b {
		t.Errorf("llama_decode at %#x, and at %#x in the file that was written over it", a, b)
	}

	// Removed, and another file with its number.
	for range 100 {
		write(dull)
		_, was, _ := plan()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(whole)
		if _, is, err := plan(); is.Inode == was.Inode {
			if err != nil {
				t.Errorf("a library with the inode of a file of no interest was not looked at: %v", err)
			}
			return
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("this file system gives no inode's number again")
}

// failing is a file that cannot be read from an offset on.
type failing struct {
	*os.File
	from int64
}

func (f *failing) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > f.from {
		return 0, &fs.PathError{Op: "read", Path: f.Name(), Err: unix.EIO}
	}
	return f.File.ReadAt(b, off)
}

// An error of reading says nothing of the file: the next process that maps it is looked at.
func TestReadErrorIsNotRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	b := fakeEngine(t, target.AMD64, nil).file
	b = append(b, make([]byte, 256<<10)...)
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	id, err := target.Identify(fd)
	if err != nil {
		t.Fatal(err)
	}
	g := New()
	plan := func(from int64) error {
		e, err := target.OpenELF(&failing{fd, from}, path)
		if err != nil {
			return err
		}
		_, err = g.PlanFiles([]engine.OpenedFile{{File: engine.File{Path: path, ID: id}, ELF: e}})
		return err
	}
	for _, from := range []int64{64, 0x1000, 0x2000, 0x4000, 0x8000} {
		if err := plan(from); err == nil || !transient(err) && !errors.Is(err, unix.EIO) {
			t.Logf("reads fail from %#x on: %v", from, err)
		}
	}
	if err := plan(1 << 40); err != nil {
		t.Errorf("the file can be read again, and is not: %v", err)
	}
}

// texts are warnings' words.
func texts(ws []engine.Warning) (out []string) {
	for _, w := range ws {
		out = append(out, w.Text)
	}
	return out
}
