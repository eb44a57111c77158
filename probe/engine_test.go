// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// madeUp is the engine of testdata/engine.c at work.
type madeUp struct {
	t    *testing.T
	cmd  *exec.Cmd
	elf  *target.ELF
	file []engine.File
	in   io.Writer
	out  *bufio.Reader
}

func newMadeUp(t *testing.T) *madeUp {
	t.Helper()
	needBPF(t)
	path := filepath.Join(t.TempDir(), "engine")
	if out, err := exec.Command("cc", "-O1", "-pthread", "-o", path,
		"testdata/engine.c").CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v\n%s", err, out)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	elf, err := target.OpenELF(f, path)
	if err != nil {
		t.Fatal(err)
	}
	m := &madeUp{t: t, cmd: exec.Command(path), elf: elf, file: []engine.File{{Path: path, Open: path}}}
	m.in, _ = m.cmd.StdinPipe()
	out, _ := m.cmd.StdoutPipe()
	m.out = bufio.NewReader(out)
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.cmd.Process.Kill(); m.cmd.Wait() })
	return m
}

// do has it do what a line says.
func (m *madeUp) do(line string) {
	m.t.Helper()
	fmt.Fprintln(m.in, line)
	if s, err := m.out.ReadString('\n'); err != nil || s != "done\n" {
		m.t.Fatalf("%s: %q, %v", line, s, err)
	}
}

func (m *madeUp) site(name string, role engine.Role) engine.Site {
	m.t.Helper()
	sym, ok := m.elf.Lookup(name)
	off, in := m.elf.FileOffset(sym.Addr)
	if !ok || !in {
		m.t.Fatalf("no function %s", name)
	}
	return engine.Site{Offset: off, Addr: sym.Addr, Where: name, Role: role,
		A: engine.Arg{Kind: engine.ArgReg}, B: engine.Arg{Kind: engine.ArgReg, Reg: 1}}
}

// none is a layout without anything in it.
func none() engine.Layout {
	const x = engine.Absent
	return engine.Layout{GraphUID: x, PlanThreads: x, BatchNTokens: x, BatchPos: x, BatchSeqID: x,
		BatchLogits: x, VecBegin: x, VecEnd: x,
		VecSeqHead: x, VecSeqVal: x, VecPos: x, VecOutput: x, TensorOp: x, ChooseOp: x}
}

// Where steps of two contexts run at once, operators are kept that can be of the one that is wanted.
func TestPhasesAtOnce(t *testing.T) {
	m := newMadeUp(t)
	s, err := Open(Config{Filter: Filter{Phases: PhaseDecode}})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	l := none()
	l.BatchNTokens, l.ParamsIth, l.ParamsNth = 0, 0, 4
	a, err := s.Process(m.cmd.Process.Pid, &l)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Detach()
	begin := m.site("step_begin", engine.RoleStepBegin)
	begin.Batch = engine.BatchPointer
	if err := a.Attach(m.file, []engine.Site{begin, m.site("step_end", engine.RoleStepEnd),
		m.site("op_begin", engine.RoleOpBegin)}); err != nil {
		t.Fatal(err)
	}
	var e Events
	for range 3 { // the phases of a step do not outlast it
		m.do("phases")
		s.Drain(&e)
		if len(e.Hits) != 2 || e.Hits[1].Arg <= e.Hits[0].Arg {
			t.Errorf("operators %+v; wanted are the one beside a step of many tokens and the one after it",
				e.Hits)
		}
		if l := s.Lost(); l != (Lost{Filtered: 2}) {
			t.Errorf("lost %+v", l)
		}
	}
}

