// SPDX-License-Identifier: Apache-2.0

package arm64

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// counts returns the values of an operator's counters; ok tells whether all are known.
func counts(r *recording.Run, o *profile.Op, names ...string) (out []int64, ok bool) {
	for _, n := range names {
		i := r.Counter(n)
		if i < 0 || o.Counts == nil || o.Counts[i] == profile.UnknownCount {
			return nil, false
		}
		out = append(out, o.Counts[i])
	}
	return out, true
}

// ipc checks that each operator took 2^shift cycles for each instruction, give or take so many cycles. Of a
// thousand operators so many may have more: one counter is read after the other, and an interrupt can come in
// between.
func ipc(r *recording.Run, cycles, instructions string, shift int, give int64,
	interrupted int) (wrong []string) {
	known, off := 0, 0
	for _, o := range r.Ops {
		c, ok := counts(r, o, cycles, instructions)
		if !ok {
			continue
		}
		known++
		if d := c[0] - c[1]<<shift; d < -give || d > give || c[1] <= 0 {
			if off++; 1000*off <= interrupted*len(r.Ops) || len(wrong) >= 8 {
				continue
			}
			wrong = append(wrong, fmt.Sprintf("%s %s: %d cycles, %d instructions: not 1/%d", o.Op,
				o.NodeDef().Name, c[0], c[1], 1<<shift))
		}
	}
	if known < 200 || known < len(r.Ops)*9/10 {
		wrong = append(wrong, fmt.Sprintf("counters are known of %d of %d operators", known, len(r.Ops)))
	}
	return wrong
}

// The emulator makes every instruction take the same number of cycles. In user space that holds for each
// operator exactly. With the kernel's share, one counter is read some instructions after the other, not the
// same number at every hit.
func TestIPC(t *testing.T) {
	for _, m := range []*machine{trixie, sid} {
		t.Run(fmt.Sprintf("%s, shift %d", m.kernel, m.shift), func(t *testing.T) {
			m.well(t, "user")
			m.well(t, "all")
			r := load(t, m, "user")
			for _, w := range ipc(r, "cycles:u", "instructions:u", m.shift, 0, 0) {
				t.Error(w)
			}
			for _, w := range ipc(load(t, m, "all"), "cycles", "instructions", m.shift, 16<<m.shift, 20) {
				t.Error(w)
			}
			if len(ipc(r, "cycles:u", "instructions:u", m.shift+1, 0, 0)) == 0 {
				t.Error("another IPC fits too")
			}
		})
	}
}

// kind is what the instructions of a matrix product depend on besides m.
type kind struct {
	weights string
	k, n    int64
}

// products collects the instructions of matrix products: for each kind, by m.
func products(r *recording.Run) map[kind]map[int64][]float64 {
	out := map[kind]map[int64][]float64{}
	for _, o := range r.Ops {
		d := o.NodeDef()
		c, ok := counts(r, o, "instructions:u")
		if !ok || o.Op != "MUL_MAT" || len(d.Src) < 1 {
			continue
		}
		w := &o.Shape.Nodes[d.Src[0]]
		if !strings.HasPrefix(w.Name, "blk.") {
			continue
		}
		k := kind{w.Type, w.Ne[0], d.Ne[1] * d.Ne[2] * d.Ne[3]}
		if out[k] == nil {
			out[k] = map[int64][]float64{}
		}
		out[k][d.Ne[0]] = append(out[k][d.Ne[0]], float64(c[0]))
	}
	return out
}

// follow checks that the instructions of products of a kind are a line in m, whose slope by k*n is the same
// for every k and differs with the weights' type: so many instructions for each multiplication.
func follow(r *recording.Run) (slopes map[string]float64, wrong []string) {
	slopes = map[string]float64{}
	complain := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	all := products(r)
	for k, byM := range all {
		// the same product takes the same instructions, whenever
		mean := map[int64]float64{}
		for m, v := range byM {
			lo, hi, sum := math.Inf(1), 0.0, 0.0
			for _, x := range v {
				lo, hi, sum = min(lo, x), max(hi, x), sum+x
			}
			mean[m] = sum / float64(len(v))
			if hi > lo*1.05 {
				complain("%v, m %d: from %.0f to %.0f instructions", k, m, lo, hi)
			}
		}
		if len(mean) < 2 {
			continue
		}
		slope, rest := fit(mean)
		per := slope / float64(k.k*k.n)
		name := fmt.Sprintf("%s, n %d", k.weights, k.n)
		if rest > 0.03 {
			complain("%v: up to %.1f %% off the line in m: %v", k, 100*rest, mean)
		}
		if old, ok := slopes[name]; ok && math.Abs(per/old-1) > 0.1 {
			complain("%s: %.3f and %.3f instructions a multiplication", name, old, per)
		}
		slopes[name] = math.Round(1000*per) / 1000
		if per < 0.02 || per > 4 {
			complain("%v: %.3f instructions a multiplication", k, per)
		}
	}
	if len(slopes) < 6 {
		complain("types of weights: %v, want three in prefill and decode", slopes)
	}
	return slopes, wrong
}

