// SPDX-License-Identifier: Apache-2.0

// Package recording gives tests what is in a recording, and recordings with something changed: a check counts
// if it fails when it should.
package recording

import (
	"bytes"
	"io"
	"slices"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// Run is all that a recording holds.
type Run struct {
	profile.BaseSink
	Header *profile.Header
	Ops    []*profile.Op
	Graphs []*profile.Graph
	Steps  []*profile.Step
	Scheds int
}

func (r *Run) Op(o *profile.Op) error       { r.Ops = append(r.Ops, o); return nil }
func (r *Run) Graph(g *profile.Graph) error { r.Graphs = append(r.Graphs, g); return nil }
func (r *Run) Step(s *profile.Step) error   { r.Steps = append(r.Steps, s); return nil }
func (r *Run) Sched(*trace.Sched) error     { r.Scheds++; return nil }

// Losses are those of the engine: where others run beside a test, more switches of theirs can come than are
// kept.
func Losses(h *profile.Header) []trace.Loss {
	return slices.DeleteFunc(slices.Clone(h.Losses), func(l trace.Loss) bool { return l.OfOthers() })
}

// OpsOf returns a step's operators, in order.
func (r *Run) OpsOf(s *profile.Step) (out []*profile.Op) {
	for _, o := range r.Ops {
		if o.Step == s {
			out = append(out, o)
		}
	}
	return out
}

// GraphsOf returns a step's graphs, in order.
func (r *Run) GraphsOf(s *profile.Step) (out []*profile.Graph) {
	for _, g := range r.Graphs {
		if g.Step == s.ID {
			out = append(out, g)
		}
	}
	return out
}

// Counter returns the index of a counter in Op.Counts, -1 if it was not recorded.
func (r *Run) Counter(name string) int {
	for i, c := range r.Header.Meta.Counters {
		if c.Name == name {
			return i
		}
	}
	return -1
}

// Load replays the recording in a file.
func Load(path string) (*Run, error) {
	rd, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	return replay(rd)
}

// Changed replays the recording in a file with its blocks changed.
func Changed(path string, change func(*trace.Block)) (*Run, error) {
	var buf bytes.Buffer
	if err := Copy(&buf, path, change); err != nil {
		return nil, err
	}
	rd, err := trace.NewReader(&buf)
	if err != nil {
		return nil, err
	}
	return replay(rd)
}

// Copy writes the recording in a file to out, with its blocks changed.
func Copy(out io.Writer, path string, change func(*trace.Block)) error {
	in, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	w := trace.NewWriter(out)
	end := trace.End{}
	for {
		b, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		change(&b)
		if b.End != nil {
			end = *b.End
		}
		if err := write(w, &b); err != nil {
			return err
		}
	}
	return w.Close(end)
}

func replay(rd *trace.Reader) (*Run, error) {
	r := &Run{}
	var err error
	r.Header, err = profile.Replay(rd, r)
	return r, err
}

// write copies every kind of block but the end.
func write(w *trace.Writer, b *trace.Block) (err error) {
	check := func(e error) {
		if err == nil {
			err = e
		}
	}
	switch {
	case b.Meta != nil:
		check(w.Meta(*b.Meta))
	case b.Process != nil:
		check(w.Process(*b.Process))
	case b.Shape != nil:
		check(w.Shape(b.Shape))
	case b.Loss != nil:
		check(w.Loss(*b.Loss))
	case b.Watch != nil:
		check(w.Watch(*b.Watch))
	case b.Exit != nil:
		check(w.Exit(*b.Exit))
	case b.CPU != nil:
		check(w.CPU(*b.CPU))
	case b.Memory != nil:
		check(w.Memory(*b.Memory))
	}
	check(w.Threads(b.Threads))
	check(w.StepSeqs(b.StepSeqs))
	check(w.Marks(b.Marks))
	check(w.Hits(b.Hits))
	check(w.Sched(b.Sched))
	check(w.Samples(b.Samples))
	check(w.Faults(b.Faults))
	check(w.Experts(b.Experts))
	if b.Watermark != 0 {
		check(w.Drain(b.Watermark))
	}
	return err
}
