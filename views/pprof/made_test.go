// SPDX-License-Identifier: Apache-2.0

package pprof

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/profinfer/profinfer/internal/clean"
	model "github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

// Profiles made from played runs, and how they are asked.

// editing changes operators on their way.
type editing struct {
	model.Sink
	op func(*model.Op)
}

func (e editing) Op(o *model.Op) error {
	if e.op != nil {
		e.op(o)
	}
	return e.Sink.Op(o)
}

// made is a profile read back, and the statistics of the same run.
type made struct {
	*profile.Profile
	t     *testing.T
	stats map[facts.By]*summary.Stat
}

// feed makes a profile of what play plays.
func feed(t *testing.T, e *exporter, play func(model.Sink) (*model.Header, error)) *made {
	t.Helper()
	builders := map[facts.By]*stat.Builder{}
	var h *model.Header
	var b bytes.Buffer
	err := export(&b, e, func(s model.Sink) (*model.Header, error) {
		sinks := []model.Sink{s}
		for _, by := range []facts.By{facts.ByBlock, facts.ByLayer, facts.ByWeight} {
			builders[by] = stat.New(stat.Options{Disturbed: true, By: by})
			sinks = append(sinks, builders[by])
		}
		var err error
		h, err = play(model.Tee(sinks...))
		return h, err
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &made{t: t, stats: map[facts.By]*summary.Stat{}}
	for by, s := range builders {
		m.stats[by] = s.Finish(h)
	}
	if m.Profile, err = profile.Parse(&b); err != nil {
		t.Fatal(err)
	}
	if err := m.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return m
}

func player(edit func(*model.Op), header func(*model.Header),
	runs ...profiletest.Run) func(model.Sink) (*model.Header, error) {
	return func(s model.Sink) (*model.Header, error) {
		p := &profiletest.Player{Sink: editing{s, edit}}
		for _, r := range runs {
			if err := p.Play(r); err != nil {
				return nil, err
			}
		}
		h := p.Header("op")
		if header != nil {
			header(h)
		}
		return h, nil
	}
}

// names returns a sample's frames from the root on.
func names(s *profile.Sample) (list []string) {
	for i := len(s.Location) - 1; i >= 0; i-- {
		list = append(list, s.Location[i].Line[0].Function.Name)
	}
	return list
}

// sum adds up a value over the stacks that have all of the frames; "block:x" is x at a block's place below
// a phase, which stands at depth.
func (m *made) sum(typ string, depth int, phase string, at int, frame string) (sum int64) {
	m.t.Helper()
	i := slices.IndexFunc(m.SampleType, func(v *profile.ValueType) bool { return v.Type == typ })
	if i < 0 {
		m.t.Fatalf("no values %q", typ)
	}
	for _, s := range m.Sample {
		n := names(s)
		if len(n) > depth && n[depth] == phase && (frame == "" || len(n) > at && n[at] == frame) {
			sum += s.Value[i]
		}
	}
	return sum
}

// agrees checks the profile against statistics of the same run, whose phases stand at depth.
func (m *made) agrees(depth int, root func(*summary.Phase) string) {
	t := m.t
	t.Helper()
	for by, stat := range m.stats {
		at := map[facts.By]int{facts.ByBlock: depth + 2, facts.ByLayer: depth + 1,
			facts.ByWeight: depth + 3}[by]
		for i := range stat.Phases {
			f := &stat.Phases[i]
			of := m
			if root != nil { // only what is below this model's
				p := m.Copy()
				p.Sample = slices.DeleteFunc(p.Sample, func(s *profile.Sample) bool {
					return names(s)[0] != root(f)
				})
				of = &made{Profile: p, t: t}
			}
			if got := of.sum("time", depth, f.Phase, 0, ""); got != f.TracedDur {
				t.Errorf("%s takes %d ns, want the %d of its steps", f.Phase, got, f.TracedDur)
			}
			if got := of.sum("time", depth, f.Phase, depth+1, frameProbes); f.Probe != nil &&
				got != *f.Probe {
				t.Errorf("%s: probes take %d, want %d", f.Phase, got, *f.Probe)
			}
			if got := of.sum("time", depth, f.Phase, depth+1, frameRest); f.Gap != nil && got != *f.Gap {
				t.Errorf("%s: %d outside operators, want %d", f.Phase, got, *f.Gap)
			}
			for _, r := range f.Rows {
				name := r.Key
				switch {
				case by == facts.ByLayer && r.Key == "none":
					name = frameNoLayer
				case by == facts.ByLayer:
					name = "layer " + r.Key
				case by == facts.ByWeight:
					typ := ""
					if r.Weight {
						typ = r.Type
					}
					name = (&stack{name: r.Key, op: r.Op, typ: typ}).text()
				}
				want := map[string]int64{"time": r.Dur - r.Probe, "busy": r.Busy, "wait": r.Wait,
					"off_cpu": r.OffCPU, "calls": r.Calls}
				if r.Bytes != nil {
					want["bytes"] = *r.Bytes
				}
				if r.Flops != nil {
					want["flops"] = *r.Flops
				}
				for typ, v := range want {
					if got := of.sum(typ, depth, f.Phase, at, clean.Short(name, maxName)); got != v {
						t.Errorf("%s, %s: %s is %d, want %d", f.Phase, name, typ, got, v)
					}
				}
			}
		}
	}
}

func (m *made) total(typ int) (sum int64) {
	for _, s := range m.Sample {
		sum += s.Value[typ]
	}
	return sum
}

func (m *made) says(text string) {
	m.t.Helper()
	if !slices.ContainsFunc(m.Comments, func(c string) bool { return strings.Contains(c, text) }) {
		m.t.Errorf("the comments do not say %q:\n%s", text, strings.Join(m.Comments, "\n"))
	}
}