// fit lays a line through points by least squares. It returns its slope and the largest relative distance.
func fit(points map[int64]float64) (slope, rest float64) {
	var n, x, y, xx, xy float64
	for m, v := range points {
		a := float64(m)
		n, x, y, xx, xy = n+1, x+a, y+v, xx+a*a, xy+a*v
	}
	slope = (n*xy - x*y) / (n*xx - x*x)
	for m, v := range points {
		rest = max(rest, math.Abs((y-slope*x)/n+slope*float64(m)-v)/v)
	}
	return slope, rest
}

// Instructions of matrix products follow m*n*k by the weights' type, and all operators together take fewer
// than their process.
func TestInstructions(t *testing.T) {
	for _, m := range []*machine{trixie, sid} {
		t.Run(m.kernel, func(t *testing.T) {
			m.well(t, "user")
			r := load(t, m, "user")
			slopes, wrong := follow(r)
			for _, w := range wrong {
				t.Error(w)
			}
			t.Logf("instructions a multiplication: %v", slopes)
			var total map[string]int64
			if err := json.Unmarshal([]byte(m.read(t, "total.json")), &total); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"cycles", "instructions"} {
				var sum int64
				for _, o := range r.Ops {
					if c, ok := counts(r, o, name+":u"); ok {
						sum += c[0]
					}
				}
				t.Logf("%s in user space: %d of the operators, %d of their process", name, sum, total[name])
				if sum >= total[name] || sum < total[name]/10 {
					t.Errorf("%s: operators have %d, their process %d", name, sum, total[name])
				}
			}
			if total["cycles"] != total["instructions"]<<m.shift {
				t.Errorf("the process itself: %v", total)
			}
		})
	}
}

// Checks fail when they should.
func TestCountersNoticeMutations(t *testing.T) {
	trixie.well(t, "user")
	check := func(r *recording.Run) []string {
		_, wrong := follow(r)
		return append(ipc(r, "cycles:u", "instructions:u", trixie.shift, 0, 0), wrong...)
	}
	if r := load(t, trixie, "user"); len(check(r)) > 0 {
		t.Fatalf("unchanged: %v", check(r))
	}
	n := 0
	samples := func(change func(*trace.Sample)) func(*trace.Block) {
		return func(b *trace.Block) {
			for i := range b.Samples {
				change(&b.Samples[i])
			}
		}
	}
	for name, change := range map[string]func(*trace.Block){
		"a counter in the other's place": samples(func(s *trace.Sample) {
			s.Values[0], s.Values[1] = s.Values[1], s.Values[0]
		}),
		"one counter a hit late": samples(func(s *trace.Sample) {
			if s.Kind == trace.SampleEnd {
				s.Values[0]++
			}
		}),
		"another CPU's counter at arrivals": samples(func(s *trace.Sample) {
			if s.Kind == trace.SampleEnd {
				s.CPU++
			}
		}),
		"a count of another time": samples(func(s *trace.Sample) {
			if n++; s.Kind == trace.SampleEnd && n%5 == 0 {
				s.Values[0] += 100_000 << trixie.shift
				s.Values[1] += 100_000
			}
		}),
		"shapes shifted by one": func(b *trace.Block) {
			if s := b.Shape; s != nil {
				for i := s.NNodes - 1; i > 0; i-- {
					s.Nodes[i].Addr = s.Nodes[i-1].Addr
				}
			}
		},
	} {
		r, err := recording.Changed(trixie.file("user.pinf"), change)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := check(r); len(wrong) == 0 {
			t.Errorf("%s: nobody noticed", name)
		} else {
			t.Logf("%s: %s", name, wrong[0])
		}
	}
}

// Nine events on seven counters take turns, are scaled, and are marked as such.
func TestNineEvents(t *testing.T) {
	res := trixie.well(t, "nine")
	r := load(t, trixie, "nine")
	if n := len(r.Header.Meta.Counters); n != 9 {
		t.Fatalf("%d counters: %+v", n, r.Header.Meta.Counters)
	}
	for _, c := range r.Header.Meta.Counters {
		if !c.Scaled {
			t.Errorf("%s is not marked as scaled", c.Name)
		}
	}
	for _, name := range []string{"cycles", "instructions:u"} {
		if !strings.Contains(res.stderr, name+" is counted ") ||
			!strings.Contains(strings.Join(r.Header.Meta.Notes, "\n"), name+" is counted ") {
			t.Errorf("nobody says that %s is scaled: %s\n%q", name, res.stderr, r.Header.Meta.Notes)
		}
	}
	// Over the run, what is scaled is near what an event alone counts: an instruction is an instruction in
	// user space.
	var cycles, instructions, scaled, known int64
	for _, o := range r.Ops {
		if o.Scaled {
			scaled++
		}
		if c, ok := counts(r, o, "cycles:u", "instructions:u"); ok {
			known++
			cycles, instructions = cycles+c[0], instructions+c[1]
		}
	}
	t.Logf("%d operators, %d with both counters, %d scaled; %d cycles, %d instructions", len(r.Ops), known,
		scaled, cycles, instructions)
	if scaled == 0 || known == 0 || known == int64(len(r.Ops)) {
		t.Errorf("of %d operators %d are scaled, and of %d both are known", len(r.Ops), scaled, known)
	}
	if ratio := float64(cycles) / float64(instructions<<trixie.shift); ratio < 0.8 || ratio > 1.25 {
		t.Errorf("cycles of an instruction are %.2f of what they are", ratio)
	}
}

