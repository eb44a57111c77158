// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"

	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/trace"
)

// engine plays decode steps to a Governor and follows what it decides.
type engineSim struct {
	g      *Governor
	now    int64
	on     bool
	onTime int64
	total  int64
	lost   int64 // time that recording cost
	flips  int
}

func (e *engineSim) run(steps int, step func() int64, hits int, cost float64) {
	for range steps {
		d := step()
		if e.on {
			extra := int64(float64(hits) * cost)
			d += extra
			e.lost += extra
			e.g.now.hits += uint64(2 * hits) // two threads
			e.onTime += d
		}
		e.g.Begin(&trace.Mark{Time: e.now, TID: 1}, true)
		e.g.End(&trace.Mark{Time: e.now + d, TID: 1})
		e.now += d
		e.total += d
		if on, _ := e.g.Decide(e.now, 2); on != e.on {
			e.on = on
			e.flips++
			e.g.Changed(e.now)
		}
	}
}

// The budget holds whether a hit costs what was measured at the start or four times as much.
func TestBudget(t *testing.T) {
	const budget = 0.005
	rng := testkit.Rand(t)
	for _, real := range []float64{2000, 1000, 8000} {
		e := &engineSim{g: New(budget, 0, 2000), on: true, now: 1}
		e.run(20000, func() int64 { return 45e6 + rng.Int64N(5e6) }, 325, real)
		got := float64(e.lost) / float64(e.total-e.lost)
		t.Logf("a hit of %.0f ns: %.2f %% lost, operators recorded %.0f %% of the time, %d changes", real,
			100*got, 100*float64(e.onTime)/float64(e.total), e.flips)
		if got > 1.25*budget || got < budget/4 {
			t.Errorf("a hit of %.0f ns: recording cost %.2f %%, the budget is 0.5 %%", real, 100*got)
		}
		if e.flips < 100 {
			t.Errorf("%d changes: spans are not spread over the run", e.flips)
		}
	}
}

// An engine that costs less than the budget is recorded all the time.
func TestBudgetUnused(t *testing.T) {
	e := &engineSim{g: New(0.02, 0, 1000), on: true, now: 1}
	e.run(5000, func() int64 { return 50e6 }, 325, 1000)
	if e.flips != 0 {
		t.Errorf("%d changes", e.flips)
	}
}

func TestMinTPS(t *testing.T) {
	e := &engineSim{g: New(0, 10, 2000), on: true, now: 1}
	fast, slow := func() int64 { return 50e6 }, func() int64 { return 200e6 }
	e.run(100, fast, 325, 2000)
	if !e.on {
		t.Fatal("off at 20 tokens a second, the floor is 10")
	}
	e.run(15, slow, 325, 2000)
	if e.on {
		t.Fatal("on at 5 tokens a second")
	}
	if _, why := e.g.Decide(e.now, 2); why != "speed" {
		t.Errorf("the reason is %q", why)
	}
	e.run(100, fast, 325, 2000)
	if !e.on || e.flips != 2 {
		t.Errorf("after it recovered: on is %v, %d changes", e.on, e.flips)
	}
	// it comes and goes: held for longer each time
	for range 5 {
		e.run(15, slow, 325, 2000)
		e.run(100, fast, 325, 2000)
	}
	if e.flips > 10 {
		t.Errorf("%d changes", e.flips)
	}
	// a single step that never ends
	g := New(0, 10, 2000)
	g.Begin(&trace.Mark{Time: 1, TID: 1}, true)
	if on, _ := g.Decide(3e9, 2); on {
		t.Error("on in a decode step of three seconds")
	}
}
