// SPDX-License-Identifier: Apache-2.0

// Package budget decides when operators are probed, so that a recording keeps its overhead budget and the
// minimum decode speed.
package budget

import (
	"math"
	"time"

	"github.com/profinfer/profinfer/trace"
)

const (
	// minimum length of a sampling window with operators, as time in steps and number of complete steps
	spanBusy  = int64(time.Second)
	spanSteps = 5
	// speed is averaged over this much time in decode steps
	speedOver = int64(2 * time.Second)
	maxHold   = int64(time.Minute)
)

// Governor decides when a process's operators are probed. It keeps an overhead budget by spreading sampling
// windows with operators over the run, and removes the probes while decode is slower than requested. Steps
// and graphs stay on. It counts only time in steps: an idle server costs nothing.
type Governor struct {
	budget float64 // fraction of the time in steps; 0: no limit
	minTPS float64 // tokens per second of one sequence; 0: no limit
	cost   float64 // per hit in place, ns

	steps map[int32]openStep // by thread

	on      bool // the budget allows operators
	now     spanSum
	before  spanSum // the previous window, of the other kind
	model   float64 // overhead of the last window with operators, as hits times cost
	n       float64 // number of comparisons of windows with adjacent ones
	mean    float64
	m2      float64
	Reader  float64 // CPU time of the recorder while operators are recorded, as a fraction of one core
	recent  []decoded
	slow    bool
	slowAt  int64 // since when it is
	hold    int64 // duration of the hold
	resumed int64
}

type openStep struct {
	start  int64
	decode bool
}

type decoded struct{ end, dur int64 }

// spanSum is the content of a window between two changes.
type spanSum struct {
	busy    int64 // time in steps
	steps   int
	decode  int64 // time in decode steps
	decodes int
	hits    uint64
	began   int64
}

// New returns the governor of one process. cost is the cost of a hit, ns.
func New(budget, minTPS, cost float64) *Governor {
	return &Governor{budget: budget, minTPS: minTPS, cost: cost, on: true, steps: make(map[int32]openStep)}
}

// Begin takes the begin of a step; decode: it has one token per sequence.
func (g *Governor) Begin(m *trace.Mark, decode bool) {
	if _, inside := g.steps[m.TID]; inside && m.Time-g.steps[m.TID].start < int64(time.Minute) {
		return // an entry point called by another
	}
	if len(g.steps) > 256 {
		clear(g.steps)
	}
	g.steps[m.TID] = openStep{m.Time, decode}
}

// End reports whether a step ended.
func (g *Governor) End(m *trace.Mark) bool {
	s, ok := g.steps[m.TID]
	if !ok || m.Time <= s.start {
		return false
	}
	delete(g.steps, m.TID)
	d := m.Time - s.start
	if s.start >= g.now.began { // completely in this window
		g.now.steps++
		g.now.busy += d
		if s.decode {
			g.now.decode += d
			g.now.decodes++
		}
	} else {
		g.now.busy += m.Time - max(g.now.began, s.start)
	}
	if s.decode {
		if len(g.recent) >= 1<<14 {
			g.recent = g.recent[:0]
		}
		g.recent = append(g.recent, decoded{m.Time, d})
	}
	return true
}

// Hit counts a hit of the process.
func (g *Governor) Hit() { g.now.hits++ }

// estimate is the overhead of recording operators all the time: hits times cost, corrected by the measured
// durations of steps with and without operators, as far as they can be distinguished from noise.
func (g *Governor) estimate() float64 {
	f := g.model + g.Reader
	if g.n < 3 || f == 0 {
		return f
	}
	prior := f / 2
	own := g.m2/(g.n-1)/g.n + 1e-6
	x := (f/(prior*prior) + g.mean/own) / (1/(prior*prior) + 1/own)
	return min(max(x, f/2), 4*f)
}

// Decide is called after each drain; threads is the number of computing threads. It returns whether operators
// are to be probed from now on, and if not, why.
func (g *Governor) Decide(now int64, threads int) (on bool, why string) {
	g.speed(now)
	if g.budget > 0 {
		g.spend(now, threads)
	}
	switch {
	case g.slow:
		return false, "speed"
	case !g.on:
		return false, "budget"
	}
	return true, ""
}

// Changed starts a new window: the probes were attached or removed.
func (g *Governor) Changed(now int64) {
	g.before, g.now = g.now, spanSum{began: now}
}

func (g *Governor) spend(now int64, threads int) {
	s := &g.now
	if g.on {
		if s.busy > 0 {
			g.model = float64(s.hits) / float64(max(threads, 1)) * g.cost / float64(s.busy)
		}
		if s.busy < spanBusy || s.steps < spanSteps || s.hits == 0 || g.estimate() <= g.target() {
			return
		}
		g.compare(s, &g.before)
		g.on = false
		return
	}
	// Off for long enough to bring the average down to the budget.
	on := g.before.busy
	if off := float64(on) * (g.estimate()/g.target() - 1); float64(s.busy) < off {
		return
	}
	g.compare(&g.before, s)
	g.on = true
}

// compare compares the decode steps of adjacent windows with and without operators.
func (g *Governor) compare(on, off *spanSum) {
	if on.decodes < spanSteps || off.decodes < spanSteps {
		return
	}
	r := float64(on.decode)/float64(on.decodes)/(float64(off.decode)/float64(off.decodes)) - 1
	if math.Abs(r) > 0.3 { // something else happened
		return
	}
	g.n++
	d := r - g.mean
	g.mean += d / g.n
	g.m2 += d * (r - g.mean)
}

// speed judges the last two seconds of decode.
func (g *Governor) speed(now int64) {
	if g.minTPS <= 0 {
		return
	}
	i := 0
	for i < len(g.recent) && g.recent[i].end < now-2*speedOver {
		i++
	}
	g.recent = append(g.recent[:0], g.recent[i:]...)
	var sum, n int64
	for i := len(g.recent) - 1; i >= 0 && sum < speedOver; i-- {
		sum += g.recent[i].dur
		n++
	}
	// a running one that has already lasted too long
	for _, s := range g.steps {
		if d := now - s.start; s.decode && float64(d) > 2e9/g.minTPS {
			sum += d
			n++
		}
	}
	if n == 0 {
		return // idle, or in prefill: unknown
	}
	tps := float64(n) * 1e9 / float64(sum)
	switch {
	case !g.slow && tps < g.minTPS && sum >= speedOver/4:
		g.slow, g.slowAt = true, now
		if g.hold == 0 || now-g.resumed > 10*g.hold {
			g.hold = speedOver
		} else {
			g.hold = min(2*g.hold, maxHold) // the slowness recurs: perhaps because of the probes
		}
	case g.slow && tps >= g.minTPS && now-g.slowAt >= g.hold && sum >= speedOver/2:
		g.slow, g.resumed = false, now
	}
}

// target leaves room for what the estimate omits: attaching and removing the probes.
func (g *Governor) target() float64 { return 0.9 * g.budget }
