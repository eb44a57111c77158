// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// These tests count on the machine they run on. What it has to have is said by PROFINFER_PMU: insn (cycles
// and instructions, as many cycles an instruction as 2 to the power of PROFINFER_IPC_SHIFT), cycles
// (cycles on each of several CPUs), off (none); empty: whatever there is. The emulated arm64 machine is run
// with each of them.

func want() string { return os.Getenv("PROFINFER_PMU") }

// here opens on this machine; where that is not permitted, the test is skipped, or fails where it must run.
func here(t *testing.T, r Request, o Options) *Set {
	t.Helper()
	s, err := Open(r, o)
	var m Missing
	if errors.As(err, &m) && os.Getenv("PROFINFER_REQUIRE_BPF") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *Set) at(t *testing.T, name string) int {
	t.Helper()
	i := slices.IndexFunc(s.Counters, func(c *Counter) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no %s, but %v; missing %v", name, s.names(), s.Missing)
	}
	return i
}

// onCPU keeps the test's thread on one CPU.
func onCPU(t *testing.T, cpu int) {
	t.Helper()
	runtime.LockOSThread()
	var old, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		t.Fatal(err)
	}
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.SchedSetaffinity(0, &old); runtime.UnlockOSThread() })
}

var sink uint64

//go:noinline
func spin(n int) {
	x := sink
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

// touch faults on fresh pages.
func touch(t *testing.T, pages int) {
	t.Helper()
	size := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, pages*size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	for i := 0; i < len(b); i += size {
		b[i] = 1
	}
	_ = unix.Munmap(b)
}

// The kernel's own counters, on every machine: of one thread, and of all CPUs.
func TestHereSoftware(t *testing.T) {
	onCPU(t, 0)
	for name, o := range map[string]Options{"thread": {Thread: unix.Gettid()}, "CPU": {}} {
		s := here(t, Request{Question: Software}, o)
		if !slices.Equal(s.names(), softwareSet) {
			t.Fatalf("%s: %v, missing %v", name, s.names(), s.Missing)
		}
		cpu := 0
		if o.Thread > 0 {
			cpu = -1
		}
		if err := s.Enable(); err != nil {
			t.Fatal(err)
		}
		faults, clock := s.at(t, "minor-faults"), s.at(t, "task-clock")
		before, _, err := s.Read(faults, cpu)
		if err != nil {
			t.Fatal(err)
		}
		start, _, _ := s.Read(clock, cpu)
		touch(t, 300)
		spin(5_000_000)
		after, ok, err := s.Read(faults, cpu)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		d, ok := after.Sub(before)
		// on a CPU others fault too
		if c := d.Count(); !ok || c.State != Exact || c.Value < 300 || o.Thread > 0 && c.Value > 1000 {
			t.Errorf("%s: %v minor faults (%v), touched 300 pages", name, c, d)
		}
		end, _, _ := s.Read(clock, cpu)
		if d, ok := end.Sub(start); !ok || d.Value < uint64(time.Millisecond) {
			t.Errorf("%s: task-clock went %v", name, d)
		}
	}
}

// What this machine says of itself: with counters or without, the plan of every question opens.
func TestHereQuestions(t *testing.T) {
	m, err := ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	if none := len(m.PMUs) == 0; want() != "" && none != (want() == "off") {
		t.Errorf("PROFINFER_PMU=%s, and %d units", want(), len(m.PMUs))
	}
	for _, q := range Questions() {
		s := here(t, Request{Question: q}, Options{})
		if (len(s.Counters) == 0) != (q == Off) {
			t.Errorf("%s: %v; missing %v", q, s.names(), s.Missing)
		}
		t.Logf("%s: %s; missing %v; notes %q", q, strings.Join(s.names(), " "), s.Missing, s.Notes)
		s.Close()
	}
}

// The tables' codes against what the kernel lists here.
func TestHereSysfs(t *testing.T) {
	m, err := ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.PMUs {
		for n, v := range p.Events {
			c, err := p.encode(v)
			if err != nil {
				t.Errorf("%s: %s: %v", p.Name, n, err)
				continue
			}
			if mine, ok := armEvents[n]; ok && p.Arm() && c.config != uint64(mine) {
				t.Errorf("%s: %s is %#x here, %#x in the table", p.Name, n, c.config, mine)
			}
			if p.Kind == nil {
				continue
			}
			if l := p.Kind.line(n); l != nil {
				if mine, err := p.encode(l.code); err != nil || mine != c {
					t.Errorf("%s: %s is %v here, %v in the table (%v)", p.Name, n, c, mine, err)
				}
			}
		}
	}
}

func TestHereNone(t *testing.T) {
	m, err := ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.PMUs) > 0 {
		t.Skip("this machine has counters")
	}
	s := here(t, Request{Question: Auto}, Options{})
	if len(s.Missing) != 1 || !slices.Equal(s.names(), softwareSet) {
		t.Errorf("%v, missing %v", s.names(), s.Missing)
	}
	// and it is so
	_, err = linux{}.open((&Event{Type: unix.PERF_TYPE_HARDWARE}).attr(true), unix.Gettid(), -1, -1)
	if !errors.Is(err, unix.ENOENT) {
		t.Errorf("cycles: %v, want ENOENT", err)
	}
}

