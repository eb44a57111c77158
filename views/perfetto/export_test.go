// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

func export(t *testing.T, edit func(*profile.Header), runs ...profiletest.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	err := Export(&b, func(s profile.Sink) (*profile.Header, error) {
		p := &profiletest.Player{Sink: s}
		for _, r := range runs {
			if err := p.Play(r); err != nil {
				return nil, err
			}
		}
		h := p.Header("op")
		if edit != nil {
			edit(h)
		}
		return h, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var run = profiletest.Run{Model: profiletest.Small, PID: 4242, Ctx: 0xabc, Threads: 3, Prefill: 32,
	Decode: 40,
	Start:  1_000_000_000, Preempt: 7, Sched: true}

// In a step of the small model each layer runs RMS_NORM+MUL twice, three products and two ROPE
// for q, k and v, two SET_ROWS, FLASH_ATTN_EXT, attn_output, two ADD, gate, up, SWIGLU and down;
// and there are GET_ROWS, the last RMS_NORM+MUL and the output.
const opsPerStep = 2*17 + 3

func TestExport(t *testing.T) {
	c := check(t, export(t, func(h *profile.Header) {
		h.Losses = []trace.Loss{{Start: h.First + 5000, End: h.First + 6000, Why: "lost", What: "hits",
			Events: 7, CPU: 1},
			{Start: h.First + 5500, End: h.First + 5600, Why: "lost", What: "hits", Events: 1, CPU: -1}}
	}, run))
	if n := len(c.named("prefill")); n != 1 {
		t.Errorf("%d prefill slices, want 1", n)
	}
	steps := c.named("decode")
	if len(steps) != 40 {
		t.Errorf("%d decode slices, want 40", len(steps))
	}
	for i, s := range steps {
		if s.depth != 0 || s.notes["tokens"] != "1" || s.notes["step"] != fmt.Sprint(i+2) ||
			s.notes["context"] != "0xabc" {
			t.Errorf("decode step %d is %+v", i, s)
			break
		}
	}
	for _, g := range c.named("graph CPU") {
		if g.depth != 1 || g.notes["operators"] != fmt.Sprint(opsPerStep) {
			t.Errorf("graph is %+v", g)
			break
		}
	}
	var onMain, onWorkers, waits int
	for _, s := range c.slices {
		k := c.tracks[s.track]
		switch {
		case s.cat == "op" && k.tid == 4242:
			onMain++
			if s.depth != 2 {
				t.Fatalf("operator %q is at depth %d of the main thread", s.name, s.depth)
			}
		case s.cat == "op":
			onWorkers++
			if s.depth != 0 {
				t.Fatalf("operator %q is at depth %d of a worker", s.name, s.depth)
			}
		case s.cat == "wait":
			waits++
			if s.dur <= 0 {
				t.Fatal("a wait takes no time")
			}
		}
	}
	if onMain != 41*opsPerStep || onWorkers != 2*onMain {
		t.Errorf("%d operators on the main thread, %d on the workers; want %d and twice as many", onMain,
			onWorkers, 41*opsPerStep)
	}
	// The last thread of three arrives last, except where thread 1 was preempted.
	if waits != 2*onMain {
		t.Errorf("%d waits, want %d", waits, 2*onMain)
	}
	// 192 x 64 in blocks of 32 elements and 18 bytes: 6912; the input's row is 192 floats, the
	// output's 64.
	want := map[string]string{"op": "MUL_MAT", "name": "ffn_out-1", "dims": "64",
		"weight": "blk.1.ffn_down.weight", "weight_type": "q4_0",
		"type": "f32", "layer": "1", "block": "ffn", "bytes": fmt.Sprint(6912 + 192*4 +
			64*4), "flops": fmt.Sprint(2 * 192 * 64), "threads": "3"}
	found := false
	for _, s := range c.named("ffn_down") {
		if s.notes["layer"] == "1" && s.notes["dims"] == "64" {
			found = true
			for k, v := range want {
				if s.notes[k] != v {
					t.Errorf("ffn_down: %s is %q, want %q", k, s.notes[k], v)
				}
			}
			break
		}
	}
	if !found {
		t.Error("no ffn_down of layer 1 in decode")
	}
	if lost := c.named("7 hits not seen"); len(lost) != 1 || lost[0].notes["why"] != "lost" {
		t.Errorf("the loss is %+v", lost)
	}
	names := map[string]bool{}
	for _, k := range c.tracks {
		names[k.thread+k.process+k.name] = true
	}
	for _, n := range []string{"llama-bench (main)", "llama-bench (worker)", "llama-bench", "decode t/s",
		"decode GB/s", "prefill t/s", "not seen: lost"} {
		if !names[n] {
			t.Errorf("no track is called %q", n)
		}
	}
	if c.threads[77] != "apt-get" || c.kernel != "6.18.5" || len(c.switches) != 3 {
		t.Errorf("apt-get is %q, the kernel %q, %d CPUs", c.threads[77], c.kernel, len(c.switches))
	}
	for id, v := range c.counters {
		if v[len(v)-1] != 0 {
			t.Errorf("counter %d does not fall to 0 in the end", id)
		}
	}
}

// What is missing, torn or out of order still gives a trace that nests.
func TestExportDamaged(t *testing.T) {
	for _, name := range []string{"no step", "no graph", "backwards", "overlap", "no threads",
		"never arrived", "step twice", "level graph", "hostile", "missed switches", "graph never ends", "steps never end"} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			err := Export(&b, func(sink profile.Sink) (*profile.Header, error) {
				d := &damager{Sink: sink, how: name}
				r := run
				r.Decode, r.Preempt = 3, 2
				if name == "hostile" {
					r.Model.Suffix = "\x00\x1b[2J\xff\xfe\u202e"
				}
				p := &profiletest.Player{Sink: d}
				if err := p.Play(r); err != nil {
					return nil, err
				}
				h := p.Header("op")
				h.End = nil
				if name == "hostile" {
					h.Threads[0].Comm, h.Processes[0].Comm = "\xff\n", "\x1b]0;x\x07"
					h.Losses = []trace.Loss{{Start: 9, End: 1, Why: "\xc0", What: "\n", Events: 1 << 63,
						CPU: -5}}
				}
				return h, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			c := check(t, b.Bytes())
			if len(c.slices) == 0 {
				t.Error("nothing was drawn")
			}
			deepest := map[string]int{"step": 0, "graph": 1, "op": 2, "wait": 3, "loss": 0, "request": 1}
			for _, s := range c.slices {
				if s.depth > deepest[s.cat] {
					t.Fatalf("%s %q is at depth %d", s.cat, s.name, s.depth)
				}
			}
		})
	}
}

// damager spoils a run on its way.
type damager struct {
	profile.Sink
	how string
	n   int
	two *profile.Graph
}

func (d *damager) Op(o *profile.Op) error {
	d.n++
	c := *o
	switch d.how {
	case "no step":
		c.Step = nil
	case "no graph":
		c.Graph = nil
	case "backwards":
		if d.n%5 == 0 {
			c.Start -= 1_000_000
			for i := range c.Threads {
				c.Threads[i].Start -= 1_000_000
			}
		}
	case "overlap":
		c.Dur *= 3
	case "no threads":
		c.Threads = nil
	case "never arrived":
		c.Threads = append([]profile.OpThread(nil), o.Threads...)
		c.Threads[1].Busy, c.Threads[1].Wait, c.Threads[1].OffCPU = 0, 0, 0
		c.Incomplete = true
	case "level graph":
		return nil
	case "graph never ends":
		// The second half of each graph is one of its own; the first half never ends.
		if o.Graph.Ops > opsPerStep/2 {
			if d.two == nil || d.two.ID != -o.Graph.ID {
				g := *o.Graph
				g.ID, g.Start = -g.ID, o.Start
				d.two = &g
			}
			c.Graph = d.two
		}
	}
	return d.Sink.Op(&c)
}

func (d *damager) Graph(g *profile.Graph) error {
	if d.how == "steps never end" {
		return nil
	}
	if d.how == "graph never ends" {
		d.two.Dur = g.Start + g.Dur - d.two.Start
		g = d.two
	}
	return d.Sink.Graph(g)
}

func (d *damager) Step(s *profile.Step) error {
	if d.how == "steps never end" {
		return nil
	}
	if d.how == "step twice" {
		if s.ID == 2 {
			return nil // never ends
		}
		if err := d.Sink.Step(s); err != nil {
			return err
		}
	}
	return d.Sink.Step(s)
}

func (d *damager) Sched(s *trace.Sched) error {
	if d.how == "missed switches" && s.NextTID == 77 {
		return nil
	}
	return d.Sink.Sched(s)
}

func TestExportLevelGraph(t *testing.T) {
	r := run
	r.Preempt, r.Sched, r.NoOps = 0, false, true
	c := check(t, export(t, nil, r))
	if n := len(c.named("decode")); n != 40 {
		t.Errorf("%d steps", n)
	}
	for _, g := range c.named("graph CPU") {
		if g.depth != 1 {
			t.Fatalf("a graph is at depth %d", g.depth)
		}
	}
}

// A long run must begin its tables of strings anew and still be readable.
func TestInternedStringsAreBounded(t *testing.T) {
	var b bytes.Buffer
	err := Export(&b, func(s profile.Sink) (*profile.Header, error) {
		e := s.(*exporter)
		k := e.t.thread(1, 1)
		for i := range maxInterned + 100 {
			n := e.t.notes()
			n.text("a", fmt.Sprint("string ", i))
			e.t.begin(k, int64(i), nil, "c", "slice", n)
			e.t.end(k, int64(i), nil)
			if e.p.n > maxInterned {
				t.Fatalf("%d strings are kept", e.p.n)
			}
		}
		return &profile.Header{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check(t, b.Bytes())
}

func TestExportErrors(t *testing.T) {
	want := errors.New("the disk is full")
	if err := Export(&bytes.Buffer{}, func(profile.Sink) (*profile.Header, error) {
		return nil, want
	}); !errors.Is(err, want) {
		t.Errorf("the replay's error became %v", err)
	}
	err := Export(failing{want}, func(s profile.Sink) (*profile.Header, error) {
		p := &profiletest.Player{Sink: s}
		r := run
		r.Decode = 400
		return p.Header("op"), p.Play(r)
	})
	if !errors.Is(err, want) {
		t.Errorf("the writer's error became %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestReported(t *testing.T) {
	// Values of include/linux/sched.h.
	for in, want := range map[uint32]int64{0: 0, 1: 1, 2: 2, 0x402: 0x80, 4: 4, 8: 8, 0x20: 0x20, 0x1000: 2,
		0x8000: 2, 0x101: 1, 0x40: 0x40} {
		if got := reported(in); got != want {
			t.Errorf("state %#x is reported as %#x, want %#x", in, got, want)
		}
	}
}

// TestTraceProcessor asks Perfetto's own parser, where PROFINFER_TRACE_PROCESSOR names a program
// that takes -Q SQL FILE as trace_processor_shell does.
func TestTraceProcessor(t *testing.T) {
	tp := os.Getenv("PROFINFER_TRACE_PROCESSOR")
	if tp == "" {
		t.Skip("PROFINFER_TRACE_PROCESSOR is not set")
	}
	file := filepath.Join(t.TempDir(), "run.pftrace.gz")
	if err := os.WriteFile(file, export(t, nil, run), 0o644); err != nil {
		t.Fatal(err)
	}
	ask := func(sql string, want ...string) {
		t.Helper()
		out, err := exec.Command(tp, "-Q", sql, file).Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if got := strings.Join(lines[1:], "\n"); got != strings.Join(want, "\n") {
			t.Errorf("%s\ngives\n%s\nwant\n%s", sql, got, strings.Join(want, "\n"))
		}
	}
	ask("select count(*) from slice where dur < 0", "0")
	ask("select name, count(*), min(depth), max(depth) from slice where category='step' group by 1 order by 1",
		`"decode",40,0,0`, `"prefill",1,0,0`)
	ask("select category, count(*) from slice group by 1 order by 1", `"graph",41`,
		fmt.Sprintf(`"op",%d`, 41*opsPerStep*3), `"step",41`, fmt.Sprintf(`"wait",%d`, 41*opsPerStep*2))
	ask("select thread.name, count(*) from slice join thread_track t on slice.track_id = t.id join thread using(utid) where category='op' group by tid order by tid",
		fmt.Sprintf(`"llama-bench (main)",%d`, 41*opsPerStep), fmt.Sprintf(`"llama-bench (worker)",%d`,
			41*opsPerStep), fmt.Sprintf(`"llama-bench (worker)",%d`, 41*opsPerStep))
	ask("select thread.name, dur from sched join thread using(utid) where tid = 77", `"apt-get",5000000`)
	ask("select count(*) from stats where severity in ('error','data_loss') and value > 0", "0")
	ask("select count(distinct s.id) from slice s join args using(arg_set_id) where key='debug.weight' and display_value='blk.1.ffn_down.weight'", "41")
}

// operators collects the operators of a run.
type operators struct {
	profile.BaseSink
	all []profile.Op
}

func (s *operators) Op(o *profile.Op) error {
	x := *o
	x.Threads = append([]profile.OpThread(nil), o.Threads...)
	s.all = append(s.all, x)
	return nil
}

// Every thread's slice of an operator lasts until the operator's end, its wait at the barrier as long as the
// thread waited.
func TestTimes(t *testing.T) {
	var ops operators
	if err := (&profiletest.Player{Sink: &ops}).Play(run); err != nil {
		t.Fatal(err)
	}
	c := check(t, export(t, nil, run))
	type of struct {
		cat      string
		tid, end int64
	}
	slices := map[of]slice{}
	for _, s := range c.slices {
		slices[of{s.cat, c.tracks[s.track].tid, s.start + s.dur}] = s
	}
	waits := 0
	for _, o := range ops.all {
		end := o.Start + o.Dur
		for _, th := range o.Threads {
			tid := int64(th.TID)
			if s := slices[of{"op", tid, end}]; s.start != th.Start || s.notes["op_id"] != fmt.Sprint(o.ID) {
				t.Fatalf("operator %d from %d to %d on thread %d is %+v", o.ID, th.Start, end, tid, s)
			}
			if th.Wait == 0 {
				continue
			}
			waits++
			if s := slices[of{"wait", tid, end}]; s.dur != th.Wait {
				t.Fatalf("operator %d: thread %d waited %d ns, in the trace %d", o.ID, tid, th.Wait, s.dur)
			}
		}
	}
	if waits == 0 {
		t.Error("no thread waited")
	}
}