// What was known of a graph's number is not known of that of another program in the same process.
func TestGraphNumbersOfAnotherProgram(t *testing.T) {
	m := newMadeUp(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	l := none()
	l.GraphNNodes, l.GraphNodes, l.GraphUID = 0, 8, 16
	l.TensorSize, l.TensorSrc, l.MaxSrc, l.TensorViewSrc = 32, 8, 2, 24
	l.Always = []engine.Region{{Off: 0, Len: 8}}
	var shapes []uint64
	ends := 0
	run := func() {
		t.Helper()
		a, err := s.Process(m.cmd.Process.Pid, &l)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Attach(m.file, []engine.Site{m.site("graph_begin", engine.RoleGraphBegin)}); err != nil {
			t.Fatal(err)
		}
		m.do("graph")
		m.do("graph")
		var e Events
		s.Drain(&e)
		ends += len(e.ShapeEnds)
		for _, x := range e.Marks {
			shapes = append(shapes, x.Shape)
		}
		if err := a.Detach(); err != nil {
			t.Fatal(err)
		}
		s.Drain(&e)
		a.Release()
	}
	run()
	m.do("change")
	run()
	if len(shapes) != 4 || shapes[0] == 0 || shapes[0] != shapes[1] || shapes[2] != shapes[3] ||
		shapes[1] == shapes[2] {
		t.Errorf("shapes %#x: the third graph is another, with the number of the first", shapes)
	}
	if ends != 2 {
		t.Errorf("%d definitions, want one of each", ends)
	}
}

// Batches are read to their end, and what is beyond what is read is counted.
func TestLargeBatch(t *testing.T) {
	at := newSleeper(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	l := none()
	l.BatchNTokens = 0 // the seconds
	at.site.Role, at.site.Batch, at.site.B = engine.RoleStepBegin, engine.BatchPointer,
		engine.Arg{Kind: engine.ArgReg, Reg: 2}
	for n, want := range map[int]int32{20_000: 20_000, 300_000: 1 << 18} {
		c, next := at.start(t, fmt.Sprintf("exec sleep %d", n))
		a, err := s.Process(c.Process.Pid, &l)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Attach(at.file(), []engine.Site{at.site}); err != nil {
			t.Fatal(err)
		}
		next()
		var e Events
		for range 500 {
			if s.Drain(&e); len(e.Marks) > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		c.Process.Kill()
		if len(e.Marks) == 0 {
			t.Skip("sleep does not call the C library here")
		}
		var read int32
		for _, q := range e.Seqs {
			read += q.NTokens
		}
		lost := s.Lost().Reads
		if int(e.Marks[0].NTokens) != n || read != want || (lost != 0) != (read != int32(n)) {
			t.Errorf("a batch of %d: %d tokens, of sequences %d, want %d; %d reads lost", n,
				e.Marks[0].NTokens, read, want, lost)
		}
		a.Detach()
	}
}

// A step that runs while a file is probed that is not mapped is observed completely all the same.
func TestReady(t *testing.T) {
	m := newMadeUp(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	l := none()
	a, err := s.Process(m.cmd.Process.Pid, &l)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Detach()
	sites := []engine.Site{m.site("graph_begin", engine.RoleGraphBegin)}
	for _, unmapped := range []bool{true, false} {
		m.file[0].Unmapped = unmapped
		if err := a.Attach(m.file, sites); err != nil {
			t.Fatal(err)
		}
		if (a.Ready == 0) != unmapped {
			t.Errorf("unmapped %v: ready at %d", unmapped, a.Ready)
		}
	}
}

// Threads have a place of their own for whether their begin was written, whatever their numbers.
func TestThreadNumbers(t *testing.T) {
	n := threadNumbers()
	if n <= 300 || n > maxTID { // the least that the kernel takes for pid_max is 301
		t.Errorf("%d numbers of threads", n)
	}
	if uint32(os.Getpid()) >= n {
		t.Errorf("process %d is not among %d numbers", os.Getpid(), n)
	}
}

// Probes of single links belong to the main thread: the kernel takes them away where it ends before the
// others. Of uprobe_multi links they stay.
func TestMainThreadEnds(t *testing.T) {
	f, unused := Multi()
	for _, single := range []bool{true, false} {
		if !single && (f.Err != nil || unused != "") {
			continue
		}
		m := newMadeUp(t)
		s, err := Open(Config{single: single})
		if err != nil {
			t.Fatal(err, VerifierLog(err))
		}
		defer s.Close()
		l := none()
		a, err := s.Process(m.cmd.Process.Pid, &l)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Detach()
		if err := a.Attach(m.file, []engine.Site{m.site("op_begin", engine.RoleOpBegin)}); err != nil {
			t.Fatal(err)
		}
		var e Events
		m.do("phases")
		s.Drain(&e)
		before := len(e.Hits)
		m.do("leave")
		time.Sleep(100 * time.Millisecond)
		m.do("phases")
		s.Drain(&e)
		if t.Logf("single links: %v: %d hits before the main thread ended, %d after", single, before,
			len(e.Hits)); before != 4 || !single && len(e.Hits) != 4 || single &&
			a.OutlivesMain() != (len(e.Hits) == 4) {
			t.Errorf("that is not what is told")
		}
	}
}