// once counts two events over some work. What opening them has counted, to see whether they count, is left
// out: the CPU idled meanwhile, which takes cycles and no instructions.
func once(t *testing.T, list string, o Options) (first, second Reading) {
	t.Helper()
	s := here(t, Request{Events: list}, o)
	defer s.Close()
	total := func(i int) Reading {
		r, err := s.Total(i)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := total(0), total(1)
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	spin(1_000_000)
	if err := s.Disable(); err != nil {
		t.Fatal(err)
	}
	first, _ = total(0).Sub(a)
	second, _ = total(1).Sub(b)
	return first, second
}

// IPC is what the emulator makes it, for whoever counts right.
func TestHereIPC(t *testing.T) {
	shift, err := strconv.Atoi(os.Getenv("PROFINFER_IPC_SHIFT"))
	if want() != "insn" || err != nil {
		t.Skip("no machine with a known IPC (PROFINFER_PMU=insn, PROFINFER_IPC_SHIFT)")
	}
	onCPU(t, 0)
	for _, list := range []string{"{cycles,instructions}", "{cycles,instructions}:u"} {
		for name, o := range map[string]Options{"CPU": {}, "thread": {Thread: unix.Gettid()}} {
			// again where the CPU idled in between, or an interrupt came between the two
			right := false
			for range 5 {
				cycles, instructions := once(t, list, o)
				t.Logf("%s, %s: cycles %v, instructions %v", list, name, cycles, instructions)
				if instructions.Value >= 3_000_000 && cycles.Value == instructions.Value<<shift &&
					cycles.Count().State == Exact {
					right = true
					break
				}
			}
			if !right {
				t.Errorf("%s, %s: not the cycles and instructions of IPC_SHIFT %d", list, name, shift)
			}
		}
	}
}

// Nine events on seven counters: all count, in turns, and their estimates are near what one alone counts.
func TestHereTurns(t *testing.T) {
	if want() != "insn" {
		t.Skip("no machine with seven counters and four events (PROFINFER_PMU=insn)")
	}
	onCPU(t, 0)
	const work = 60_000_000
	count := func(list string) (*Set, []Reading) {
		s := here(t, Request{Events: list}, Options{})
		if err := s.Enable(); err != nil {
			t.Fatal(err)
		}
		var before, out []Reading
		for i := range s.Counters {
			r, _ := s.Total(i)
			before = append(before, r)
		}
		spin(work)
		for i := range s.Counters {
			r, err := s.Total(i)
			if err != nil {
				t.Fatal(err)
			}
			d, _ := r.Sub(before[i])
			out = append(out, d)
		}
		return s, out
	}
	one, alone := count("instructions:u")
	if c := alone[0].Count(); c.State != Exact || len(one.Turns) != 0 {
		t.Errorf("one event: %v, turns %v", c, one.Turns)
	}
	one.Close()
	// A busy host decides how long each of them has its turn: once in three times they are near.
	for try := 1; ; try++ {
		wrong := turns(t, count, alone[0].Value)
		if len(wrong) == 0 {
			return
		}
		t.Log(strings.Join(wrong, "; "))
		if try == 3 {
			t.Fatalf("not once in %d times", try)
		}
	}
}

// turns counts nine events, and returns what is wrong with the counts. alone is the number of instructions.
func turns(t *testing.T, count func(list string) (*Set, []Reading), alone uint64) (wrong []string) {
	s, nine := count("cycles,instructions,stall_frontend,stall_backend,r0011,r0008,cycles:u,instructions:u,r0008:u")
	defer s.Close()
	if len(nine) != 9 || len(s.Turns) != 9 {
		t.Fatalf("%v, turns %v", s.names(), s.Turns)
	}
	bad := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	var shares float64
	for i, r := range nine {
		c := r.Count()
		shares += c.Share
		t.Logf("%s: %v, %v", s.Counters[i].Name, r, c)
		if c.State != Scaled || c.Share < 0.5 || c.Share > 0.95 {
			bad("%s: %v (%v), want scaled by about 7/9", s.Counters[i].Name, c, r)
		}
		if n := s.Counters[i].Name; n == "instructions:u" || n == "r0008:u" {
			ratio := float64(c.Value) / float64(alone)
			if ratio < 0.85 || ratio > 1.15 {
				bad("%s: %d, alone %d", n, c.Value, alone)
			}
			if unscaled := float64(r.Value) / float64(alone); unscaled > 0.97 {
				bad("%s: not scaled it is %.2f of the truth already: nothing is shown", n, unscaled)
			}
		}
	}
	if shares < 6.7 || shares > 7.3 {
		bad("seven counters are %.2f", shares)
	}
	// what is listed and reads 0 is doubted
	if i := s.at(t, "stall_backend"); nine[i].Value == 0 && s.Counters[i].Doubtful() == "" {
		bad("0 stalls are believed")
	}
	return wrong
}

// A code that the CPU lacks opens, and is refused here.
func TestHereRefused(t *testing.T) {
	if want() != "insn" && want() != "cycles" {
		t.Skip("no emulated machine (PROFINFER_PMU)")
	}
	m, err := ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []string{"r0017", "l3d_cache_refill", "r0050", "rdead", "cache-misses",
		"armv8_pmuv3/event=0x13/"} {
		p := plan(t, m, Request{Events: e})
		if r := p.Refused(); len(r) != 1 || len(p.Counters) != 0 {
			t.Errorf("%s: refused %v", e, r)
		} else {
			t.Log(r[0])
		}
	}
	raw := &Event{Type: m.PMUs[0].Type, Config: 0x17}
	fd, err := linux{}.open(raw.attr(true), unix.Gettid(), -1, -1)
	if err != nil {
		t.Fatalf("the kernel refuses it itself: %v", err)
	}
	defer linux{}.close(fd)
	if err := (linux{}).enable(fd, true); err != nil {
		t.Fatal(err)
	}
	spin(100_000)
	if r, err := (linux{}).read(fd); err != nil || r.Value != 0 || r.Running == 0 {
		t.Errorf("%v, %v: it counts", r, err)
	}
}

func TestHereCPUs(t *testing.T) {
	if want() != "cycles" {
		t.Skip("no machine with several CPUs that count (PROFINFER_PMU=cycles)")
	}
	s := here(t, Request{Events: "cycles"}, Options{})
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	for cpu := range 2 {
		t.Run(strconv.Itoa(cpu), func(t *testing.T) {
			onCPU(t, cpu)
			before, ok, err := s.Read(0, cpu)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			spin(2_000_000)
			after, _, _ := s.Read(0, cpu)
			if d, ok := after.Sub(before); !ok || d.Count().State != Exact || d.Value < 100_000 {
				t.Errorf("%v", d)
			}
		})
	}
}

//go:noinline
func probed(n int) int { return n + int(sink) }

// A probe reads what was opened, on the CPU where it hits: between what is read before and after it.
func TestHereProbe(t *testing.T) {
	onCPU(t, 0)
	list := "cpu-clock,page-faults"
	if want() == "insn" || want() == "cycles" {
		list += ",cycles"
	}
	s := here(t, Request{Events: list}, Options{})
	if err := s.Enable(); err != nil {
		t.Fatal(err)
	}
	for i, c := range s.Counters {
		read := reader(t, s, i)
		spin(10_000)
		before, _, err := s.Read(i, 0)
		if err != nil {
			t.Fatal(err)
		}
		probed(i)
		after, _, err := s.Read(i, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct{ a, b, c uint64 }{{before.Value, got.Value, after.Value},
			{before.Enabled, got.Enabled, after.Enabled}, {before.Running, got.Running, after.Running}} {
			if x.a > x.b || x.b > x.c || got.Enabled == 0 {
				t.Errorf("%s: %v before, %v in the probe, %v after", c.Name, before, got, after)
			}
		}
		t.Logf("%s: %v, %v, %v", c.Name, before, got, after)
	}
}

// offset is where code lies in the running file, which has no symbols where go test built it.
func offset(t *testing.T, pc uintptr) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var first, last, at uint64
		var perm string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &first, &last, &perm, &at); n == 4 &&
			uint64(pc) >= first && uint64(pc) < last {
			return uint64(pc) - first + at
		}
	}
	t.Fatalf("no mapping of %#x", pc)
	return 0
}

