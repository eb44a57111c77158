// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// The CPUs of a slow step ran at half of their usual frequency: looks that are far from it, and at other
// CPUs, say nothing of it.
func TestSlowClock(t *testing.T) {
	r := newSlowRun(Options{})
	at := func(at int64, khz ...int64) {
		c := &trace.CPUState{Time: at}
		for i := range khz {
			c.CPUs = append(c.CPUs, trace.CPUTime{CPU: i, KHz: &khz[i]})
		}
		r.b.CPU(c)
	}
	at(r.now-9e8, 1e6, 1e6, 9e6) // long before
	r.play(20)
	r.change = func(k int, o *profile.Op) {
		if k == 5 {
			o.Threads[0].Busy += 1e6
			o.Threads[1].Busy += 1e6
			r.settle(o)
		}
	}
	at(r.now, 16e5, 14e5, 9e6)
	r.play(1)
	at(r.now, 16e5, 14e5, 9e6)
	r.play(20)
	for i := range int64(9) {
		at(r.now+1e9+i*5e8, 3e6, 3e6, 9e6)
	}
	s := r.finish(t)
	if len(s.Listed) != 1 {
		t.Fatalf("%d steps", len(s.Listed))
	}
	x := s.Listed[0]
	if x.KHz == nil || *x.KHz != 15e5 || x.UsualKHz == nil || *x.UsualKHz != 3e6 {
		t.Errorf("%v, usually %v", x.KHz, x.UsualKHz)
	}
	// Where the kernel tells none, nothing is known.
	r = newSlowRun(Options{})
	r.play(20)
	r.lead = 1e6
	r.play(1)
	r.play(5)
	if x := r.finish(t).Listed[0]; x.KHz != nil || x.UsualKHz != nil {
		t.Errorf("%v, %v", x.KHz, x.UsualKHz)
	}
	// No more than a bound is kept.
	var k cpuBook
	for i := range int64(maxIntervals + 10) {
		k.clock(i, 0, 1)
	}
	if len(k.clocks) > maxIntervals {
		t.Errorf("%d are kept", len(k.clocks))
	}
}
