// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// links writes down which graphs were linked, by the steps in whose time they lie.
type links struct {
	seen
	found []string
	ops   []string // for whom operators of the server were
}

// at is the number of the step in whose time t lies, from 0.
func remoteAt(t int64) int64 { return t/profiletest.RemoteStep - 1 }

func (l *links) Remote(r *profile.Remote) error {
	answered := "?"
	if a, ok := r.Answered(); ok {
		answered = fmt.Sprint(a)
	}
	l.found = append(l.found, fmt.Sprintf("%d>%d sent %d queued %d server %d answered %s",
		remoteAt(r.Client.Start), remoteAt(r.Server.Start), r.Sent(), r.Queued, r.Server.Dur, answered))
	return nil
}

func (l *links) Op(o *profile.Op) error {
	if o.Graph.PID != profiletest.RemoteServer {
		return nil
	}
	step := int64(-1)
	if s := o.Graph.CallerStep; s != nil {
		step = s.ID
	}
	if o.Step != nil || o.Graph.Caller != nil != (step >= 0) {
		return fmt.Errorf("an operator of the server: step %v, caller %v in step %d", o.Step, o.Graph.Caller,
			step)
	}
	l.ops = append(l.ops, fmt.Sprintf("%s %d", o.NodeDef().Name, step))
	return nil
}

