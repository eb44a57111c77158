// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

// mapped plays runs into an ExpertMap and the statistics.
func mapped(t *testing.T, cells int, change func(*profile.Op), runs ...profiletest.Run) (*experts.Map,
	*summary.Stat) {
	t.Helper()
	b, s := experts.NewMap(cells, nil), stat.New(stat.Options{})
	if change == nil {
		change = func(*profile.Op) {}
	}
	p := &profiletest.Player{Sink: slower{profile.Tee(b, s), change}}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(), s.Finish(p.Header("op"))
}

// numbers unpacks what the tokens of a layer chose.
func numbers(p *experts.MapPhase, l *experts.MapLayer) (out []int) {
	n := l.Columns * l.Used
	if l.TokensPerColumn > 1 {
		n = l.Columns * l.Experts
	}
	for i := range n {
		b := p.Data[l.Offset+i*l.Width:]
		switch l.Width {
		case 1:
			out = append(out, int(b[0]))
		case 2:
			out = append(out, int(binary.LittleEndian.Uint16(b)))
		case 4:
			out = append(out, int(binary.LittleEndian.Uint32(b)))
		}
	}
	return out
}

// loadsOf adds up what tokens chose, by expert.
func loadsOf(p *experts.MapPhase, l *experts.MapLayer) []int64 {
	load := make([]int64, l.Experts)
	for i, n := range numbers(p, l) {
		if l.TokensPerColumn > 1 {
			load[i%l.Experts] += int64(n)
		} else {
			load[n]++
		}
	}
	return load
}

// mapAgrees compares a map with the statistics of the same run: layers in their order, sums of tokens'
// choices, caches, bytes, times.
func mapAgrees(t *testing.T, m *experts.Map, s *summary.Stat) {
	t.Helper()
	i := 0
	for k := range s.Phases {
		f := &s.Phases[k]
		if f.Experts == nil || len(f.Experts.Layers) == 0 {
			continue
		}
		if i >= len(m.Phases) {
			t.Fatalf("only %d phases", i)
		}
		p, e := &m.Phases[i], f.Experts
		i++
		if p.Phase != f.Phase || (p.Model == nil) != (f.Model == nil) || p.Model != nil &&
			*p.Model != *f.Model || len(p.Layers) != len(e.Layers) || len(p.Products) != len(e.Products) {
			t.Fatalf("phase %s: %d layers, %d products; the statistics have %s, %d, %d", p.Phase,
				len(p.Layers), len(p.Products), f.Phase, len(e.Layers), len(e.Products))
		}
		for j := range p.Layers {
			l, want := &p.Layers[j], &e.Layers[j]
			if *l.Layer != *want.Layer || l.Experts != want.Experts || l.Used != want.Used ||
				!slices.Equal(loadsOf(p, l), want.Load) {
				t.Errorf("%s, layer %d: load %v, want %v", p.Phase, *l.Layer, loadsOf(p, l), want.Load)
			}
			tokens := int64(0)
			for _, n := range p.Axes[l.Axis].N {
				tokens += int64(n)
			}
			if tokens != want.Tokens {
				t.Errorf("%s, layer %d: %d tokens along the axis, want %d", p.Phase, *l.Layer, tokens,
					want.Tokens)
			}
		}
		for _, c := range e.Cache {
			if n := min(c.Experts, len(p.Cache)); math.Abs(p.Cache[n-1]-c.Hits) > 1e-12 {
				t.Errorf("%s: a cache of %d holds %g, want %g", p.Phase, c.Experts, p.Cache[n-1], c.Hits)
			}
		}
		if e.Bytes != nil && len(p.Steps) > 0 {
			n, bytes, all := int64(0), 0.0, 0.0
			for _, x := range p.Steps {
				n += x.N
				bytes += *x.Bytes
				all += *x.All
			}
			if math.Abs(bytes/float64(n)-*e.Bytes) > 1e-6**e.Bytes ||
				math.Abs(all/float64(n)-*e.BytesAll) > 1e-6**e.BytesAll {
				t.Errorf("%s: %g of %g bytes a step, want %g of %g", p.Phase, bytes/float64(n),
					all/float64(n), *e.Bytes, *e.BytesAll)
			}
		}
		for j, x := range p.Products {
			for k, n := range x.New {
				if want := e.Products[j].New[k]; x.Weight != e.Products[j].Weight || n.New != want.New ||
					n.Calls != want.Calls || n.P50 != want.Median || n.P5 > n.P25 || n.P25 > n.P50 ||
					n.P50 > n.P75 || n.P75 > n.P95 {
					t.Errorf("%s: %+v, want %+v", x.Weight, n, want)
				}
			}
		}
	}
	if i != len(m.Phases) {
		t.Errorf("%d phases, the statistics have %d with experts", len(m.Phases), i)
	}
}

