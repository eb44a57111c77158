// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

func seriesOfFaults(t testing.TB, change func(*profiletest.Recorder),
	pages ...trace.FilePages) (*memory.Series, *memory.Stat) {
	t.Helper()
	b, st := memory.NewSeries(nil), stat.New(stat.Options{})
	h := replayFaults(t, faultRun(t, change, pages...), profile.Tee(b, st))
	return b.Finish(h), st.Finish(h).Faults
}

// faultRun's figures by step, by layer and by operator.
func TestFaultSeries(t *testing.T) {
	s, st := seriesOfFaults(t, nil)
	if s == nil || !s.Timed || len(s.Phases) != 1 || s.Phases[0].Phase != "decode" ||
		s.Phases[0].Every != 1 || len(s.Phases[0].Steps) != 4 {
		t.Fatalf("%+v", s)
	}
	for i, p := range s.Phases[0].Steps {
		if p.Step != int64(i+1) || p.Worst != p.Step || p.N != 1 || p.Major != 2 ||
			value(p.Wait) != 750_000 || value(p.Wall) != 650_000 || p.Read != 65536+131072 || p.Dur <= 0 {
			t.Errorf("%+v", p)
		}
	}
	// In each step thread 1 reads for 0.6 ms in ffn_gate of layer 0, thread 0 has a slow one of 0.1 ms in
	// ffn_up on the same weight.
	rows := map[string]memory.FaultRow{}
	for _, r := range s.Names {
		rows[string(r.Class)+" "+r.Name] = r
	}
	gate := rows["weight ffn_gate"]
	if gate.Type != "q4_0" || gate.Major != 4 || gate.Minor != 4 || value(gate.Wait) != 4*700_000 ||
		gate.Read != 4*65536 || len(gate.Layers) != 1 {
		t.Fatalf("%+v", gate)
	}
	if c := gate.Layers[0]; c.Layer != 0 || c.Major != 4 || c.Minor != 4 || value(c.Wait) != 4*700_000 ||
		c.Read != 4*65536 {
		t.Errorf("%+v", c)
	}
	if r := rows["weight token_embd"]; r.Minor != 8 || len(r.Layers) != 0 || r.Read != 4*131072 {
		t.Errorf("%+v", r)
	}
	if r := rows["compute ffn_gate"]; r.Major != 4 || len(r.Layers) != 1 || r.Layers[0].Layer != 0 {
		t.Errorf("%+v", r)
	}
	// they are the statistics' rows
	if len(st.Names) != len(s.Names) || s.NamesLeft != 0 {
		t.Fatalf("%d names, the statistics have %d", len(s.Names), len(st.Names))
	}
	for i, r := range s.Names {
		x, y := r.FaultSum, st.Names[i]
		if value(x.Wait) != value(y.Wait) {
			t.Errorf("%+v, the statistics %+v", x, y)
		}
		x.Wait, y.Wait = nil, nil
		if x != y {
			t.Errorf("%+v, the statistics %+v", x, y)
		}
	}
	// ffn_gate ran in both layers of 4 steps: 0.6 ms earlier in layer 0; the last operator 0.05.
	if len(s.Operators) != 2 {
		t.Fatalf("%+v", s.Operators)
	}
	g, o := s.Operators[0], s.Operators[1]
	if g.Key != "ffn_gate" || g.Type != "q4_0" || g.Phase != "decode" || !g.InStep || g.Calls != 8 ||
		g.Faulted != 4 || g.Major != 8 || value(g.Wait) != 4*700_000 ||
		value(g.Delay) != 4*600_000 || g.Dur != 8*1_000_100 || g.Share == nil ||
		*g.Share != 4*600_000./(8*1_000_100) || g.Read != 4*65536 {
		t.Errorf("%+v: %d of %d", g, value(g.Delay), g.Dur)
	}
	if o.Key != "output (token_embd)" || o.Calls != 4 || o.Faulted != 4 || value(o.Delay) != 4*50_000 ||
		o.Read != 4*131072 {
		t.Errorf("%+v: %d", o, value(o.Delay))
	}
}

