// SPDX-License-Identifier: Apache-2.0

package profiletest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// counter counts what a replay hands over.
type counter struct {
	profile.Sink              // the statistics
	ops, spans, steps, graphs int
	untraced, incomplete      int
	nodes                     int
}

func (c *counter) Op(o *profile.Op) error {
	c.ops++
	c.spans += len(o.Threads)
	return c.Sink.Op(o)
}

func (c *counter) Graph(g *profile.Graph) error {
	c.graphs++
	if g.Shape != nil {
		c.nodes = max(c.nodes, g.Shape.NNodes)
	}
	return c.Sink.Graph(g)
}

func (c *counter) Step(s *profile.Step) error {
	c.steps++
	if s.Untraced != "" {
		c.untraced++
	}
	if s.Incomplete != "" {
		c.incomplete++
	}
	return c.Sink.Step(s)
}

// Each trial is what it says it is.
func TestTrials(t *testing.T) {
	// 17 operators a layer and 3 at the model's ends, one of them fused of two nodes: 2*17+3.
	const ops = 2*17 + 3
	for _, trial := range profiletest.Trials() {
		t.Run(trial.Name, func(t *testing.T) {
			if trial.Large && testing.Short() {
				t.Skip("large")
			}
			var b bytes.Buffer
			if err := trial.Write(&b); err != nil {
				t.Fatal(err)
			}
			r, err := trace.NewReader(bytes.NewReader(b.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			st := stat.New(stat.Options{})
			c := &counter{Sink: st}
			h, err := profile.Replay(r, c)
			if err != nil {
				t.Fatal(err)
			}
			s := st.Finish(h)
			if (h.Torn != "") != (trial.Name == "torn") || len(h.Problems) > 0 != (trial.Name == "torn") {
				t.Errorf("torn %q, problems %q", h.Torn, h.Problems)
			}
			steps, perStep := 25, ops
			switch trial.Name {
			case "empty", "no-events":
				steps = 0
			case "level-step", "level-graph", "no-definitions":
				perStep = 0
			case "one-step", "one-prefill":
				steps = 1
			case "threads-64":
				steps = 7
			case "names-only":
				steps = 5
			case "engine-unknown":
				steps = 5
				if len(s.Models) != 0 {
					t.Errorf("models %+v", s.Models)
				}
				for i := range s.Phases {
					p := &s.Phases[i]
					for _, r := range p.Rows {
						if r.Bytes != nil || r.Flops != nil || r.Weight || r.Type != "" || r.Key != r.Op ||
							r.Block != "other" {
							t.Errorf("something follows from names: %+v", r)
						}
					}
					if len(p.Rows) < 4 || p.MatMul != nil || p.Attn != nil || p.Other != nil ||
						p.GapShare == nil {
						t.Errorf("%d rows, shares %v and %v", len(p.Rows), p.MatMul, p.Attn)
					}
				}
			case "speculative":
				// One layer of the draft less: 17 operators.
				q := s.Sequences
				if c.steps != profiletest.SpeculativeSteps || q == nil || q.Seen != 6 || q.Warmups != 1 ||
					q.Sequences != 3 || len(q.Speculation) != 1 || len(s.Models) != 2 {
					t.Fatalf("%d steps, %d models, %+v", c.steps, len(s.Models), q)
				}
				if d := q.Speculation[0]; d.Rounds != 2*2*profiletest.SpeculativeRounds ||
					d.Seen != d.Rounds || d.DraftCtx == nil || *d.DraftModel == *d.Model ||
					d.DraftSteps == 0 || d.Accepted == 0 || d.Accepted == d.Drafted {
					t.Errorf("%+v", d)
				}
				return
			case "requests-many":
				q := s.Sequences
				if c.steps != 2*profiletest.ManyRequests || q.Seen+q.Warmups != profiletest.ManyRequests ||
					q.Every != 2 || q.Sequences != profiletest.ManySequences/2 {
					t.Errorf("%d steps, %d requests of %d sequences, each %d-th", c.steps, q.Seen,
						q.Sequences, q.Every)
				}
				return
			case "experts", "experts-names":
				perStep = 3*22 + 3
			case "faults", "faults-names":
				perStep = 2*22 + 3 // a mixture of experts has five operators more a layer
				// on every layer and on experts; what the kernel counted is what was recorded
				if f := s.Faults; f == nil || f.Seen < 50 || f.Major == nil || *f.Major != f.Seen ||
					f.Timed != (trial.Name == "faults") || len(f.Files) != 2 || !f.Files[0].Mapped {
					t.Errorf("%+v", f)
				}
			case "no-steps":
				if c.steps != 0 || c.ops != 25*ops || s.Outside == nil {
					t.Errorf("%d steps, %d operators, outside %v", c.steps, c.ops, s.Outside)
				}
				return
			case "losses":
				// three lost their operators, for five they were off
				if c.steps != 25+3+5+24 || c.ops != (25+24)*ops || c.untraced != 5 || c.incomplete != 3 ||
					s.Lost.Events != 412 {
					t.Errorf("%d steps, %d operators, %d untraced, %d incomplete, %d events lost", c.steps,
						c.ops, c.untraced, c.incomplete, s.Lost.Events)
				}
				return
			case "torn":
				if c.steps == 0 || c.steps >= 8*24 || h.End != nil {
					t.Errorf("%d steps, end %v", c.steps, h.End)
				}
				return
			case "processes":
				if len(h.Processes) != 2 || len(s.Models) != 3 || c.steps != 9*25 {
					t.Errorf("%d processes, %d models, %d steps", len(h.Processes), len(s.Models), c.steps)
				}
				return
			case "offload", "offload-names":
				// a prefill step has 3 operators on the CPU, a decode step 6
				decode := 24
				if trial.Name == "offload-names" {
					decode = 3
				}
				if c.steps != decode+1 || c.ops != 6*decode+3 || c.graphs != 2*decode+6 {
					t.Errorf("%d steps, %d operators, %d graphs", c.steps, c.ops, c.graphs)
				}
				return
			case "remote":
				steps, perStep = 24, 4
			case "remote-names":
				steps, perStep = 3, 4
			case "graph-10000", "graph-flat":
				steps, perStep = 3, 430*17+3
				if c.nodes < 10_000 {
					t.Errorf("%d nodes", c.nodes)
				}
			case "spans-million":
				steps, perStep = 461, 16*17+3
				if c.spans < 1_000_000 {
					t.Errorf("%d spans", c.spans)
				}
			}
			if c.steps != steps || c.ops != steps*perStep {
				t.Errorf("%d steps, %d operators, want %d and %d", c.steps, c.ops, steps, steps*perStep)
			}
			if trial.Name == "unknown-phase" && (len(s.Phases) != 1 || s.Phases[0].Phase != "unknown") {
				t.Errorf("phases %+v", s.Phases)
			}
			if strings.HasPrefix(trial.Name, "names") {
				seen := false
				for _, r := range s.Phases[0].Rows {
					seen = seen || strings.Contains(r.Key, "<")
				}
				if !seen {
					t.Error("no row has a hostile name")
				}
			}
		})
	}
}