// What each token chose, in its place: by layer, step, position and rank.
func TestExpertMap(t *testing.T) {
	m, s := mapped(t, 0, nil, moe)
	mapAgrees(t, m, s)
	if len(m.Phases) != 2 || m.Phases[0].Phase != "prefill" || m.Phases[1].Phase != "decode" {
		t.Fatalf("%+v", m.Phases)
	}
	for i, p := range m.Phases {
		tokens, pos := 200, 0
		if i == 1 {
			tokens, pos = 20, 200
		}
		for j := range p.Layers {
			l := &p.Layers[j]
			if l.TokensPerColumn != 1 || l.Columns != tokens || l.Width != 1 || l.Axis != 0 ||
				len(p.Axes) != 1 {
				t.Fatalf("%+v", l)
			}
			for k, x := range numbers(&p, l) {
				if want := (j + pos + k/4 + k%4) % 16; x != want {
					t.Fatalf("%s, layer %d, token %d, rank %d is %d, want %d", p.Phase, j, k/4, k%4, x, want)
				}
			}
		}
	}
	a, b := m.Phases[0].Axes[0], m.Phases[1].Axes[0]
	if !slices.Equal(a.Step, []int64{1}) || !slices.Equal(a.N, []int32{200}) ||
		!slices.Equal(a.Pos, []int32{0}) || a.Last != nil {
		t.Errorf("prefill's axis: %+v", a)
	}
	for k := range 20 {
		if len(b.Step) != 20 || b.Step[k] != int64(k+2) || b.N[k] != 1 || b.Pos[k] != int32(200+k) {
			t.Fatalf("decode's axis: %+v", b)
		}
	}
	d := m.Phases[1]
	const plane = 64 * 192 / 32 * 18 // bytes of an expert
	for k, x := range d.Steps {
		// three of four are the step before's, in each of two layers; of the first the step before is another
		// phase's
		want := experts.Step{ID: int64(k + 2), N: 1, Tokens: 1, Experts: 8, New: 2, Known: 8}
		if k == 0 {
			want.New, want.Known = 0, 0
		}
		if *x.Bytes != 2*3*4*plane || *x.All != 2*3*16*plane {
			t.Errorf("step %d: %g of %g bytes", x.ID, *x.Bytes, *x.All)
		}
		if x.Bytes, x.All = nil, nil; x != want {
			t.Errorf("%+v, want %+v", x, want)
		}
	}
	for _, l := range d.Layers {
		if l.ByChance == nil || *l.ByChance != 0.25 {
			t.Errorf("layer %d by chance: %v", *l.Layer, l.ByChance)
		}
		// Of the four of a step three are found among the four used last; the new one is the one that was
		// used longest ago, or, of the first steps, where the prompt left it.
		if c := l.Cache; len(c) != 16 || c[0] != 0 || math.Abs(c[3]-0.75) > 0.05 || c[15] != 1 {
			t.Errorf("layer %d: caches hold %v", *l.Layer, c)
		}
	}
}

// Where there is too much to keep, tokens are put together, and their sums stay.
func TestExpertMapWide(t *testing.T) {
	run := moe
	run.Decode = 1000
	exact, _ := mapped(t, 0, nil, run)
	for _, cells := range []int{9000, 3000, 1000, 300, 10} {
		m, s := mapped(t, cells, nil, run)
		mapAgrees(t, m, s)
		kept := 0
		for i, p := range m.Phases {
			for j, l := range p.Layers {
				if l.TokensPerColumn == 1 {
					kept += l.Columns * l.Used
					if p.Phase == "decode" && cells < 4000 {
						t.Errorf("%d cells: decode is not put together", cells)
					}
					continue
				}
				kept += l.Columns * l.Experts
				a := p.Axes[l.Axis]
				want := (int(s.Phases[i].Experts.Layers[j].Tokens) +
					l.TokensPerColumn - 1) / l.TokensPerColumn
				if l.Columns != want || len(a.Step) != want || len(a.Last) != want {
					t.Fatalf("%d cells: %d columns of %d tokens, want %d", cells, l.Columns,
						l.TokensPerColumn, want)
				}
				// each column's numbers are those of its tokens
				got, all := numbers(&p, &l), numbers(&exact.Phases[i], &exact.Phases[i].Layers[j])
				for k := range l.Columns {
					load := make([]int, 16)
					for _, x := range all[k*l.TokensPerColumn*4 : min(len(all), (k+1)*l.TokensPerColumn*4)] {
						load[x]++
					}
					if !slices.Equal(got[k*16:(k+1)*16], load) {
						t.Fatalf("%d cells: column %d is %v, want %v", cells, k, got[k*16:(k+1)*16], load)
					}
					if first := int64(k*l.TokensPerColumn) + 2; i == 1 &&
						(a.Step[k] != first || a.Last[k] != min(1001, first+int64(l.TokensPerColumn)-1)) {
						t.Fatalf("%d cells: column %d is of steps %d to %d", cells, k, a.Step[k], a.Last[k])
					}
				}
			}
		}
		if kept > max(cells, 2*4*16) { // two phases of two layers cannot be less than a column each
			t.Errorf("%d cells: %d are kept", cells, kept)
		}
	}
}

