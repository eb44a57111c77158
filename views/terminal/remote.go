// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/summary"
)

// remote draws what other processes on this machine computed for the steps.
func (p *page) remote(s *summary.Stat) {
	if len(s.Remote) == 0 {
		return
	}
	p.blank()
	t := &table{}
	name := t.col(column{title: "computed by another process, per graph", left: true, keep: 100, min: 48})
	graphs := t.col(column{title: "graphs", keep: 60})
	client := t.col(column{title: "client", keep: 100})
	server := t.col(column{title: "server", keep: 100})
	wire := t.col(column{title: "RPC overhead", keep: 95})
	sent := t.col(column{title: "request", keep: 80})
	queued := t.col(column{title: "server queue", keep: 45})
	answered := t.col(column{title: "response", keep: 75})
	to := t.col(column{title: "bytes out", keep: 50})
	from := t.col(column{title: "bytes in", keep: 40})
	step := t.col(column{title: "step", keep: 70})
	tps := t.col(column{title: "t/s", keep: 65})
	var unlinked int64
	seen := map[string]bool{}
	for i := range s.Remote {
		r := &s.Remote[i]
		name.add(fmt.Sprintf("%s: %s by %s [%d]", cmp.Or(string(r.Phase), "unknown phase"),
			p.o.clean(r.Backend), cmp.Or(p.o.clean(r.ServerComm), "process"), r.ServerPID))
		graphs.add(format.Count(r.Graphs))
		client.add(p.o.durationOf(r.Client))
		server.add(p.o.duration(r.Computed))
		w := p.o.durationOf(r.Wire)
		if r.Wire != nil && r.Client != nil && *r.Client > 0 {
			part := *r.Wire / *r.Client
			w += " (" + format.Percent(&part) + ")"
		}
		wire.add(w)
		sent.add(p.o.duration(r.Sent - r.Queued))
		queued.add(p.o.duration(r.Queued))
		answered.add(p.o.durationOf(r.Answered))
		to.add(sizeOf(r.ToServer))
		from.add(sizeOf(r.FromServer))
		step.add(p.o.durationOf(r.StepDur))
		tps.add(format.Decimal(r.TokensPerS))
		if k := fmt.Sprint(r.ClientPID, r.Backend); !seen[k] {
			seen[k] = true
			unlinked += r.Unlinked
		}
	}
	p.table(t)
	p.line("client: from submission of a graph to its result; server: computing; RPC overhead: the rest. Bytes, step and t/s are per step, end to end", dim)
	if unlinked > 0 {
		p.line(fmt.Sprintf("%s submitted that no recorded process was seen to compute",
			format.Plural(unlinked, "graph")), dim)
	}
	for i := range s.Remote {
		if r := &s.Remote[i]; len(r.Rows) > 0 {
			p.blank()
			rows := newOpTable(p, s, true, r.Steps > 0, r.Rows)
			rows.group(fmt.Sprintf("%s, on %s [%d], by %s", cmp.Or(string(r.Phase), "unknown phase"),
				cmp.Or(p.o.clean(r.ServerComm), "process"), r.ServerPID, s.By))
			for k := range r.Rows {
				rows.row(p, s, &r.Rows[k], p.rowName(s, &r.Rows[k]), plain)
			}
			p.table(&rows.table)
		}
	}
}

// sizeOf formats bytes, "-" if unknown.
func sizeOf(v *float64) string {
	if v == nil {
		return "-"
	}
	return format.Bytes(int64(*v))
}

// calls says how long the steps' calls alone take, where they return before their results are there.
func (p *page) calls(s *summary.Stat) {
	for i := range s.Phases {
		f := &s.Phases[i]
		if !f.Late() {
			continue
		}
		name, results := phaseName(s, f), "its results"
		if by := resultsOf(s, f); by != "" {
			results = "the results of " + p.o.clean(by)
		}
		call := float64(f.Dur) / float64(max(1, f.Steps))
		alone := fmt.Sprintf("%s per step", p.o.duration(call))
		if f.CallTokensPerS != nil {
			alone += ", " + format.Decimal(f.CallTokensPerS) + " t/s"
		}
		mean, n := f.EndToEndStep()
		if n == 0 {
			p.line(fmt.Sprintf("%s: t/s is not known: no thread was seen to wait for %s; submit time alone %s", name, results, alone), warn)
			continue
		}
		text := fmt.Sprintf("%s: end to end %s per step, until the host has %s; submit time alone %s: shares and operators below are of this",
			name, p.o.duration(mean), results, alone)
		if f.Unseen > 0 {
			text += fmt.Sprintf("; %s without a seen wait for the results: left out of t/s",
				format.Plural(f.Unseen, "step"))
		}
		p.line(text, dim)
	}
}

// resultsOf names who computes a phase's results after its calls; empty: several, or unnamed.
func resultsOf(s *summary.Stat, f *summary.Phase) (name string) {
	phase := profile.Phase(f.Phase)
	if f.Phase == "unknown" {
		phase = profile.Unknown
	}
	for i := range s.Remote {
		if r := &s.Remote[i]; r.Phase == phase {
			if name != "" && name != r.ServerComm {
				return ""
			}
			name = r.ServerComm
		}
	}
	if name != "" {
		return name
	}
	for _, b := range f.Backends {
		if b.Submits {
			if name != "" {
				return ""
			}
			name = b.Backend
		}
	}
	return name
}
