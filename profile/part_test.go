// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// rows keeps what a view would show of steps, without the numbers of operators, which count those shown.
type rows struct {
	profile.BaseSink
	steps []profile.Step
	of    map[int64][]string // by step
}

func (r *rows) Op(o *profile.Op) error {
	c := *o
	c.ID, c.Step, c.Graph, c.Shape, c.Choice, c.Threads = 0, nil, nil, nil, nil, nil
	text := fmt.Sprintf("%+v %+v in %d", c, o.Threads, o.Graph.ID)
	if o.Choice != nil {
		text += fmt.Sprint(o.Choice.Chosen)
	}
	if o.Step != nil {
		r.of[o.Step.ID] = append(r.of[o.Step.ID], text)
	}
	return nil
}

func (r *rows) Graph(g *profile.Graph) error {
	r.of[g.Step] = append(r.of[g.Step], fmt.Sprint(g.ID, g.Start, g.Dur, g.Reused, g.Untraced, g.Ops))
	return nil
}

func (r *rows) Step(s *profile.Step) error { r.steps = append(r.steps, *s); return nil }

func (r *rows) replay(t *testing.T, file []byte, c *profile.Chosen) *profile.Header {
	t.Helper()
	*r = rows{of: map[int64][]string{}}
	h, err := profile.ReplayPart(reader(t, file), r, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func reader(t *testing.T, file []byte) *trace.Reader {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestPart: of any part, the steps that lie wholly in it are shown, with the numbers and figures that they
// have in the whole recording, and no others.
func TestPart(t *testing.T) {
	files := map[string][]byte{"long": longTrace(t, 120, false), "arrivals": longTrace(t, 120, true)}
	for _, name := range []string{"plain", "experts", "offload", "processes", "losses", "torn",
		"level-graph", "remote"} {
		var b bytes.Buffer
		trial, _ := profiletest.TrialNamed(name)
		if err := trial.Write(&b); err != nil {
			t.Fatal(err)
		}
		files[name] = b.Bytes()
	}
	for name, file := range files {
		var all, part rows
		whole := all.replay(t, file, nil)
		n := len(all.steps)
		if n < 20 {
			t.Fatalf("%s: %d steps", name, n)
		}
		a, b := all.steps[n/3], all.steps[2*n/3]
		for _, p := range []profile.Part{
			{First: a.ID, Last: b.ID}, {First: b.ID, Last: b.ID}, {First: a.ID},
			{Phases: []profile.Phase{profile.Decode}},
			{From: a.Start - whole.First, To: b.Start + b.Dur - whole.First},
			{From: a.Start - whole.First + 1, To: b.Start + b.Dur - whole.First - 1},
			{From: a.Start - whole.First, First: b.ID},
		} {
			c, err := profile.FindPart(reader(t, file), p)
			if err != nil {
				t.Errorf("%s %+v: %v", name, p, err)
				continue
			}
			h := part.replay(t, file, c)
			want := slices.DeleteFunc(slices.Clone(all.steps), func(s profile.Step) bool {
				from, to := s.Start-whole.First, s.Start+s.Dur-whole.First
				return s.ID < p.First || p.Last > 0 && s.ID > p.Last ||
					from < p.From || p.To > 0 && to > p.To ||
					len(p.Phases) > 0 && s.Phase != p.Phases[0]
			})
			if fmt.Sprint(part.steps) != fmt.Sprint(want) || int(c.Steps) != len(want) {
				t.Errorf("%s %+v: %d steps, want %d: %v", name, p, len(part.steps), len(want), c)
			}
			shown := map[int64]bool{}
			for _, s := range want {
				shown[s.ID] = true
				if !slices.Equal(part.of[s.ID], all.of[s.ID]) {
					t.Errorf("%s %+v: step %d has %d rows, want %d:\n%v\n%v", name, p, s.ID, len(part.of[s.ID]),
						len(all.of[s.ID]), part.of[s.ID], all.of[s.ID])
				}
			}
			for id := range part.of {
				if id != 0 && !shown[id] {
					t.Errorf("%s %+v: rows of step %d", name, p, id)
				}
			}
			if h.First != whole.First || h.Part != c || len(h.Losses) > len(whole.Losses) {
				t.Errorf("%s %+v: header %+v", name, p, h)
			}
			if cut := p.From%100 == 1; cut && c.NCut == 0 {
				t.Errorf("%s %+v: it cuts no step: %v", name, p, c)
			}
		}
	}
}

// TestPartCut: a step that a bound cuts is named, and is not shown.
func TestPartCut(t *testing.T) {
	file := longTrace(t, 100, true)
	var all rows
	h := all.replay(t, file, nil)
	a, b := all.steps[10], all.steps[20]
	c, err := profile.FindPart(reader(t, file), profile.Part{From: a.Start - h.First + 5,
		To: b.Start + b.Dur - h.First - 5})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Cut, []int64{a.ID, b.ID}) || c.FirstStep != a.ID+1 || c.LastStep != b.ID-1 {
		t.Errorf("%v", c)
	}
	if text := c.String(); !strings.Contains(text, fmt.Sprintf("steps %d, %d cut", a.ID, b.ID)) {
		t.Error(text)
	}
	for want, p := range map[string]profile.Part{
		"lies wholly":        {From: a.Start - h.First + 5, To: a.Start - h.First + 10},
		"nothing was":        {From: 1e12},
		"no step 101":        {First: 101, Last: 200},
		"no whole step":      {Phases: []profile.Phase{profile.Prefill}},
		"it cuts step":       {First: a.ID, Last: a.ID, From: a.Start - h.First + 5},
		"was seen wholly in": {First: a.ID, Last: a.ID, From: b.Start - h.First},
	} {
		c, err := profile.FindPart(reader(t, file), p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v; want %q", p, c, err, want)
		}
	}
}

// again writes a recording several times, 20 s apart.
func again(t *testing.T, w *trace.Writer, file []byte, times int64, between func() error) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for k := range times {
		if k > 0 && between != nil {
			check(between())
		}
		later := k * 20e9
		r := reader(t, file)
		for {
			b, err := r.Next()
			if err != nil {
				break
			}
			for i := range b.Hits {
				b.Hits[i].Time += later
			}
			for i := range b.Marks {
				b.Marks[i].Time += later
			}
			switch {
			case b.Meta != nil && k == 0:
				check(w.Meta(*b.Meta))
			case b.Process != nil && k == 0:
				check(w.Process(*b.Process))
			case b.Shape != nil && k == 0:
				check(w.Shape(b.Shape))
			case b.Watch != nil && k == 0:
				check(w.Watch(*b.Watch))
			case b.Hits != nil:
				check(w.Hits(b.Hits))
			case b.Marks != nil:
				check(w.Marks(b.Marks))
			case b.Watermark != 0:
				check(w.Drain(b.Watermark + later))
			}
		}
	}
	check(w.Close(trace.End{}))
}

// TestPartIsNotRead: what lies outside is not unpacked: it may be damaged.
func TestPartIsNotRead(t *testing.T) {
	var buf bytes.Buffer
	again(t, trace.NewWriter(&buf), longTrace(t, 80, true), 3, nil)
	file := buf.Bytes()
	var all, part rows
	all.replay(t, file, nil)
	r := reader(t, file)
	broken := bytes.Clone(file)
	middle := all.steps[120]
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		if b.Type == trace.TypeHits && (b.Last < middle.Start-2e9 || b.First > middle.Start+2e9) {
			broken[b.Offset+100] ^= 0xff
		}
	}
	if bytes.Equal(broken, file) {
		t.Fatal("the recording is too short to have anything outside")
	}
	p := profile.Part{First: middle.ID, Last: middle.ID}
	c, err := profile.FindPart(reader(t, broken), p)
	if err != nil {
		t.Fatal(err)
	}
	h := part.replay(t, broken, c)
	if len(part.steps) != 1 || len(h.Problems) != 0 || !slices.Equal(part.of[middle.ID], all.of[middle.ID]) {
		t.Errorf("%d steps, problems %v", len(part.steps), h.Problems)
	}
}

// TestPartOfFiles: of a recording in several files, a part of each has what the file has.
func TestPartOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.pinf")
	w, err := trace.CreateParts(path)
	if err != nil {
		t.Fatal(err)
	}
	again(t, w, longTrace(t, 80, false), 3, func() error { return w.Rotate(10) })
	for _, name := range []string{path, path + ".1", path + ".2"} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var all, part rows
		all.replay(t, file, nil)
		if len(all.steps) < 3 {
			t.Fatalf("%s: %d steps", name, len(all.steps))
		}
		s := all.steps[len(all.steps)/2]
		c, err := profile.FindPart(reader(t, file), profile.Part{First: s.ID, Last: s.ID})
		if err != nil {
			t.Fatal(err)
		}
		part.replay(t, file, c)
		if len(part.steps) != 1 || !slices.Equal(part.of[s.ID], all.of[s.ID]) ||
			len(part.of[s.ID]) < longOps {
			t.Errorf("%s: step %d of %d: %d rows", name, s.ID, len(all.steps), len(part.of[s.ID]))
		}
	}
}