func replayRemote(t *testing.T, r profiletest.Remote, sink profile.Sink) *profile.Header {
	t.Helper()
	var buf bytes.Buffer
	if err := r.Record(&buf); err != nil {
		t.Fatal(err)
	}
	in, err := trace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	h, err := profile.Replay(in, sink)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// without drops the marks that f says.
func without(step int, f func(trace.Mark) bool) func(int, []trace.Mark) []trace.Mark {
	return func(s int, ms []trace.Mark) []trace.Mark {
		if s != step && step >= 0 {
			return ms
		}
		return slices.DeleteFunc(ms, f)
	}
}

func TestRemoteLinks(t *testing.T) {
	usual := func(i int) string {
		return fmt.Sprintf("%d>%d sent 20000 queued 0 server 400000 answered 50000", i, i)
	}
	all := []string{usual(0), usual(1), usual(2), usual(3)}
	server := func(m trace.Mark) bool { return m.PID == profiletest.RemoteServer }
	handing := func(m trace.Mark) bool {
		return m.PID == profiletest.RemoteClient && (m.Time == 30_000 || m.Time == 34_000)
	}
	waits := func(m trace.Mark) bool { return m.Kind == trace.MarkSyncBegin || m.Kind == trace.MarkSyncEnd }
	unseen := func(i int) string {
		return fmt.Sprintf("%d>%d sent 20000 queued 0 server 400000 answered ?", i, i)
	}
	for _, c := range []struct {
		name string
		run  profiletest.Remote
		want []string
	}{
		{"each graph with its own", profiletest.Remote{}, all},
		{"the server's graph was not seen, the client's wait was",
			profiletest.Remote{Marks: without(1, server)}, []string{all[0], all[2], all[3]}},
		{"the client's graph was not seen", profiletest.Remote{Marks: without(1, handing)},
			[]string{all[0], all[2], all[3]}},
		{"the client's first was not seen", profiletest.Remote{Marks: without(0, handing)},
			[]string{all[1], all[2], all[3]}},
		{"nobody is seen to wait", profiletest.Remote{Marks: without(-1, waits)},
			[]string{unseen(0), unseen(1), unseen(2), unseen(3)}},
		{"marks were lost with the server's graph",
			profiletest.Remote{Losses: []trace.Loss{{Start: 2_000_000 + 45_000, End: 2_000_000 + 460_000,
				Why: "lost", What: "marks", Events: 2}},
				Marks: func(s int, ms []trace.Mark) []trace.Mark {
					ms = slices.DeleteFunc(ms, waits)
					return without(1, server)(s, ms)
				}}, []string{unseen(0), unseen(2), unseen(3)}},
		{"the server was watched only later", profiletest.Remote{Process: func(p *trace.Process) {
			if p.PID == profiletest.RemoteServer {
				p.Attached = 2_000_000 + 40_000
			}
		}, Marks: func(s int, ms []trace.Mark) []trace.Mark {
			ms = slices.DeleteFunc(ms, waits)
			if s < 2 { // the one under way was not seen to begin
				ms = slices.DeleteFunc(ms, server)
			}
			return ms
		}}, []string{unseen(2), unseen(3)}},
		{"other dimensions", profiletest.Remote{Shape: func(s *trace.Shape) {
			if s.PID == profiletest.RemoteServer {
				s.Nodes[1].Ne[1] = 2
			}
		}}, nil},
		{"another operator", profiletest.Remote{Shape: func(s *trace.Shape) {
			if s.PID == profiletest.RemoteServer {
				s.Nodes[1].Op = "MUL_MAT_ID"
			}
		}}, nil},
		{"names that did not travel", profiletest.Remote{Shape: func(s *trace.Shape) {
			if s.PID == profiletest.RemoteServer {
				s.Nodes[1].Name = "node_1"
			}
		}}, all},
		{"the server begins before it is asked",
			profiletest.Remote{Marks: func(_ int, ms []trace.Mark) []trace.Mark {
				for i := range ms {
					if server(ms[i]) && ms[i].Kind == trace.MarkGraphBegin {
						ms[i].Time = 29_000
					}
				}
				return ms
			}}, nil},
		{"a call that waits itself", profiletest.Remote{Marks: func(s int, ms []trace.Mark) []trace.Mark {
			ms = slices.DeleteFunc(ms, waits)
			for i := range ms {
				if ms[i].PID == profiletest.RemoteClient && ms[i].Time >= 34_000 {
					ms[i].Time += 446_000
				}
			}
			return ms
		}}, []string{"0>0 sent 20000 queued 0 server 400000 answered 30000",
			"1>1 sent 20000 queued 0 server 400000 answered 30000",
			"2>2 sent 20000 queued 0 server 400000 answered 30000",
			"3>3 sent 20000 queued 0 server 400000 answered 30000"}},
		{"the client knows before the server has computed",
			profiletest.Remote{Marks: func(_ int, ms []trace.Mark) []trace.Mark {
				for i := range ms {
					if ms[i].Kind == trace.MarkSyncEnd {
						ms[i].Time = 440_000
					}
				}
				return ms
			}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run.Steps = 4
			var l links
			replayRemote(t, c.run, &l)
			if got := strings.Join(l.found, "\n"); got != strings.Join(c.want, "\n") {
				t.Errorf("linked\n%s\nwant\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
}

// Two graphs are handed over before the server begins the first, and waited for once.
func TestRemotePipelined(t *testing.T) {
	again := func(ms []trace.Mark, from, to, by int64, pid int32) (out []trace.Mark) {
		for _, m := range ms {
			if m.PID == pid && m.Time >= from && m.Time <= to {
				m.Time += by
				out = append(out, m)
			}
		}
		return out
	}
	var l links
	replayRemote(t, profiletest.Remote{Steps: 2, Marks: func(_ int, ms []trace.Mark) []trace.Mark {
		for i := range ms {
			if ms[i].Kind == trace.MarkSyncEnd {
				ms[i].Time = 900_000
			}
		}
		ms = append(ms, again(ms, 30_000, 34_000, 4_500, profiletest.RemoteClient)...)
		return append(ms, again(ms, 50_000, 450_000, 410_000, profiletest.RemoteServer)...)
	}}, &l)
	want := "0>0 sent 20000 queued 0 server 400000 answered ?\n0>0 sent 425500 queued 415500 server 400000 answered 40000\n" +
		"1>1 sent 20000 queued 0 server 400000 answered ?\n1>1 sent 425500 queued 415500 server 400000 answered 40000"
	if got := strings.Join(l.found, "\n"); got != want {
		t.Errorf("linked\n%s\nwant\n%s", got, want)
	}
}

// The server's operators know for whom they were.
func TestRemoteOperators(t *testing.T) {
	var l links
	replayRemote(t, profiletest.Remote{Steps: 2}, &l)
	want := []string{"Qcur-0 1", "ffn_out-0 1", "result_output 1", "Qcur-0 2", "ffn_out-0 2",
		"result_output 2"}
	if !slices.Equal(l.ops, want) {
		t.Errorf("operators %q, want %q", l.ops, want)
	}
}

// Figures computed on paper, from the times that profiletest.Remote names.
func TestRemoteStat(t *testing.T) {
	b := stat.New(stat.Options{})
	h := replayRemote(t, profiletest.Remote{Steps: 4, Marks: without(1, func(m trace.Mark) bool {
		return m.PID == profiletest.RemoteServer
	})}, b)
	s := b.Finish(h)
	if len(s.Remote) != 1 {
		t.Fatalf("remote: %+v", s.Remote)
	}
	r := s.Remote[0]
	is := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || *got != want {
			t.Errorf("%s: %v, want %g", what, str(got), want)
		}
	}
	if r.Phase != profile.Decode || r.ClientPID != profiletest.RemoteClient ||
		r.ServerPID != profiletest.RemoteServer || r.ClientComm != "llama-bench" ||
		r.ServerComm != "ggml-rpc-server" || r.Backend != "RPC" || r.Steps != 3 || r.Graphs != 3 ||
		r.Unlinked != 1 || r.Waited != 3 {
		t.Errorf("%+v", r)
	}
	if r.Sent != 20_000 || r.Queued != 0 || r.Computed != 400_000 {
		t.Errorf("sent %g, queued %g, computed %g", r.Sent, r.Queued, r.Computed)
	}
	is("operators", r.Operators, 395_000-3*200)
	is("client", r.Client, 470_000)
	is("answered", r.Answered, 50_000)
	is("wire", r.Wire, 70_000)
	is("to the server", r.ToServer, 1024)
	is("from the server", r.FromServer, 512)
	is("step", r.StepDur, 500_000)
	is("t/s", r.TokensPerS, 2000)
	var rows []string
	for _, x := range r.Rows {
		rows = append(rows, fmt.Sprintf("%s %d %g", x.Key, x.Calls, x.DurPerStep))
	}
	if got := strings.Join(rows, ", "); got != "ffn_down 3 199800, attn_q 3 99800, output 3 94800" {
		t.Errorf("rows: %s", got)
	}
	// what was not linked stays outside of steps; the server's weights are no model of their own
	if s.Outside != nil || len(s.Models) != 1 || s.Models[0].PID != profiletest.RemoteClient {
		t.Errorf("outside %+v, models %+v", s.Outside, s.Models)
	}
	if len(s.Offload) != 1 || s.Offload[0].Backends[1].Backend != "RPC" ||
		s.Offload[0].Backends[1].Device == nil || *s.Offload[0].Backends[1].Device != 470_000 {
		t.Errorf("offload: %+v", s.Offload)
	}

	b = stat.New(stat.Options{Phases: []profile.Phase{profile.Prefill}})
	if s := b.Finish(replayRemote(t, profiletest.Remote{Steps: 4}, b)); len(s.Remote) != 0 {
		t.Errorf("decode although prefill was asked for: %+v", s.Remote)
	}
	b = stat.New(stat.Options{PID: 5})
	if s := b.Finish(replayRemote(t, profiletest.Remote{Steps: 4}, b)); len(s.Remote) != 0 {
		t.Errorf("of other processes than asked for: %+v", s.Remote)
	}
}

func str(v *float64) string {
	if v == nil {
		return "not known"
	}
	return fmt.Sprint(*v)
}

// Steps whose calls return at once are judged by the time until their results are there.
func TestRemoteVerdict(t *testing.T) {
	b := stat.New(stat.Options{})
	s := b.Finish(replayRemote(t, profiletest.Remote{Steps: 8}, b))
	if len(s.Verdicts) != 1 {
		t.Fatalf("%d verdicts", len(s.Verdicts))
	}
	v := s.Verdicts[0]
	want := "Decode is limited by ggml-rpc-server, another process: it computes 400 µs of the 500 µs per step, end to end (80 %). The step's own call submits graphs and returns earlier."
	if v.Text != want || v.Bound != summary.BoundOutside || v.Sure != summary.SureHigh ||
		!slices.Equal(v.Names, []string{"ggml-rpc-server"}) {
		t.Errorf("%s, %s: %s", v.Bound, v.Sure, v.Text)
	}
	kinds := map[string]string{}
	for _, f := range s.Findings {
		if kinds[f.Kind] == "" {
			kinds[f.Kind] = f.Text
		}
	}
	if got := kinds["remote"]; got != "RPC overhead in decode: of the 470 µs from submitting a graph to ggml-rpc-server to its result, serialising, sending and waking up take 70.0 µs (15 %)." {
		t.Errorf("finding: %s", got)
	}
	if !strings.HasPrefix(kinds["heaviest"],
		"ffn_down (q4_0) takes most of what ggml-rpc-server computes for decode: 200 µs per step (50 %)") {
		t.Errorf("heaviest: %s", kinds["heaviest"])
	}
	for _, k := range []string{"outside_operators", "between_steps"} {
		if kinds[k] != "" {
			t.Errorf("%s although another process computed then: %s", k, kinds[k])
		}
	}
	if !strings.Contains(s.RunVerdict.Text, "other processes") {
		t.Errorf("the run: %s", s.RunVerdict.Text)
	}

	// without the wait, or with a short one, the call itself is judged
	b = stat.New(stat.Options{})
	s = b.Finish(replayRemote(t, profiletest.Remote{Steps: 8, Marks: without(-1, func(m trace.Mark) bool {
		return m.Kind == trace.MarkSyncBegin
	})}, b))
	if strings.Contains(s.Verdicts[0].Text, "another process") {
		t.Errorf("nobody was seen to wait: %s", s.Verdicts[0].Text)
	}
}