// Several contexts, of one model or not, and phases apart.
func TestExpertMapContexts(t *testing.T) {
	a, b, c := moe, moe, moe
	a.Decode, b.Decode, c.Decode = 30, 7, 5
	b.Ctx, b.Prefill = 2, 50
	c.Ctx, c.PID, c.Model.Base, c.Model.Layers = 3, 40, 0x7000000, 1
	for _, cells := range []int{0, 500} {
		m, s := mapped(t, cells, nil, a, b, c, a)
		mapAgrees(t, m, s)
		if len(m.Phases) != 4 {
			t.Fatalf("%d phases", len(m.Phases))
		}
		for _, p := range m.Phases {
			for _, x := range p.Axes {
				if !slices.IsSorted(x.Step) {
					t.Errorf("%s: steps %v", p.Phase, x.Step)
				}
			}
		}
	}
}

// Only steps that were wholly seen, unless there are no others.
func TestExpertMapPartial(t *testing.T) {
	run := moe
	run.Partial = 5
	m, s := mapped(t, 0, nil, run)
	mapAgrees(t, m, s)
	if n := m.Phases[1].Layers[0].Columns; n != 19 {
		t.Errorf("%d columns", n)
	}
	for _, x := range m.Phases[1].Steps {
		if x.ID == 6 {
			t.Errorf("%+v: it was not wholly seen", x)
		}
	}
	run.Prefill, run.Decode, run.Partial = 0, 1, 1
	m, s = mapped(t, 0, nil, run)
	mapAgrees(t, m, s)
	if len(m.Phases) != 1 || m.Phases[0].Layers[0].Columns != 1 || len(m.Phases[0].Steps) != 1 {
		t.Errorf("%+v", m.Phases)
	}
	m, _ = mapped(t, 0, nil, profiletest.Run{Model: profiletest.Small, PID: 1, Threads: 1, Prefill: 4,
		Decode: 2, Start: 1})
	if len(m.Phases) != 0 {
		t.Errorf("experts without experts: %+v", m.Phases)
	}
}

// In long runs a point stands for several steps.
func TestExpertMapSteps(t *testing.T) {
	run := moe
	run.Model.Layers, run.Prefill, run.Decode = 1, 0, 5000
	m, s := mapped(t, 0, nil, run)
	mapAgrees(t, m, s)
	p := m.Phases[0]
	if p.PerPoint != 2 || len(p.Steps) > 4096 {
		t.Errorf("%d points of %d steps", len(p.Steps), p.PerPoint)
	}
	n, next := int64(0), int64(1)
	for _, x := range p.Steps {
		if x.ID != next || x.Tokens != x.N {
			t.Fatalf("%+v, want step %d", x, next)
		}
		next += x.N
		n += x.New
	}
	if next != 5001 || n != 4999 {
		t.Errorf("%d steps, %d new", next-1, n)
	}
}

// The line through the medians.
func TestExpertMapTimes(t *testing.T) {
	run := moe
	run.Prefill, run.Decode = 0, 41
	// every second step takes four new ones, the others none
	run.Choose = func(_, pos, rank int64) int32 { return int32((pos/2*4 + rank) % 16) }
	n := map[int32]int{}
	m, s := mapped(t, 0, func(o *profile.Op) {
		if o.Choice == nil {
			return
		}
		n[o.Node]++
		if o.Dur = 1_000_000; n[o.Node]%2 == 1 {
			o.Dur = 3_000_000
		}
	}, run)
	mapAgrees(t, m, s)
	for _, p := range m.Phases[0].Products {
		if len(p.New) != 2 || p.New[1].New != 4 || p.Base == nil || math.Abs(*p.Base-1e6) > 0.02e6 ||
			math.Abs(*p.PerNew-0.5e6) > 0.01e6 {
			t.Errorf("%+v", p)
		}
	}
}
