// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

func detailOf(t testing.TB, r *trace.Reader) (*offload.Detail, *summary.Stat) {
	t.Helper()
	b, s := offload.New(nil), stat.New(stat.Options{})
	h, err := profile.Replay(r, profile.Tee(b, s))
	if err != nil {
		t.Fatal(err)
	}
	return b.Finish(h), s.Finish(h)
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The splits of a typical step, in order, with the device's time, what is copied between them, and their
// nodes.
func TestSplitStep(t *testing.T) {
	d, s := detailOf(t, offloadRun(t, 200, nil))
	if len(d.Phases) != 2 {
		t.Fatalf("%d phases", len(d.Phases))
	}
	for i, p := range d.Phases { // what the page has is what stat --json has
		if got, want := asJSON(t, p.Offload), asJSON(t, s.Offload[i]); got != want || !p.Split {
			t.Errorf("%s\n%s\nstat --json has\n%s", p.Phase, got, want)
		}
	}
	check := func(x *offload.SplitStep, want []string) {
		t.Helper()
		var got []string
		for i, y := range x.Splits {
			line := fmt.Sprintf("%d %s +%d %d", y.Split, y.Backend, y.Start, y.Dur)
			for _, v := range []*int64{y.Done, y.Waited, y.Idle, y.OpsDur} {
				if v == nil {
					line += " ?"
				} else {
					line += fmt.Sprintf(" %d", *v)
				}
			}
			line += fmt.Sprintf(" %s %.0f B %.0f flop:", layers(y.Layers), y.Weights, y.Flops)
			for _, n := range x.Lists[y.List] {
				line += " " + n.Name
				if n.Dur != nil {
					line += fmt.Sprintf("=%d", *n.Dur)
				}
			}
			if int(y.Nodes) != len(x.Lists[y.List]) {
				t.Errorf("split %d: %d nodes, %d in its list", i, y.Nodes, len(x.Lists[y.List]))
			}
			got = append(got, line)
		}
		for _, c := range x.Copies {
			got = append(got, fmt.Sprintf("%d %s %s %s>%s %d B +%d", c.At, c.Kind, c.Tensor, c.From, c.To,
				*c.Bytes, c.Start))
		}
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Errorf("splits\n%s\nwant\n%s", g, w)
		}
	}
	// A weight of 64 x 192 has 6912 B. The GPU reads three and the output's of 64 x 1024, 36864 B.
	check(d.Phases[1].Step, []string{
		"0 CPU +1000 132000 ? ? ? 130000 0-0/1 20736 B 74752 flop: embd=2000 ffn_gate-0=30000 ffn_up-0=40000 ffn_swiglu-0=5000 ffn_out-0=50000 l_out-0=3000",
		"1 GPU +143000 10000 243000 80000 ? ? 1-1/1 57600 B 205824 flop: ffn_gate-1 ffn_up-1 ffn_swiglu-1 ffn_out-1 l_out-1 result_output",
		"0 set inp_tokens host>CPU 4 B +500",
		"1 copy GPU0#l_out-0#0 CPU>GPU 256 B +135000",
		"2 get result_output GPU>host 4096 B +244000",
	})
	check(d.Phases[0].Step, []string{
		"0 CPU +1000 4000 ? ? ? 2000 - 0 B 0 flop: embd=2000",
		"1 BLAS +15000 60000 ? ? ? ? 0-0/1 13824 B 393216 flop: ffn_gate-0 ffn_up-0",
		"2 CPU +85000 7000 ? ? 80000 5000 0-0/1 0 B 7680 flop: ffn_swiglu-0=5000",
		"3 BLAS +102000 25000 ? ? 27000 ? 0-0/1 6912 B 196608 flop: ffn_out-0=25000",
		"4 CPU +137000 5000 ? ? 45000 3000 0-0/1 0 B 512 flop: l_out-0=3000",
		"5 GPU +152000 10000 252000 80000 ? ? 1-1/1 57600 B 1646592 flop: ffn_gate-1 ffn_up-1 ffn_swiglu-1 ffn_out-1 l_out-1 result_output",
		"0 set inp_tokens host>CPU 32 B +500",
		"5 copy GPU0#l_out-0#0 CPU>GPU 2048 B +144000",
		"6 get result_output GPU>host 4096 B +253000",
	})
	if of := d.Phases[1].Step.Of; of < 32 || of >= 64 {
		t.Errorf("chosen from %d steps", of)
	}
	var names []string
	for _, x := range d.Phases[1].Tensors {
		names = append(names, fmt.Sprintf("%s>%s %s %g B %g", x.From, x.To, x.Tensor, *x.Bytes, x.PerStep))
	}
	if want := []string{"GPU>host result_output 4096 B 1", "CPU>GPU GPU0#l_out-N#0 256 B 1",
		"host>CPU inp_tokens 4 B 1"}; !slices.Equal(names, want) {
		t.Errorf("tensors %q, want %q", names, want)
	}
}

// The typical step is the one with the median duration of those that are split as most are.
func TestTypicalStep(t *testing.T) {
	slow := 0
	change := func(r *profiletest.Recorder) {
		r.Mark = func(m *trace.Mark) {
			if m.Kind == trace.MarkStepEnd {
				if slow++; slow > 1 { // of 4 decode steps: 0, 3, 1, 2 µs longer
					m.Time += []int64{0, 3000, 1000, 2000}[slow-2]
				}
			}
		}
	}
	d, _ := detailOf(t, offloadRun(t, 4, change))
	if x := d.Phases[1].Step; x.ID != 4 || x.Of != 4 { // steps 2 to 5; the lower median is the one with 1 µs
		t.Errorf("step %d of %d", x.ID, x.Of)
	}
}

// A run on the CPU alone has its operators, to be compared with those of another run, and no splits.
func TestOffloadAlone(t *testing.T) {
	b := offload.New(nil)
	p := &profiletest.Player{Sink: b}
	if err := p.Play(profiletest.Run{Model: profiletest.Small, PID: 7, Ctx: 1, Threads: 2, Prefill: 8,
		Decode: 4, Start: 1000}); err != nil {
		t.Fatal(err)
	}
	d := b.Finish(p.Header("op"))
	if len(d.Phases) != 2 || d.Phases[0].Split || d.Phases[0].Step != nil || d.Phases[1].Steps != 4 {
		t.Fatalf("%+v", d.Phases)
	}
	i := slices.IndexFunc(d.Phases[1].Operators, func(o offload.BackendOp) bool {
		return o.Key == "ffn_down"
	})
	if i < 0 {
		t.Fatalf("no ffn_down")
	}
	o := d.Phases[1].Operators[i]
	// 0.1 ns a byte and thread: 2000 + bytes * 0.1 / 2; thread 1 begins 100 ns later and has 5 % more work
	work := 2000 + int64(*o.Bytes*0.1/2)
	if want := float64(100 + work + work/20); len(o.PerBackend) != 1 || o.PerBackend[0].Calls != 2 ||
		*o.PerBackend[0].Mean != want || o.PerBackend[0].Layers.Count != 2 {
		t.Errorf("%+v, want a mean of %g", o.PerBackend, want)
	}
}