// Faults one by one, with what they hit.
func TestFaultMarks(t *testing.T) {
	s, _ := seriesOfFaults(t, nil)
	m := s.Marks
	n := len(m.Start)
	for _, l := range []int{len(m.Dur), len(m.PID), len(m.TID), len(m.Major), len(m.Addr), len(m.Class),
		len(m.Tensor), len(m.Type), len(m.File), len(m.Expert), len(m.Read), len(m.Step), len(m.Op)} {
		if l != n {
			t.Fatalf("columns of %d and %d", n, l)
		}
	}
	if n != 5+4*5 || m.Left != 0 {
		t.Fatalf("%d faults, %d left out", n, m.Left)
	}
	seen := 0
	for i := range n {
		if i > 0 && m.Start[i] < m.Start[i-1] {
			t.Errorf("fault %d begins before the one before", i)
		}
		if m.Step[i] != 2 || m.Major[i] == 0 || m.TID[i] != faultPID+1 {
			continue
		}
		seen++
		// 0.1 ms into its operator, of the second step; time 0 is that of the first record, 899 ms
		if s.Phases[0].Steps[1].Start-m.Start[i] < 899*ms-ms*100 ||
			s.Phases[0].Steps[1].Start-m.Start[i] > 899*ms {
			t.Errorf("fault %d begins at %d, its step at %d", i, m.Start[i], s.Phases[0].Steps[1].Start)
		}
		if m.Dur[i] != 600_000 || m.Strings[m.Tensor[i]] != "blk.0.ffn_gate.weight" ||
			m.Strings[m.Class[i]] != "weight" || m.Strings[m.Type[i]] != "q4_0" ||
			m.Strings[m.File[i]] != "/m.gguf" ||
			m.Read[i] != 65536 || m.Op[i] == 0 || m.Expert[i] != -1 || !strings.HasPrefix(m.Addr[i], "0x") {
			t.Errorf("fault %d: %d ns, %s, read %d, operator %d", i, m.Dur[i], m.Strings[m.Tensor[i]],
				m.Read[i], m.Op[i])
		}
	}
	if seen != 1 {
		t.Errorf("%d major faults of thread 1 in step 2", seen)
	}
}

// What the kernel does not tell is null, not 0, in all that is made of it.
func TestFaultSeriesUntimed(t *testing.T) {
	s, _ := seriesOfFaults(t, untimed)
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"wait_ns", "wall_ns", "delay_ns", "share"} {
		if n, all := strings.Count(string(b), `"`+key+`":null`),
			strings.Count(string(b), `"`+key+`":`); n != all || n == 0 {
			t.Errorf("%s: %d of %d are null", key, n, all)
		}
	}
	if s.Timed || s.Phases[0].Steps[0].Major != 2 || s.Operators[0].Major != 8 {
		t.Errorf("%+v", s)
	}
	for i := range s.Marks.Dur {
		if s.Marks.Dur[i] != -1 {
			t.Errorf("fault %d took %d", i, s.Marks.Dur[i])
		}
	}
}

func untimed(r *profiletest.Recorder) {
	r.Head = func(m *trace.Meta) { m.Extra = map[string]string{"faults": "major", "fault_times": "off"} }
	faults := r.Faults
	r.Faults = func(o *profile.Op) []trace.Fault {
		fs := faults(o)
		for i := range fs {
			fs[i].Dur = -1
		}
		return fs
	}
}

// A recording without faults has no series.
func TestNoFaultSeries(t *testing.T) {
	if s, _ := seriesOfFaults(t, func(r *profiletest.Recorder) {
		r.Head, r.Faults, r.Mapped = nil, nil, nil
	}); s != nil {
		t.Errorf("%+v", s)
	}
}

