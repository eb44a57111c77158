// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"errors"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/record/internal/order"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// asked is an engine that counts how often backends are asked for.
type asked struct{ n *int }

func (asked) Plan(int, []target.Mapping) (*engine.Plan, error) {
	return nil, errors.New("no engine")
}
func (asked) Dull(int, target.Mapping) bool { return false }
func (a asked) Backends(int, *engine.Plan, uint64) ([]engine.File, []engine.Site, error) {
	*a.n++
	return nil, nil, nil
}

// What a plan cannot do is not tried, whatever its sites are.
func TestFeatures(t *testing.T) {
	all := engine.Features{Lockstep: true, Definitions: true, Batches: true, Routing: true, Schedulers: true}
	for _, c := range []struct {
		lacks string
		take  func(*engine.Features)
		// what is done then: graphs are followed by arrivals, choices are looked for, prefill is told from
		// decode, backends are asked for
		follows, chooses, phases bool
		backends                 int
	}{
		{"nothing", func(*engine.Features) {}, true, true, true, 1},
		{"lockstep", func(f *engine.Features) { f.Lockstep = false }, false, true, true, 1},
		{"definitions", func(f *engine.Features) { f.Definitions = false }, false, true, true, 1},
		{"batches", func(f *engine.Features) { f.Batches = false }, true, true, false, 1},
		{"routing", func(f *engine.Features) { f.Routing = false }, true, false, true, 1},
		{"schedulers", func(f *engine.Features) { f.Schedulers = false }, true, true, true, 0},
	} {
		t.Run(c.lacks, func(t *testing.T) {
			n := 0
			r := &recorder{engine: asked{&n}, counters: &counters{}, ctx: context.Background(),
				later: make(chan func() error), closed: make(chan struct{}), schedules: newScheduling(),
				procs: map[int]*process{}, dirty: map[int]bool{}, opt: Options{Level: engine.LevelOp}}
			defer close(r.closed)
			p := newProcess(1)
			p.plan = &engine.Plan{Features: all, Operators: map[string]int{"MUL_MAT_ID": 30},
				Layout: engine.Layout{ChooseOp: 30, ChooseSrc: 2},
				Sites: []engine.Site{{Role: engine.RoleStepBegin}, {Role: engine.RoleSchedBegin},
					{Role: engine.RoleOpEnd, A: engine.Arg{Kind: engine.ArgReg}}}}
			c.take(&p.plan.Features)
			p.learn = order.New()
			r.procs[1] = p
			if got := !r.twoHits(p); got != c.follows {
				t.Errorf("followed: %v", got)
			}
			if got := routingSource(&trace.Node{Op: "MUL_MAT_ID", Src: []int32{3, 4, 5}},
				p.plan) == 5; got != c.chooses {
				t.Errorf("choices: %v", got)
			}
			if got := !p.decodes(&trace.Mark{Kind: trace.MarkStepBegin, Time: 5, TID: 9, NTokens: 4},
				[]trace.StepSeq{{Time: 5, TID: 9, NTokens: 4}}); got != c.phases {
				t.Errorf("four tokens of a sequence are told from one: %v", got)
			}
			if err := r.backends(p, 0x100); err != nil {
				t.Fatal(err)
			}
			if n != c.backends {
				t.Errorf("backends are asked for %d times", n)
			}
		})
	}
}
