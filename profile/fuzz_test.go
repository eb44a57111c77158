// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/series"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/timeline"
	"github.com/profinfer/profinfer/trace"
)

// checker holds what a replay hands on against what the model says of it.
type checker struct {
	profile.BaseSink
	t             *testing.T
	ops, steps    int
	graphs        int
	open          map[*profile.Graph]bool
	opID, stepIDs map[int64]bool
}

func (c *checker) Op(o *profile.Op) error {
	c.ops++
	if o.Dur < 0 || o.Busy < 0 || o.Wait < 0 || o.OffCPU < 0 || o.Probe < 0 || o.Graph == nil ||
		c.open[o.Graph] || c.opID[o.ID] {
		c.t.Errorf("operator %+v", o)
	}
	c.opID[o.ID] = true
	if o.Shape != nil && (o.Node < 0 || int(o.Node) >= len(o.Shape.Nodes)) {
		c.t.Errorf("node %d of %d", o.Node, len(o.Shape.Nodes))
	}
	for i := range o.Threads {
		if x := &o.Threads[i]; x.Busy < 0 || x.Wait < 0 || x.OffCPU < 0 {
			c.t.Errorf("thread %+v of operator %+v", x, o)
		}
	}
	return nil
}

func (c *checker) Graph(g *profile.Graph) error {
	c.graphs++
	if g.Dur < 0 || g.Ops < 0 || c.open[g] {
		c.t.Errorf("graph %+v", g)
	}
	c.open[g] = true // no operator of it may come any more
	return nil
}

func (c *checker) Step(s *profile.Step) error {
	c.steps++
	if s.Dur < 0 || s.OpsDur < 0 || s.Ops < 0 || s.Graphs < 0 || c.stepIDs[s.ID] {
		c.t.Errorf("step %+v", s)
	}
	c.stepIDs[s.ID] = true
	return nil
}

// FuzzReplay replays recordings of all that one can have with anything in them changed, and computes
// something from them: it ends, within a bound of memory, and the result can be written as JSON, which knows
// neither infinite numbers nor those that are none.
func FuzzReplay(f *testing.F) {
	files, err := recording.Small()
	if err != nil {
		f.Fatal(err)
	}
	for i := range files {
		for view := range views {
			f.Add(uint8(i), uint8(view), []byte{byte(view), byte(view), 0, 1, 40, 0, 0, 2, 13, 7, byte(i), 0,
				7, 50, 2, 0, 1, 17, 5, 11, 0, 0, 99, 1, 0, 3, 16})
		}
	}
	f.Fuzz(func(t *testing.T, which, view uint8, edits []byte) {
		file, err := recording.Alter(files[int(which)%len(files)], edits)
		if err != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		replayInto(t, file, int(view))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
			t.Fatalf("%d MB for a recording of %d bytes", n>>20, len(file))
		}
	})
}

// views are what is computed from a recording.
const views = 15

func replayInto(t *testing.T, file []byte, view int) {
	c := &checker{t: t, open: map[*profile.Graph]bool{}, opID: map[int64]bool{}, stepIDs: map[int64]bool{}}
	stat := func(by facts.By) (profile.Sink, func(*profile.Header) (any, error)) {
		b := stat.New(stat.Options{By: by})
		return b, func(h *profile.Header) (any, error) { return b.Finish(h), nil }
	}
	var sink profile.Sink
	var finish func(*profile.Header) (any, error)
	switch view % views {
	case 0:
		b := dag.New(dag.Options{})
		sink, finish = b, func(h *profile.Header) (any, error) { return b.Finish(h), nil }
	case 1:
		b := series.New(nil)
		sink, finish = b, func(h *profile.Header) (any, error) { return b.Finish(h), nil }
	case 2:
		b := slow.New(slow.Options{})
		sink, finish = b, func(h *profile.Header) (any, error) { return b.Finish(h), nil }
	case 3:
		b := offload.New(nil)
		sink, finish = b, func(h *profile.Header) (any, error) { return b.Finish(h), nil }
	case 4:
		b := memory.NewSeries(nil)
		sink, finish = b, func(h *profile.Header) (any, error) { return b.Finish(h), nil }
	case 5:
		b := experts.NewMap(0, nil)
		sink, finish = b, func(*profile.Header) (any, error) { return b.Finish(), nil }
	case 6:
		b := requests.New(0)
		sink, finish = b, func(h *profile.Header) (any, error) { return b.Finish(h), nil }
	case 7:
		b := timeline.New(timeline.Options{})
		sink, finish = b, func(h *profile.Header) (any, error) { return b.Finish(h) }
	default:
		sink, finish = stat([]facts.By{facts.ByWeight, facts.ByOp, facts.ByLayer, facts.ByBlock,
			facts.ByThread, facts.ByStep, facts.ByExpert}[view%views-8])
	}
	r, err := trace.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h, err := profile.Replay(r, profile.Tee(c, sink))
	if err != nil {
		t.Fatal(err) // the file is whole: whatever is in it, it is read
	}
	if c.ops > len(file) || c.steps > len(file) {
		t.Fatalf("%d operators and %d steps of %d bytes", c.ops, c.steps, len(file))
	}
	v, err := finish(h)
	if err == nil {
		_, err = json.Marshal(v)
	}
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
}