// However long a run is, its points are few, and their sums those of its steps.
func TestFaultSeriesOfLongRuns(t *testing.T) {
	b := memory.NewSeries(nil)
	b.Meta(&trace.Meta{Extra: map[string]string{"faults": "major"}})
	const n = 10_000
	for i := range int64(n) {
		s := &profile.Step{ID: i + 1, Phase: profile.Decode, Start: i * 100, Dur: 90, MajorFaults: 1,
			FaultDur: 20, FaultWall: 10, DiskRead: 4096}
		if i == 7777 {
			s.FaultWall = 80
		}
		if i == 7779 { // of the same point
			s.FaultWall = 50
		}
		if err := b.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	l := b.Finish(&profile.Header{}).Phases[0]
	var steps, dur, wall, major, read int64
	worst := 0
	for _, p := range l.Steps {
		steps += p.N
		dur += p.Dur
		wall += *p.Wall
		major += p.Major
		read += p.Read
		if p.N > l.Every {
			t.Errorf("a point of %d steps, at most %d", p.N, l.Every)
		}
		if p.Worst == 7778 {
			worst++
		}
	}
	if len(l.Steps) > 2048 || len(l.Steps) < 1000 || steps != n || dur != n*90 || wall != (n-2)*10+80+50 ||
		major != n || read != n*4096 || worst != 1 {
		t.Errorf("%d points of %d steps: %d, %d, %d, %d; the worst is told %d times", len(l.Steps), steps,
			dur, wall, major, read, worst)
	}
}

// Of too many faults the longest are kept, and the others counted.
func TestFaultMarksAreBounded(t *testing.T) {
	b := memory.NewSeries(nil)
	const most = 1 << 15
	for i := range int64(3*most + 5) {
		f := &profile.Fault{Fault: trace.Fault{Time: 1000 * i, Dur: 10 + i%3, Kind: trace.FaultMinor, TID: 1},
			FaultPlace: profile.FaultPlace{Class: profile.MemOther, Expert: -1}}
		if err := b.Fault(f); err != nil {
			t.Fatal(err)
		}
	}
	m := b.Finish(&profile.Header{}).Marks
	if len(m.Start) != most || m.Left != 2*most+5 {
		t.Errorf("%d faults, %d left out", len(m.Start), m.Left)
	}
	for i := range m.Dur {
		if m.Dur[i] != 12 {
			t.Fatalf("one of %d ns was kept", m.Dur[i])
		}
	}
}

// Faults on experts: by layer and expert, all weights of one together.
func TestFaultSeriesExperts(t *testing.T) {
	b := memory.NewSeries(nil)
	hit := func(layer string, expert int32, kind trace.FaultKind, dur, read int64) {
		p := profile.FaultPlace{Class: profile.MemExpert, Tensor: "blk." + layer + ".ffn_up_exps.weight",
			Type: "q4_0", Expert: expert}
		if err := b.Fault(&profile.Fault{Fault: trace.Fault{PID: 7, Time: 100, Dur: dur, Read: read,
			Kind: kind}, FaultPlace: p}); err != nil {
			t.Fatal(err)
		}
	}
	hit("3", 2, trace.FaultMajor, 5, 4096)
	hit("3", 2, trace.FaultMinor, 2, 0)
	hit("1", 0, trace.FaultMajor, 1, 64)
	hit("1", 5000, trace.FaultMajor, 1, 64) // as no layer has
	s := b.Finish(&profile.Header{})
	if len(s.Experts) != 1 || s.Experts[0].PID != 7 || s.Experts[0].Experts != 3 ||
		len(s.Experts[0].Layers) != 2 {
		t.Fatalf("%+v", s.Experts)
	}
	l := s.Experts[0].Layers
	if l[0].Layer != 1 || l[0].Major[0] != 1 || l[0].Read[0] != 64 || l[1].Layer != 3 || l[1].Major[2] != 1 ||
		l[1].Wait[2] != 7 || l[1].Read[2] != 4096 || l[1].Major[0] != 0 {
		t.Errorf("%+v", l)
	}
}
