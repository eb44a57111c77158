// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strconv"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// What another process computes is in no step's time: the call that hands a graph over returns earlier. So
// such a phase is judged by the time until its results are there.

// remoteOf returns the largest part of a phase's work that another process did, nil if there is none or its
// client was not seen to wait.
func (j *judge) remoteOf(ps *summary.Phase) *summary.Remote {
	for i := range j.s.Remote {
		r := &j.s.Remote[i]
		if r.Phase != keyOf(ps).Phase || r.Client == nil || r.StepDur == nil || *r.StepDur <= 0 ||
			*r.Client <= 0 {
			continue
		}
		if len(j.s.Models) > 1 && (ps.Model == nil || j.s.Models[*ps.Model].PID != r.ClientPID) {
			continue
		}
		return r
	}
	return nil
}

// elsewhere reports that another process computes for most of a phase's end-to-end time.
func (j *judge) elsewhere(ps *summary.Phase) bool {
	r := j.remoteOf(ps)
	return r != nil && r.PerStep() >= mostShare**r.StepDur
}

func (f *finder) elsewhere() bool { return f.j.elsewhere(f.ps) }

// remote replaces a verdict on the steps' calls where another process computes for most of the end-to-end
// time.
func (o *opinion) remote() {
	r := o.j.remoteOf(o.ps)
	if !o.j.elsewhere(o.ps) {
		return
	}
	n := whoComputes(r)
	o.v.Bound, o.v.Among, o.sure, o.reasons = summary.BoundOutside, []summary.Bound{}, 3, nil
	o.v.Names = []string{n}
	o.v.Text = capital(o.name()) + " is limited by " + n + ", another process: it computes " +
		format.Sentence.Duration(r.PerStep()) + " of the " + format.Sentence.Duration(*r.StepDur) +
		" per step, end to end (" + format.Share(r.PerStep() / *r.StepDur) +
		"). The step's own call submits graphs and returns earlier."
	o.v.Evidence = nil
	o.figure("server", r.PerStep(), "ns", "per step, computed by "+n)
	o.figure("until_done", *r.StepDur, "ns", "per step, end to end, mean")
	if r.TokensPerS != nil {
		o.figure("tokens_per_s", *r.TokensPerS, "tokens/s", "with that wait")
	}
	if r.Wire != nil {
		o.figure("wire", *r.Wire, "ns", "RPC overhead per graph: serialise, send, receive, respond")
	}
	if ps := o.ps; ps.Steps > 0 {
		o.figure("call", float64(ps.Dur)/float64(ps.Steps), "ns", "per step, the call alone, mean")
	}
}

// remote reports the cost of communication with the other process.
func (f *finder) remote() {
	r := f.j.remoteOf(f.ps)
	if r == nil || r.Wire == nil {
		return
	}
	n := whoComputes(r)
	each := *r.Wire * float64(r.Graphs) / float64(max(1, r.Steps))
	x := summary.Finding{Kind: "remote", Names: []string{n},
		Text: "RPC overhead in " + f.name() + ": of the " + format.Sentence.Duration(*r.Client) +
			" from submitting a graph to " + n + " to its result, serialising, sending and waking up take " +
			format.Sentence.Duration(*r.Wire) +
			" (" + format.Share(*r.Wire / *r.Client) + ").",
		Figures: []summary.Evidence{fig("wire", *r.Wire, "ns", "per graph"),
			fig("client", *r.Client, "ns", "per graph, from submission to its result"), fig("server",
				r.Computed, "ns", "per graph, computed by "+n)},
		Target: summary.Target{View: "stat", Params: f.params("tab", "remote", "phase", f.ps.Phase)}}
	part, all := each / *r.StepDur, each*float64(r.Steps)
	x.Gain, x.GainShare, x.GainAll = &each, &part, &all
	f.add(x)
}

// heaviestThere names the operators that take most of what the other process computes, which is not a loss.
func (f *finder) heaviestThere() {
	r := f.j.remoteOf(f.ps)
	for i := range min(2, len(r.Rows)) {
		x := &r.Rows[i]
		if f.j.by != facts.ByWeight || x.Share == nil {
			return
		}
		n, typ := shortName(x.Key), ""
		if x.Type != "" {
			typ = " (" + x.Type + ")"
		}
		text := " takes most of what " + whoComputes(r) + " computes for " + f.name() + ": "
		if i > 0 {
			text = " comes next: "
		}
		text = n + typ + text + format.Sentence.Duration(x.DurPerStep) + " per step (" +
			format.Share(*x.Share) + ")"
		if x.GBps != nil && x.GFlops != nil {
			text += ", at " + format.Sentence.Number(*x.GBps) + " GB/s and " +
				format.Sentence.Number(*x.GFlops) + " GFLOP/s"
		}
		f.add(summary.Finding{Kind: "heaviest", Names: []string{n, whoComputes(r)}, Text: text + ".",
			Figures: []summary.Evidence{fig("dur", float64(x.Dur), "ns", "in all")},
			Target:  summary.Target{View: "stat", Params: f.params("tab", "remote", "phase", f.ps.Phase)}})
	}
}

// whoComputes names the server.
func whoComputes(r *summary.Remote) string {
	if r.ServerComm == "" {
		return "process " + strconv.Itoa(int(r.ServerPID))
	}
	return shortName(r.ServerComm)
}