// What the CPU has not is refused when it is asked for by name, and said when a question asks for it.
func TestRefused(t *testing.T) {
	if r := trixie.result(t, "raw"); r.status != 4 || !strings.Contains(r.stderr, "r0017") {
		t.Errorf("raw event: status %d, %s%s", r.status, r.stdout, r.stderr)
	} else {
		t.Log(strings.TrimSpace(r.stderr))
	}
	r := trixie.well(t, "question")
	if !strings.Contains(r.stderr, "counters: ") {
		t.Errorf("nobody says that there are no events of caches: %s", r.stderr)
	}
	for _, c := range load(t, trixie, "question").Header.Meta.Counters {
		if c.Void == "" && strings.Contains(c.Name, "cache") {
			t.Errorf("%+v", c)
		}
	}
}

// Without counters the kernel's own are taken, and that is said once.
func TestNoCounters(t *testing.T) {
	res := none.well(t, "auto")
	if n := strings.Count(res.stderr, "shows no counters of its CPUs"); n != 1 {
		t.Errorf("said %d times: %s", n, res.stderr)
	}
	r := load(t, none, "auto")
	var names []string
	for _, c := range r.Header.Meta.Counters {
		names = append(names, c.Name)
	}
	known := 0
	for _, o := range r.Ops {
		if _, ok := counts(r, o, "minor-faults", "context-switches"); ok {
			known++
		}
	}
	t.Logf("counters %v, known of %d of %d operators", names, known, len(r.Ops))
	if known < len(r.Ops)*8/10 || known == 0 {
		t.Errorf("counters %v are known of %d of %d operators", names, known, len(r.Ops))
	}
	if r := none.result(t, "cycles"); r.status != 4 || !strings.Contains(r.stderr, "cycles") {
		t.Errorf("cycles: status %d, %s", r.status, r.stderr)
	}
}

// crowding checks that no operator's count holds the cycles of what else ran on its CPU. A cycle is 1 ns
// there.
func crowding(r *recording.Run) (wrong []string) {
	at := r.Counter("cycles:u")
	var known, all, cycles, busy, off int64
	for _, o := range r.Ops {
		for i := range o.Threads {
			th := &o.Threads[i]
			all++
			off += th.OffCPU
			if at < 0 || th.Counts == nil || th.Counts[at] == profile.UnknownCount {
				continue
			}
			known++
			busy += th.Busy
			cycles += th.Counts[at]
			if th.Counts[at] > th.Busy+th.Busy/50+20_000 && len(wrong) < 8 {
				wrong = append(wrong, fmt.Sprintf("%s %s on thread %d: %d cycles in %d ns on its CPU, %d ns off it", o.Op, o.NodeDef().Name, th.TID, th.Counts[at], th.Busy, th.OffCPU))
			}
		}
	}
	switch {
	case known < all*8/10 || all == 0:
		wrong = append(wrong, fmt.Sprintf("counters are known of %d of %d operators on threads", known, all))
	case off < busy/10:
		wrong = append(wrong, fmt.Sprintf("threads were off their CPUs for %d ns only, busy %d: nothing is tested", off, busy))
	case cycles > busy || cycles < busy/4:
		wrong = append(wrong, fmt.Sprintf("%d cycles in %d ns on a CPU", cycles, busy))
	}
	return wrong
}

// Two threads, one CPU of which another process spins on: no operator's count includes the other's.
func TestCrowded(t *testing.T) {
	pair.well(t, "crowded")
	for _, w := range crowding(load(t, pair, "crowded")) {
		t.Error(w)
	}
	var last [2]uint64
	for name, change := range map[string]func(*trace.Block){
		"the other CPU's counter at arrivals": func(b *trace.Block) {
			for i := range b.Samples {
				s := &b.Samples[i]
				last[s.CPU&1] = s.Values[0]
				if s.Kind == trace.SampleEnd {
					s.Values[0] = last[s.CPU&1^1]
				}
			}
		},
		"the spans between taken too": func(b *trace.Block) {
			kept := b.Samples[:0:0]
			for _, s := range b.Samples {
				if s.Kind == trace.SampleBegin || s.Kind == trace.SampleEnd {
					kept = append(kept, s)
				}
			}
			b.Samples = kept
		},
	} {
		r, err := recording.Changed(pair.file("crowded.pinf"), change)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := crowding(r); len(wrong) == 0 {
			t.Errorf("%s: nobody noticed", name)
		} else {
			t.Logf("%s: %s", name, wrong[0])
		}
	}
}
