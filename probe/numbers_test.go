// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// sleeper is a process that can be probed where it calls clock_nanosleep(0, 0, {seconds, nanoseconds}, 0).
type sleeper struct {
	path string
	site engine.Site
}

func newSleeper(t *testing.T) sleeper {
	t.Helper()
	needBPF(t)
	path := libc(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	elf, err := target.OpenELF(f, path)
	if err != nil {
		t.Fatal(err)
	}
	sym, ok := elf.Lookup("clock_nanosleep")
	off, inFile := elf.FileOffset(sym.Addr)
	if !ok || !inFile {
		t.Skip("no clock_nanosleep in ", path)
	}
	return sleeper{path, engine.Site{Offset: off, Addr: sym.Addr, Where: "clock_nanosleep"}}
}

func (s sleeper) file() []engine.File { return []engine.File{{Path: s.path, Open: s.path}} }

// start runs sh, which goes on at each line.
func (s sleeper) start(t *testing.T, script string) (*exec.Cmd, func()) {
	t.Helper()
	c := exec.Command("sh", "-c", "read go; "+script)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c, func() { fmt.Fprintln(in, "go") }
}

// Numbers of processes and sites are used again, so that their limits are of a time and not of a recording.
func TestNumbersUsedAgain(t *testing.T) {
	at := newSleeper(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	at.site.Role, at.site.A = engine.RoleStepBegin, engine.Arg{Kind: engine.ArgReg, Reg: 2}
	c, _ := at.start(t, "true")
	sites := slices.Repeat([]engine.Site{at.site}, 40)
	owners := map[uint32]bool{}
	var e Events
	for i := range 150 { // 6,000 sites
		a, err := s.Process(c.Process.Pid, &engine.Layout{})
		if err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		if owners[a.owner] {
			t.Fatalf("process %d is not told from one before", i)
		}
		owners[a.owner] = true
		if err := a.Attach(at.file(), sites); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		if a.Drained() {
			t.Error("the numbers of a process whose probes stand are said to be free")
		}
		if err := a.Detach(); err != nil {
			t.Fatal(err)
		}
		s.Drain(&e)
		if !a.Drained() {
			t.Fatal("nothing is in the rings, and they are said not to have been drained")
		}
		a.Release()
		a.Release() // once is enough
	}
	if s.next > 40 || len(s.free) != 40 {
		t.Errorf("%d sites were taken, %d are free", s.next, len(s.free))
	}
}

// A record that is not whole yet holds back the numbers of those whose records can lie behind it.
func TestNumbersHeldBack(t *testing.T) {
	needBPF(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	a, err := s.Process(os.Getpid(), &engine.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	b := s.hits[0]
	// a thread was preempted in a probe: its slot is reserved; behind it lies a hit of this process
	*b.head += 2
	b.slots[b.next+1].Meta = uint32(a.proc)<<24 | uint32(trace.HitOpEnd)<<21
	b.slots[b.next+1].Ts = 7
	if err := a.Detach(); err != nil {
		t.Fatal(err)
	}
	var e Events
	s.Drain(&e)
	if e.Complete || a.Drained() {
		t.Fatal("a record that is not whole holds nothing back")
	}
	b.slots[b.next].Meta = uint32(a.proc)<<24 | uint32(trace.HitOpEnd)<<21
	b.slots[b.next].Ts = 6
	s.Drain(&e)
	if !a.Drained() || len(e.Hits) != 2 || e.Hits[1].PID != int32(os.Getpid()) {
		t.Errorf("drained %v, hits %+v", a.Drained(), e.Hits)
	}
	// what comes later belongs to whoever comes later
	*b.head++
	if !a.Drained() {
		t.Error("a record that came after its probes were gone holds a process's numbers back")
	}
	b.slots[b.next].Ts = 8
	s.Drain(&e)
	a.Release()
}

// More processes than there are numbers for is no error that ends anything: it says that it passes.
func TestNumbersFull(t *testing.T) {
	needBPF(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	var all []*Attachment
	for i := range maxProcesses {
		a, err := s.Process(1<<21+int(i), &engine.Layout{})
		if err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		all = append(all, a)
	}
	if _, err := s.Process(1<<21+int(maxProcesses), &engine.Layout{}); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if all[200].proc != 200 {
		t.Errorf("number %d", all[200].proc)
	}
	all[200].Release()
	if a, err := s.Process(7, &engine.Layout{}); err != nil || a.proc != 200 || a.owner == all[200].owner {
		t.Errorf("%+v, %v", a, err)
	}
}

// A program that the process executes is not seen through the probes of the one before.
func TestStopSilences(t *testing.T) {
	at := newSleeper(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	c, next := at.start(t, "exec sleep 0.01")
	a, err := s.Process(c.Process.Pid, &engine.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Detach()
	at.site.Role = engine.RoleOpEnd
	if err := a.Attach(at.file(), []engine.Site{at.site}); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	next()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	var e Events
	s.Drain(&e)
	if len(e.Hits) != 0 {
		t.Errorf("%d hits of a process whose recording was stopped", len(e.Hits))
	}
}

// Arguments of operators' sites are taken from where the plan says that they are.
func TestOperatorArguments(t *testing.T) {
	at := newSleeper(t)
	reg := func(n uint8) engine.Arg { return engine.Arg{Kind: engine.ArgReg, Reg: n} }
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	c, next := at.start(t, "exec sleep 0.01")
	a, err := s.Process(c.Process.Pid, &engine.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Detach()
	begin, fused, end, none := at.site, at.site, at.site, at.site
	begin.Role, begin.A, begin.B = engine.RoleOpBegin, reg(2), reg(2)
	fused.Role, fused.A, fused.B, fused.C = engine.RoleOpFused, reg(2), reg(0), reg(2)
	end.Role, end.A = engine.RoleOpEnd, reg(2)
	none.Role = engine.RoleOpEnd // as where the barrier is inlined
	if err := a.Attach(at.file(), []engine.Site{begin, fused, end, none}); err != nil {
		t.Fatal(err)
	}
	next()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	var e Events
	s.Drain(&e)
	var tensor uint64
	var pools []uint64
	for _, h := range e.Hits {
		switch h.Kind {
		case trace.HitOpBegin:
			tensor = h.Arg
		case trace.HitOpEnd:
			pools = append(pools, h.Arg)
		}
	}
	if len(e.Hits) == 0 {
		t.Skip("sleep does not call the C library here")
	}
	if tensor == 0 {
		t.Error("an operator's tensor was not taken from the third argument")
	}
	want := tensor >> 6 & (1<<21 - 1)
	slices.Sort(pools)
	if !slices.Equal(pools, []uint64{0, want}) {
		t.Errorf("pools %#x, want none and %#x", pools, want)
	}
	for _, h := range e.Hits {
		if h.Kind == trace.HitOpFused && h.Arg != 0 || h.Kind == trace.HitFusedWith && h.Arg != tensor {
			t.Errorf("fused: %+v, want the tensors 0 and %#x", h, tensor)
		}
	}
}

// Every program that a site can be attached to is among those whose links are listed.
func TestLinksKnowEveryProgram(t *testing.T) {
	at := newSleeper(t)
	if unused, err := Multi(); unused.Err != nil || err != "" {
		t.Skip("no uprobe_multi links here, which are what is listed")
	}
	s, err := Open(Config{Counters: Counters{Task: true}})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	defer s.Close()
	c, _ := at.start(t, "true")
	a, err := s.Process(c.Process.Pid, &engine.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Detach()
	var sites []engine.Site
	for _, r := range []engine.Role{engine.RoleOpBegin, engine.RoleOpFused, engine.RoleOpEnd,
		engine.RoleStepBegin, engine.RoleStepEnd, engine.RoleSubmitBegin, engine.RoleSubmitEnd} {
		x := at.site
		x.Role = r
		sites = append(sites, x)
	}
	if err := a.Attach(at.file(), sites); err != nil {
		t.Fatal(err)
	}
	links, err := Links(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if len(links) != len(sites) {
		t.Errorf("%d links of %d are known: %s", len(links), len(sites), strings.Join(links, ", "))
	}
	if links, err := Links(1); err != nil || len(links) > 0 {
		t.Errorf("links of another process: %v, %v", links, err)
	}
	if all, err := Links(); err != nil || len(all) < len(sites) {
		t.Errorf("%d links of all processes, %v", len(all), err)
	}
}

func TestSkipsHits(t *testing.T) {
	for v, want := range map[Version]bool{{5, 17, 0}: true, {5, 19, 17}: true, {6, 0, 0}: false,
		{6, 18, 0}: false, {}: false} {
		if SkipsHits(v) != want {
			t.Errorf("%v: %v", v, !want)
		}
	}
}
