// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

const (
	faultPID = 100
	ms       = 1_000_000
)

// weightAt returns where a weight's data lies.
func weightAt(t testing.TB, name string) (addr uint64) {
	t.Helper()
	for _, n := range profiletest.Small.Shape(faultPID, 1, 1, 256).Nodes {
		if n.Name == name {
			return n.Data
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// faultRun is four decode steps of two threads: 0 works 0.5 ms an operator, 1 works 1 ms. In each ffn_gate of
// layer 0 thread 1 has a major fault from 0.1 to 0.7 ms that reads 64 KiB, thread 0 one from 0.2 to 0.3 ms;
// in ffn_up thread 0 has a slow one while it waits. In the last operator of a step thread 1 reads 128 KiB
// ahead in a minor fault of 0.05 ms, and has a slow one that reads nothing. Counts: each thread had 10 major
// faults before; the kernel took 5 more for thread 1 in a system call.
func faultRun(t testing.TB, change func(*profiletest.Recorder), pages ...trace.FilePages) []byte {
	t.Helper()
	gate, out := weightAt(t, "blk.0.ffn_gate.weight"), weightAt(t, "token_embd.weight")
	lo, hi := out&^0xfff, weightAt(t, "output_norm.weight")+1<<20
	var buf bytes.Buffer
	var major [2]uint64
	run := profiletest.Run{Model: profiletest.Small, PID: faultPID, Ctx: 5, Threads: 2, Decode: 4, Pos: 1,
		Start: 1_000 * ms, Gap: 300,
		Cost: func(*facts.Derived) float64 {
			return 2 * 0.5 * ms
		}, Part: func(t int) float64 { return float64(1 + t) }}
	err := profiletest.Record(&buf, func(r *profiletest.Recorder) {
		r.Head = func(m *trace.Meta) { m.Extra = map[string]string{"faults": "major"} }
		r.Mapped = func() []trace.Memory {
			m := trace.Memory{PID: faultPID, Time: 900 * ms, When: "start", Major: 25, Minor: 7,
				Read: 1 << 20, Files: pages,
				Maps: []trace.MemoryMap{{Start: 0x1000, End: 0x2000, Perms: "r-xp", Path: "/bin/x", Dev: 1,
					Inode: 1},
					{Start: 0x2000, End: 0x3000, Perms: "rw-p", Path: "/bin/x", Dev: 1, Inode: 1},
					{Start: lo, End: hi, Offset: 1 << 20, Perms: "r--s", Path: "/m.gguf", Dev: 1, Inode: 2},
					{Start: 1 << 46, End: 1<<46 + 4096, Perms: "rw-p", Path: "[stack]"}}}
			return []trace.Memory{m}
		}
		r.Faults = func(o *profile.Op) (fs []trace.Fault) {
			f := func(th int, kind trace.FaultKind, from, to int64, addr uint64, read int64) {
				if kind == trace.FaultMajor {
					major[th]++
				}
				fs = append(fs, trace.Fault{Time: o.Threads[th].Start + to, Dur: to - from, PID: faultPID,
					TID: faultPID + int32(th), Kind: kind, Addr: addr,
					Read: read, Major: 10 + major[th] + 5*uint64(th), Minor: 100})
			}
			if o.ID == 1 {
				for th := range 2 {
					fs = append(fs, trace.Fault{Time: 899 * ms, PID: faultPID, TID: faultPID + int32(th),
						Kind: trace.FaultCounts, Dur: -1, Major: 10, Minor: 100, Read: 1 << 19})
				}
				f(0, trace.FaultMajor, -30*ms, -20*ms, 0x1234, 4096)    // before the first step
				f(0, trace.FaultMajor, -12*ms, -11*ms, 1<<46+5, 0)      // likewise, on the stack
				f(0, trace.FaultMajor, -10*ms, -9*ms, 0x2fff, -1)       // data of the program
				f(0, trace.FaultMajor, -9*ms, -8*ms, hi-1, 0)           // of the file, in no tensor
				f(0, trace.FaultMajor, -8*ms, -7*ms, 0xdead_0000_00, 0) // nowhere
			}
			switch o.NodeDef().Name {
			case "ffn_gate-0":
				f(1, trace.FaultMajor, ms/10, 7*ms/10, gate+7, 65536)
				f(0, trace.FaultMajor, 2*ms/10, 3*ms/10, o.NodeDef().Data+4, 0)
			case "ffn_up-0":
				// while it waits for thread 1: delays nobody
				f(0, trace.FaultMinor, 8*ms/10, 9*ms/10, gate, 0)
			case "result_output":
				f(1, trace.FaultMinor, ms/2, ms/2+50_000, out, 131072)
				f(1, trace.FaultMinor, 6*ms/10, 8*ms/10, out+4096, 0)
				if o.Step.ID == 4 {
					fs = append(fs, trace.Fault{Time: o.Start + o.Dur, PID: faultPID, TID: faultPID + 1,
						Kind: trace.FaultCounts, Dur: -1, Major: 10 + major[1] + 5, Minor: 190, Read: 1<<20 +
							1<<19},
						trace.Fault{Time: o.Start + o.Dur, PID: faultPID, TID: faultPID,
							Kind: trace.FaultCounts, Dur: -1, Major: 10 +
								major[0], Minor: 110, Read: 1 << 19})
				}
			}
			return fs
		}
		if change != nil {
			change(r)
		}
	}, func(_ *profiletest.Recorder, p *profiletest.Player) error { return p.Play(run) })
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// seenFaults is a sink that keeps what it gets.
type seenFaults struct {
	profile.BaseSink
	faults []*profile.Fault
	steps  []*profile.Step
	ops    map[int64]*profile.Op
	late   bool // a fault of a step came after it
}

func (s *seenFaults) Op(o *profile.Op) error {
	if s.ops == nil {
		s.ops = map[int64]*profile.Op{}
	}
	s.ops[o.ID] = o
	return nil
}
func (s *seenFaults) Step(st *profile.Step) error {
	s.steps = append(s.steps, st)
	return nil
}
func (*seenFaults) Needs() profile.Needs { return profile.NeedFaults }
func (s *seenFaults) Fault(f *profile.Fault) error {
	s.faults = append(s.faults, f)
	for _, st := range s.steps {
		s.late = s.late || f.Step == st
	}
	return nil
}

func replayFaults(t testing.TB, b []byte, s profile.Sink) *profile.Header {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	h, err := profile.Replay(r, s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Each fault is found in its operator, its step and its tensor.
func TestFaultPlaces(t *testing.T) {
	b := faultRun(t, nil)
	s := &seenFaults{}
	replayFaults(t, b, profile.Tee(s, profile.BaseSink{}))
	if s.late {
		t.Error("a fault came after its step")
	}
	var outside []profile.MemoryClass
	gates, ahead, slow, waiting := 0, 0, 0, 0
	for _, f := range s.faults {
		switch {
		case f.Kind == trace.FaultCounts:
		case f.Step == nil:
			outside = append(outside, f.Class)
			if f.OpID != 0 {
				t.Errorf("%+v is in an operator and in no step", f)
			}
		case f.Kind == trace.FaultMajor:
			gates++
			o := s.ops[f.OpID]
			if o == nil || o.NodeDef().Name != "ffn_gate-0" || o.Step != f.Step {
				t.Fatalf("%+v is in %+v", f, o)
			}
			want := profile.FaultPlace{Class: profile.MemWeight, Tensor: "blk.0.ffn_gate.weight",
				Type: "q4_0", Expert: -1, File: "/m.gguf"}
			if f.TID == faultPID {
				want = profile.FaultPlace{Class: profile.MemCompute, Tensor: "ffn_gate-0", Type: "f32",
					Expert: -1}
			}
			if f.FaultPlace != want {
				t.Errorf("%+v, want %+v", f.FaultPlace, want)
			}
			// thread 1 would have arrived after 0.4 ms, thread 0 after 0.4: operators last 1.0001 ms
			if o.MajorFaults != 2 || o.FaultDur != 7*ms/10 || o.FaultDelay != 1_000_100-400_100 {
				t.Errorf("the operator has %d major faults, %d ns, delayed by %d", o.MajorFaults, o.FaultDur,
					o.FaultDelay)
			}
		case f.Read > 0:
			ahead++
		case f.OpID == 0:
			waiting++
		default:
			slow++
		}
	}
	want := []profile.MemoryClass{profile.MemProgram, profile.MemStack, profile.MemProgram, profile.MemFile,
		profile.MemOther}
	if len(outside) != len(want) {
		t.Fatalf("outside of steps: %v", outside)
	}
	for i := range want {
		if outside[i] != want[i] {
			t.Errorf("outside of steps: %v, want %v", outside, want)
		}
	}
	if gates != 8 || ahead != 4 || slow != 4 || waiting != 4 {
		t.Errorf("%d, %d, %d and %d faults in steps", gates, ahead, slow, waiting)
	}
	for _, st := range s.steps {
		// thread 0's fault lies within thread 1's; that which reads ahead waits too
		if st.MajorFaults != 2 || st.FaultDur != 750_000 || st.FaultWall != 650_000 ||
			st.DiskRead != 65536+131072 {
			t.Errorf("step %d: %d major, %d and %d ns, %d bytes", st.ID, st.MajorFaults, st.FaultDur,
				st.FaultWall, st.DiskRead)
		}
	}
	if len(s.steps) != 4 {
		t.Errorf("%d steps", len(s.steps))
	}
}

func value(p *int64) int64 {
	if p == nil {
		return -1
	}
	return *p
}

// The sums: classes make up all faults, and with those that have no address what the process counted.
func TestFaultStat(t *testing.T) {
	b := faultRun(t, nil)
	st := stat.New(stat.Options{})
	s := st.Finish(replayFaults(t, b, st)).Faults
	if s == nil {
		t.Fatal("none")
	}
	// 5 outside and 2 in each of 4 steps; 5 that nobody saw
	if s.Seen != 13 || value(s.Major) != 18 || value(s.NoAddress) != 5 || value(s.Before) != 25 ||
		value(s.Minor) != 100 || s.Own != nil {
		t.Errorf("%d seen of %d, %d without an address, %d before, %d minor", s.Seen, value(s.Major),
			value(s.NoAddress), value(s.Before), value(s.Minor))
	}
	if value(s.Read) != 1<<20 || s.ReadFaults != 4096+4*(65536+131072) {
		t.Errorf("%d bytes read, %d by faults", value(s.Read), s.ReadFaults)
	}
	var sum int64
	byClass := map[profile.MemoryClass]memory.FaultSum{}
	for _, c := range s.Classes {
		sum += c.Major
		byClass[c.Class] = c
	}
	if sum != s.Seen {
		t.Errorf("classes have %d major faults of %d", sum, s.Seen)
	}
	if c := byClass[profile.MemWeight]; c.Major != 4 || c.Minor != 12 ||
		value(c.Wait) != 4*(600_000+50_000+200_000+100_000) {
		t.Errorf("weights: %+v, %d ns", c, value(c.Wait))
	}
	if c := byClass[profile.MemProgram]; c.Major != 2 || value(c.Wait) != 11*ms {
		t.Errorf("program: %+v, %d ns", c, value(c.Wait))
	}
	if len(s.Phases) != 2 || s.Phases[0].Phase != "decode" || s.Phases[1].InStep {
		t.Fatalf("%+v", s.Phases)
	}
	p := s.Phases[0]
	if p.Steps != 4 || p.Faulted != 4 || p.Major != 8 || value(p.Wall) != 4*650_000 || p.Share == nil ||
		*p.Share != float64(4*650_000)/float64(p.Dur) {
		t.Errorf("decode: %+v", p)
	}
	if q := s.Phases[1]; q.Major != 5 || q.Wall != nil || q.Share != nil {
		t.Errorf("no step: %+v", q)
	}
	if len(s.Steps) != 4 || value(s.Steps[0].Wall) != 650_000 {
		t.Errorf("%+v", s.Steps)
	}
}

// What the kernel does not tell is not known, not 0.
func TestFaultsUntimed(t *testing.T) {
	b := faultRun(t, func(r *profiletest.Recorder) {
		r.Head = func(m *trace.Meta) { m.Extra = map[string]string{"faults": "major", "fault_times": "off"} }
		faults := r.Faults
		r.Faults = func(o *profile.Op) []trace.Fault {
			fs := faults(o)
			for i := range fs {
				fs[i].Dur = -1
			}
			return fs
		}
	})
	st := stat.New(stat.Options{})
	s := st.Finish(replayFaults(t, b, st)).Faults
	if s.Wait != nil || s.Classes[0].Wait != nil || s.Phases[0].Wall != nil || s.Phases[0].Share != nil ||
		s.Steps[0].Wall != nil || s.Seen != 13 {
		t.Errorf("%+v", s)
	}
	if c := s.Classes[0]; c.Major == 0 {
		t.Errorf("%+v", c)
	}
}

// A recording whose end is not in the file does not know what was read beside faults.
func TestFaultsCut(t *testing.T) {
	b := faultRun(t, func(r *profiletest.Recorder) {
		faults := r.Faults
		r.Faults = func(o *profile.Op) (fs []trace.Fault) {
			for _, f := range faults(o) {
				if f.Kind != trace.FaultCounts || f.Time < 900*ms {
					fs = append(fs, f)
				}
			}
			return fs
		}
	})
	st := stat.New(stat.Options{})
	s := st.Finish(replayFaults(t, b, st)).Faults
	if s.Read != nil || s.ReadFaults == 0 || value(s.Major) != 18 {
		t.Errorf("%d bytes read, %d by faults, %d major", value(s.Read), s.ReadFaults, value(s.Major))
	}
}

// Recordings without faults say nothing of them.
func TestNoFaults(t *testing.T) {
	b := faultRun(t, func(r *profiletest.Recorder) { r.Head, r.Faults, r.Mapped = nil, nil, nil })
	st := stat.New(stat.Options{})
	if s := st.Finish(replayFaults(t, b, st)); s.Faults != nil {
		t.Errorf("%+v", s.Faults)
	}
}

// The time that threads wait for the disk is a loss to look at: 0.65 of some 45 ms a step.
func TestFindingDisk(t *testing.T) {
	st := stat.New(stat.Options{})
	s := st.Finish(replayFaults(t, faultRun(t, nil), st))
	for _, f := range s.Findings {
		if f.Kind == "disk" {
			if f.Gain == nil || *f.Gain != 650_000 {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Errorf("%+v", s.Findings)
}

// Where faults were recorded, the verdict's share of the disk is what they delayed operators by: in each of 4
// steps 0.6 ms of ffn_gate (TestFaultPlaces), and 0.05 of the last operator, whose thread 1 reads ahead.
func TestFaultVerdict(t *testing.T) {
	st := stat.New(stat.Options{})
	s := st.Finish(replayFaults(t, faultRun(t, nil), st))
	for _, v := range s.Verdicts {
		for _, c := range v.Causes {
			if c.What == "disk" {
				if c.Bound != summary.BoundDisk || c.PerStep != 600_000+50_000 {
					t.Errorf("%+v", c)
				}
				return
			}
		}
	}
	t.Errorf("no part of the disk: %+v", s.Verdicts)
}
