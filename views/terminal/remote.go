// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"

	"github.com/profinfer/profinfer/profile"
)

// remote draws what other processes on this machine computed for the steps.
func (p *page) remote(s *profile.Stat) {
	if len(s.Remote) == 0 {
		return
	}
	p.blank()
	t := &table{}
	name := t.col(column{title: "computed by another process, a graph", left: true, keep: 100, min: 48})
	graphs := t.col(column{title: "graphs", keep: 60})
	client := t.col(column{title: "client", keep: 100})
	server := t.col(column{title: "server", keep: 100})
	wire := t.col(column{title: "wire", keep: 95})
	sent := t.col(column{title: "sent", keep: 80})
	queued := t.col(column{title: "queued", keep: 45})
	answered := t.col(column{title: "answered", keep: 75})
	to := t.col(column{title: "to server", keep: 50})
	from := t.col(column{title: "from it", keep: 40})
	step := t.col(column{title: "step", keep: 70})
	tps := t.col(column{title: "t/s", keep: 65})
	var unlinked int64
	seen := map[string]bool{}
	for i := range s.Remote {
		r := &s.Remote[i]
		name.add(fmt.Sprintf("%s: %s by %s [%d]", cmp.Or(string(r.Phase), "unknown phase"), p.o.clean(r.Backend), cmp.Or(p.o.clean(r.ServerComm), "process"), r.ServerPID))
		graphs.add(count(r.Graphs))
		client.add(p.o.durationOf(r.Client))
		server.add(p.o.duration(r.Computed))
		w := p.o.durationOf(r.Wire)
		if r.Wire != nil && r.Client != nil && *r.Client > 0 {
			part := *r.Wire / *r.Client
			w += " (" + percent(&part) + ")"
		}
		wire.add(w)
		sent.add(p.o.duration(r.Sent - r.Queued))
		queued.add(p.o.duration(r.Queued))
		answered.add(p.o.durationOf(r.Answered))
		to.add(sizeOf(r.ToServer))
		from.add(sizeOf(r.FromServer))
		step.add(p.o.durationOf(r.StepDur))
		tps.add(number(r.TokensPerS))
		if k := fmt.Sprint(r.ClientPID, r.Backend); !seen[k] {
			seen[k] = true
			unlinked += r.Unlinked
		}
	}
	p.table(t)
	p.line("client: from when a graph is handed over to when its result is known, of it the server computes and the wire takes the rest; to and from the server, step and t/s are a step's, with its wait", dim)
	if unlinked > 0 {
		p.line(fmt.Sprintf("%s handed over that no recorded process was seen to compute", plural(unlinked, "graph")), dim)
	}
	for i := range s.Remote {
		if r := &s.Remote[i]; len(r.Rows) > 0 {
			p.blank()
			rows := p.rowTable(s, fmt.Sprintf("%s, on %s [%d], by %s", cmp.Or(string(r.Phase), "unknown phase"), cmp.Or(p.o.clean(r.ServerComm), "process"), r.ServerPID, s.By), r.Rows, nil, 0, r.Steps)
			p.table(&rows.table)
		}
	}
}

// sizeOf writes bytes, "-" if they are not known.
func sizeOf(v *float64) string {
	if v == nil {
		return "-"
	}
	return size(int64(*v))
}

// remoteSteps says what a step takes with the wait for another process or a device, which its own call does not have.
func (p *page) remoteSteps(s *profile.Stat) {
	told := map[profile.Phase]bool{}
	for i := range s.Remote {
		r := &s.Remote[i]
		if r.StepDur == nil {
			continue
		}
		told[r.Phase] = true
		p.untilDone("the results of "+cmp.Or(p.o.clean(r.ServerComm), "another process"), r.StepDur, r.Phase, r.TokensPerS)
	}
	for i := range s.Offload {
		if x := &s.Offload[i]; x.Late() && !told[x.Phase] {
			p.untilDone("devices' results", x.UntilDone, x.Phase, x.TokensPerS)
		}
	}
}

func (p *page) untilDone(what string, step *float64, phase profile.Phase, tps *float64) {
	text := fmt.Sprintf("until %s are there, %s a step of %s", what, p.o.durationOf(step), cmp.Or(string(phase), "unknown phase"))
	if tps != nil {
		text += ", " + number(tps) + " t/s"
	}
	p.line(text+": the figures above are of the calls, which return before", dim)
}
