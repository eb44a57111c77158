// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
)

// deviceStep is a step that copies for 200 µs, hands a graph to a device in 1 ms, and waits for it 500 µs,
// asleep; all else is 10 µs each. The device is software: thread 32 and 33 of the process. Each change
// lengthens a part.
type deviceStep struct {
	copy, call, wait int64
	during           func(r *slowRun, what string, at int64)
}

func (r *slowRun) device(d deviceStep) {
	r.step++
	r.graph++
	s := &profile.Step{ID: r.step, PID: 30, TID: 30, Ctx: 1, Phase: profile.Decode, Start: r.now, NTokens: 1,
		NSeqs: 1, Outputs: 1, Graphs: 1}
	during := func(what string) {
		if d.during != nil {
			d.during(r, what, r.now)
		}
	}
	r.now += slowEdges
	during("copy")
	r.b.Copy(&profile.Copy{Step: s, PID: 30, TID: 30, Start: r.now, Dur: 2e5 + d.copy})
	r.now += 2e5 + d.copy + slowEdges
	g := &profile.Graph{ID: r.graph, Step: s.ID, PID: 30, TID: 30, Backend: "Vulkan", Start: r.now,
		Dur: 1e6 + d.call, Reused: true}
	during("call")
	r.now += g.Dur
	r.b.Graph(g)
	r.now += slowEdges
	r.sched(r.now, 0, 30, 1, 0)
	during("wait")
	wait := 5e5 + d.wait
	r.now += wait
	r.sched(r.now, 0, 0, 0, 30)
	r.b.Device(&profile.DeviceSpan{Graph: g, TID: 30, Done: r.now, Waited: wait})
	r.now += slowEdges
	s.Dur = r.now - s.Start
	r.b.Step(s)
	r.now += 5_000
}

// What a step's thread waits for a device is the device's time, not sleep; where the device is software and
// another process has its threads' CPU, it is that one's.
func TestSlowDevice(t *testing.T) {
	off := func(what string, tid int32, cpu uint16, after, d int64, by int32, state uint32) func(r *slowRun,
		w string, at int64) {
		return func(r *slowRun, w string, at int64) {
			if w == what {
				r.sched(at+after, cpu, tid, state, by)
				r.sched(at+after+d, cpu, by, 1, tid)
			}
		}
	}
	for _, c := range []struct {
		name string
		step deviceStep
		want map[Cause]int64
		who  string
	}{
		{"a longer call", deviceStep{call: 2e6}, map[Cause]int64{SlowBackend: 2e6}, ""},
		{"a longer wait", deviceStep{wait: 2e6}, map[Cause]int64{SlowBackend: 2e6}, ""},
		{"a longer copy", deviceStep{copy: 2e6}, map[Cause]int64{SlowCopies: 2e6}, ""},
		{"a copy that sleeps", deviceStep{copy: 2e6, during: off("copy", 30, 0, 1e5, 19e5, 0, 1)},
			map[Cause]int64{SlowCopies: 2e6}, ""},
		{"its thread has no CPU in the call",
			deviceStep{call: 2e6, during: off("call", 30, 0, 1e5, 2e6, 6,
				0)}, map[Cause]int64{SlowOther: 2e6}, "apt"},
		{"its thread has no CPU in a copy", deviceStep{copy: 2e6, during: off("copy", 30, 0, 1e5, 2e6, 6, 0)},
			map[Cause]int64{SlowOther: 2e6}, "apt"},
		{"a software thread has no CPU while it is waited for",
			deviceStep{wait: 2e6, during: off("wait", 32, 1, 1e5, 2e6, 5,
				0)}, map[Cause]int64{SlowOther: 2e6}, "sh"},
		{"a software thread has none in the call",
			deviceStep{call: 2e6, during: off("call", 32, 1, 1e5, 15e5, 5,
				0)}, map[Cause]int64{SlowOther: 15e5, SlowBackend: 5e5}, "sh"},
		{"another of the process has its CPU",
			deviceStep{wait: 2e6, during: off("wait", 32, 1, 1e5, 2e6, 33,
				0)}, map[Cause]int64{SlowBackend: 2e6}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSlowRun(Options{})
			r.sched(r.now, 1, 31, 1, 32)
			for range 20 {
				r.device(deviceStep{})
			}
			r.device(c.step)
			for range 20 {
				r.device(deviceStep{})
			}
			s := r.finish(t)
			if s.Slow != 1 || s.Listed[0].Step != 21 {
				t.Fatalf("%d steps are slow: %+v", s.Slow, s.Listed)
			}
			x := &s.Listed[0]
			wantParts(t, x.Parts, c.want)
			if x.Excess != 2e6 || x.Baseline != 1_700_000+4*slowEdges {
				t.Errorf("%d beyond %d", x.Excess, x.Baseline)
			}
			if c.who != "" && (x.Parts[0].Who[0].Comm != c.who || x.Parts[0].Who[0].Ns != c.want[SlowOther] ||
				s.Interference.By[0].Ran != c.want[SlowOther]) {
				t.Errorf("behind it: %+v, %+v", x.Parts[0].Who, s.Interference.By)
			}
		})
	}
}

// Two software threads without a CPU at once cost the time once, shared by those who had them.
func TestSlowDeviceShared(t *testing.T) {
	r := newSlowRun(Options{})
	r.sched(r.now, 1, 31, 1, 32)
	r.sched(r.now, 2, 0, 0, 33)
	for range 20 {
		r.device(deviceStep{})
	}
	r.device(deviceStep{wait: 2e6, during: func(r *slowRun, what string, at int64) {
		if what == "wait" {
			r.sched(at+1e5, 1, 32, 0, 5)
			r.sched(at+6e5, 2, 33, 0, 6)
			r.sched(at+11e5, 1, 5, 1, 32)
			r.sched(at+21e5, 2, 6, 1, 33)
		}
	}})
	for range 20 {
		r.device(deviceStep{})
	}
	s := r.finish(t)
	wantParts(t, s.Listed[0].Parts, map[Cause]int64{SlowOther: 2e6})
	who := map[string]int64{}
	for _, w := range s.Listed[0].Parts[0].Who {
		who[w.Comm] = w.Ns
	}
	if who["sh"] != 75e4 || who["apt"] != 125e4 {
		t.Errorf("behind it: %v", who)
	}
}
