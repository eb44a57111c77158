// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// offloadRun returns a reader of a split run.
func offloadRun(t testing.TB, steps int, change func(*profiletest.Recorder)) *trace.Reader {
	t.Helper()
	var b bytes.Buffer
	if err := profiletest.Offload(&b, steps, change); err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func offloadOf(t testing.TB, steps int,
	change func(*profiletest.Recorder)) map[profile.Phase]*offload.Offload {
	t.Helper()
	b := stat.New(stat.Options{})
	h, err := profile.Replay(offloadRun(t, steps, change), b)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Finish(h)
	out := map[profile.Phase]*offload.Offload{}
	for i := range s.Offload {
		out[s.Offload[i].Phase] = &s.Offload[i]
	}
	return out
}

func text(v *float64) string {
	if v == nil {
		return "?"
	}
	return fmt.Sprintf("%.6g", *v)
}

func layers(l *offload.LayerSet) string {
	if l == nil {
		return "-"
	}
	return fmt.Sprintf("%d-%d/%d", l.First, l.Last, l.Count)
}

func opLine(o *offload.BackendOp) string {
	s := fmt.Sprintf("%s %s %v", o.Key, o.Op, o.Ne[:2])
	if o.K != nil {
		s += fmt.Sprintf(" k%d", *o.K)
	}
	for _, t := range o.PerBackend {
		s += fmt.Sprintf(" | %s %g x %s %s %s", t.Backend, t.Calls, text(t.Mean), t.TimedBy, layers(t.Layers))
	}
	return s
}

// The same operators on the CPU and on a GPU, and on BLAS: times of operators, of graphs, and what of one
// graph others take.
func TestOperatorsByBackend(t *testing.T) {
	all := offloadOf(t, 3, nil)
	check := func(x *offload.Offload, ops, graphs []string) {
		t.Helper()
		var got []string
		for i := range x.Operators {
			got = append(got, opLine(&x.Operators[i]))
		}
		if g, w := strings.Join(got, "\n"), strings.Join(ops, "\n"); g != w {
			t.Errorf("%s: operators\n%s\nwant\n%s", x.Phase, g, w)
		}
		got = nil
		for _, g := range x.Graphs {
			s := fmt.Sprintf("%s %d %s %g x %s %s", g.Backend, g.Nodes, layers(g.Layers), g.Calls,
				text(g.Mean), g.TimedBy)
			for _, o := range g.Operators {
				s += fmt.Sprintf(" %dx%s", o.Count, x.Operators[o.Op].Key)
			}
			for _, o := range g.Others {
				s += fmt.Sprintf(" | %s %g of %d: %s, flops %s", o.Backend, o.Dur, o.Known, text(o.Ratio),
					text(o.Flops))
			}
			got = append(got, s)
		}
		if g, w := strings.Join(got, "\n"), strings.Join(graphs, "\n"); g != w {
			t.Errorf("%s: graphs\n%s\nwant\n%s", x.Phase, g, w)
		}
	}
	// Layer 0 on the CPU, layer 1 and the output in one graph of the GPU, of 100 µs: its ffn takes
	// 30+40+5+50+3 µs on the CPU. Of its flops 2*64*1024 = 131072 are the output's, 3*2*64*192 = 73728 its
	// products', 5*192 = 960 SWIGLU's and 64 ADD's.
	check(all[profile.Decode], []string{
		"ffn_down MUL_MAT [64 1] k192 | CPU 1 x 50000 operators 0-0/1 | GPU 1 x ?  1-1/1",
		"ffn_up MUL_MAT [192 1] k64 | CPU 1 x 40000 operators 0-0/1 | GPU 1 x ?  1-1/1",
		"ffn_gate MUL_MAT [192 1] k64 | CPU 1 x 30000 operators 0-0/1 | GPU 1 x ?  1-1/1",
		"SWIGLU SWIGLU [192 1] | CPU 1 x 5000 operators 0-0/1 | GPU 1 x ?  1-1/1",
		"ADD ADD [64 1] | CPU 1 x 3000 operators 0-0/1 | GPU 1 x ?  1-1/1",
		"token_embd GET_ROWS [64 1] | CPU 1 x 2000 operators -",
		"output MUL_MAT [1024 1] k64 | GPU 1 x ?  -",
	}, []string{fmt.Sprintf("GPU 6 1-1/1 1 x 100000 span 1xffn_gate 1xffn_up 1xSWIGLU 1xffn_down 1xADD 1xoutput | CPU 128000 of 5: %.6g, flops %.6g",
		100000.0/128000, 74752.0/205824)})
	// BLAS: ffn_down has a graph of its own, gate and up one together.
	check(all[profile.Prefill], []string{
		"ffn_down MUL_MAT [64 8] k192 | BLAS 1 x 25000 call 0-0/1 | GPU 1 x ?  1-1/1",
		"SWIGLU SWIGLU [192 8] | CPU 1 x 5000 operators 0-0/1 | GPU 1 x ?  1-1/1",
		"ADD ADD [64 8] | CPU 1 x 3000 operators 0-0/1 | GPU 1 x ?  1-1/1",
		"token_embd GET_ROWS [64 8] | CPU 1 x 2000 operators -",
		"output MUL_MAT [1024 8] k64 | GPU 1 x ?  -",
		"ffn_gate MUL_MAT [192 8] k64 | BLAS 1 x ?  0-0/1 | GPU 1 x ?  1-1/1",
		"ffn_up MUL_MAT [192 8] k64 | BLAS 1 x ?  0-0/1 | GPU 1 x ?  1-1/1",
	}, []string{
		fmt.Sprintf("GPU 6 1-1/1 1 x 100000 span 1xffn_gate 1xffn_up 1xSWIGLU 1xffn_down 1xADD 1xoutput | CPU 8000 of 2: %.6g, flops %.6g | BLAS 25000 of 1: 4, flops %.6g",
			100000.0/8000, 1024.0/205824, 24576.0/205824),
		"BLAS 2 0-0/1 1 x 60000 call 1xffn_gate 1xffn_up",
	})

	// Products: of the CPU those of layer 0, 73728 flops in 120 µs.
	d := all[profile.Decode].Products
	if len(d) != 2 || d[0].Backend != "GPU" || d[1].Backend != "CPU" {
		t.Fatalf("products: %+v", d)
	}
	gpu, cpu := d[0], d[1]
	if *cpu.Flops != 73728 || *cpu.Dur != 120_000 || math.Abs(*cpu.GFlops-73728.0/120_000) > 1e-12 ||
		cpu.TimedBy != "operators" || *cpu.Part != 1 || cpu.Others != 0 || cpu.Products != 3 {
		t.Errorf("CPU: %+v", cpu)
	}
	// weights of 64 x 192 in Q4_0 are 64*192/32*18 = 6912 B; inputs and results 4 B each: gate and up
	// (64+192)*4, down the same
	if want := float64(3*6912 + 3*(64+192)*4); *cpu.Bytes != want ||
		math.Abs(*cpu.GBps-want/120_000) > 1e-12 {
		t.Errorf("CPU: %g bytes, want %g", *cpu.Bytes, want)
	}
	if gpu.Products != 4 || *gpu.Flops != 73728+131072 || *gpu.Dur != 100_000 || gpu.TimedBy != "span" ||
		gpu.Others != 2 || math.Abs(*gpu.GFlops-2.048) > 1e-9 {
		t.Errorf("GPU: %+v", gpu)
	}
	p := all[profile.Prefill].Products
	if len(p) != 2 || p[1].Backend != "BLAS" || p[1].Products != 3 || *p[1].Dur != 85_000 ||
		p[1].Others != 0 || p[1].TimedBy != "call" || math.Abs(*p[1].GFlops-8*73728.0/85_000) > 1e-9 {
		t.Errorf("prefill's products: %+v", p)
	}
}

// Two graphs handed over and waited for once: the span is of neither alone.
func TestOperatorsUnderWay(t *testing.T) {
	again := func(ms []trace.Mark) []trace.Mark {
		out := slices.DeleteFunc(slices.Clone(ms), func(m trace.Mark) bool {
			return m.Time >= 161 && m.Time <= 165
		})
		out = append(out, trace.Mark{Time: 162, Kind: trace.MarkGraphBegin, Site: offGPUBegin, Ctx: 9,
			Shape: 2, NNodes: 1}, trace.Mark{Time: 164, Kind: trace.MarkGraphEnd, Site: offGPUEnd})
		slices.SortStableFunc(out, func(a, b trace.Mark) int { return int(a.Time - b.Time) })
		return out
	}
	for _, c := range []struct {
		change func([]trace.Mark) []trace.Mark
		timed  int64
	}{{nil, 2}, {again, 0}} {
		b := stat.New(stat.Options{})
		h, err := profile.Replay(offloaded(t, 2, c.change), b)
		if err != nil {
			t.Fatal(err)
		}
		s := b.Finish(h)
		for _, o := range s.Offload[0].Operators {
			for _, x := range o.PerBackend {
				if x.Backend == "GPU" && (x.Timed != c.timed || (x.Mean != nil) != (c.timed > 0)) {
					t.Errorf("%s: %d calls timed, want %d; mean %s", o.Key, x.Timed, c.timed, text(x.Mean))
				}
			}
		}
	}
}

// What the probes took is left out of operators' times.
func TestOperatorsWithoutProbes(t *testing.T) {
	cost := func(r *profiletest.Recorder) {
		r.Head = func(m *trace.Meta) { m.ProbeCost = map[string]int64{"emulated": 200} }
	}
	for _, o := range offloadOf(t, 2, cost)[profile.Decode].Operators {
		if o.Key == "ffn_down" {
			if m := *o.PerBackend[0].Mean; m >= profiletest.OffDown || m < profiletest.OffDown-2*400 {
				t.Errorf("ffn_down takes %g, with probes %d", m, profiletest.OffDown)
			}
		}
	}
}
