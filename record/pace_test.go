// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"
	"time"

	"github.com/profinfer/profinfer/engine"
)

func TestPace(t *testing.T) {
	plan := &engine.Plan{}
	for _, c := range []struct {
		what  string
		level engine.Level
		p     process
		want  time.Duration
	}{
		{"no engine yet", engine.LevelOp, process{}, drainEvery},
		{"an engine that has not computed", engine.LevelOp, process{plan: plan, found: time.Now()},
			drainFirst},
		{"steps only", engine.LevelStep, process{plan: plan, found: time.Now()}, drainEvery},
		{"one that computes", engine.LevelOp, process{plan: plan, found: time.Now(), computes: true},
			drainEvery},
		{"one that has been idle for long", engine.LevelOp,
			process{plan: plan, found: time.Now().Add(-2 * firstFor)}, drainEvery},
	} {
		r := &recorder{opt: Options{Level: c.level}, procs: map[int]*process{1: &c.p}}
		if got := r.pace(); got != c.want {
			t.Errorf("%s: every %v, want %v", c.what, got, c.want)
		}
	}
}

func TestEntries(t *testing.T) {
	p := newProcess(1)
	if p.entries() {
		t.Error("no plan, and entries")
	}
	p.plan = &engine.Plan{Sites: []engine.Site{{Role: engine.RoleSchedBegin}, {Role: engine.RoleGraphBegin}}}
	if p.entries() {
		t.Error("a scheduler alone is no entry of the engine's")
	}
	p.plan.Sites = append(p.plan.Sites, engine.Site{Role: engine.RoleStepBegin})
	if !p.entries() {
		t.Error("llama_decode is")
	}
}