// reader probes the function probed with a program that reads a counter on its CPU; what it returns gives the
// last reading.
func reader(t *testing.T, s *Set, counter int) func() (Reading, error) {
	t.Helper()
	skip := func(err error) {
		if os.Getenv("PROFINFER_REQUIRE_BPF") == "" &&
			(errors.Is(err, unix.EPERM) || errors.Is(err, ebpf.ErrNotSupported)) {
			t.Skipf("no eBPF: %v", err)
		}
		t.Fatal(err)
	}
	events, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerfEventArray,
		MaxEntries: uint32(len(s.Machine.CPUs))})
	if err != nil {
		skip(err)
	}
	out, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 32, MaxEntries: 1})
	if err != nil {
		skip(err)
	}
	for _, h := range s.Handles() {
		if h.Counter == counter {
			if err := events.Put(uint32(h.CPU), uint32(h.FD)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const value, code, key = -32, -8, -36
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R6, 0),
			asm.StoreMem(asm.RFP, value, asm.R6, asm.DWord), asm.StoreMem(asm.RFP, value+8, asm.R6,
				asm.DWord), asm.StoreMem(asm.RFP, value+16, asm.R6, asm.DWord),
			asm.LoadMapPtr(asm.R1, events.FD()),
			asm.LoadImm(asm.R2, 0xffffffff, asm.DWord), // BPF_F_CURRENT_CPU
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, value),
			asm.Mov.Imm(asm.R4, 24),
			asm.FnPerfEventReadValue.Call(),
			asm.StoreMem(asm.RFP, code, asm.R0, asm.DWord),
			asm.StoreMem(asm.RFP, key, asm.R6, asm.Word),
			asm.LoadMapPtr(asm.R1, out.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, value),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnMapUpdateElem.Call(),
			asm.Mov.Imm(asm.R0, 0), asm.Return(),
		}})
	if err != nil {
		skip(err)
	}
	exe, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	l, err := exe.Uprobe("probed", prog,
		&link.UprobeOptions{Address: offset(t, reflect.ValueOf(probed).Pointer())})
	if err != nil {
		skip(err)
	}
	t.Cleanup(func() { l.Close(); prog.Close(); out.Close(); events.Close() })
	return func() (Reading, error) {
		var v [4]uint64
		if err := out.Lookup(uint32(0), &v); err != nil {
			return Reading{}, err
		}
		if v[3] != 0 {
			return Reading{}, unix.Errno(-int64(v[3]))
		}
		return Reading{v[0], v[1], v[2]}, nil
	}
}
