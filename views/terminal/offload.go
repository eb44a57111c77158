// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"fmt"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/summary"
)

// offload draws how a phase was split between backends: what each computed, what was copied, how long devices
// took.
func (p *page) offload(s *summary.Stat) {
	for i := range s.Offload {
		x := &s.Offload[i]
		title := string(x.Phase)
		if title == "" {
			title = "steps of unknown phase"
		}
		p.blank()
		p.offloadBackends(title, x)
		p.offloadCopies(x)
		p.offloadOps(title, x)
	}
	if len(s.Offload) == 0 {
		return
	}
	if spans(s.Offload) {
		p.line("device: from when a graph"+handedOver(s.Offload)+
			" to when the host has waited for it, so at least what the device took; idle: from one graph's end to the next one's begin", dim)
	} else {
		p.line("device time is not known: no thread was seen to wait for a backend", dim)
	}
}

func spans(xs []offload.Offload) bool {
	for i := range xs {
		for j := range xs[i].Backends {
			if xs[i].Backends[j].Device != nil {
				return true
			}
		}
	}
	return false
}

func (p *page) offloadBackends(title string, x *offload.Offload) {
	t := &table{}
	name := t.col(column{title: title + ", by backend, per step", left: true, keep: 100, min: 12})
	graphs := t.col(column{title: "graphs", keep: 60})
	nodes := t.col(column{title: "nodes", keep: 90})
	layers := t.col(column{title: "layers", keep: 80})
	weights := t.col(column{title: "weights", keep: 70})
	call := t.col(column{title: "call", keep: 95})
	device := t.col(column{title: "device", keep: 85})
	submits := t.col(column{title: "submits", keep: 45})
	waited := t.col(column{title: "until sync", keep: 50})
	idle := t.col(column{title: "device idle", keep: 55})
	most := t.col(column{title: "most often", left: true, keep: 40, most: 4})
	for i := range x.Backends {
		b := &x.Backends[i]
		name.add(cmp.Or(p.o.clean(b.Backend), "(unknown)"))
		graphs.add(format.Decimal(&b.Graphs))
		nodes.add(format.Decimal(&b.Nodes))
		span := "-"
		if l := b.Layers; l != nil {
			span = fmt.Sprint(l.First)
			if l.Last > l.First {
				span = fmt.Sprintf("%d to %d", l.First, l.Last)
			}
			if l.Count < l.Last-l.First+1 {
				span += fmt.Sprintf(" (%d)", l.Count)
			}
		}
		layers.add(span)
		weights.add(format.Bytes(int64(b.Weights)))
		call.add(p.o.duration(b.Host))
		if b.Busy != nil && b.QueueSpans == b.Spans {
			device.add(p.o.durationOf(b.Busy))
		} else {
			device.add(p.o.durationOf(b.Device))
		}
		submits.add(submitted(&p.o, b))
		waited.add(p.o.durationOf(b.Waited))
		idle.add(p.o.durationOf(b.Idle))
		var ops []string
		for _, o := range b.Ops {
			ops = append(ops, fmt.Sprintf("%s %s", number1(o.PerStep), p.name(o.Op)))
		}
		most.addList(ops)
	}
	p.table(t)
}

// number1 formats a count that is mostly an integer.
func number1(v float64) string {
	if v == float64(int64(v)) {
		return format.Count(int64(v))
	}
	return format.Decimal(&v)
}

func (p *page) offloadCopies(x *offload.Offload) {
	if len(x.Copies) == 0 {
		return
	}
	t := &table{}
	way := t.col(column{title: "copies, per step", left: true, keep: 100, min: 12})
	n := t.col(column{title: "calls", keep: 90})
	bytes := t.col(column{title: "bytes", keep: 95})
	dur := t.col(column{title: "calls took", keep: 80})
	largest := t.col(column{title: "largest", left: true, keep: 60, min: 12})
	for i := range x.Copies {
		c := &x.Copies[i]
		from := "(unknown)"
		if c.Kind == "copy" {
			from = "inputs, weights" // computed by no graph of the step
		}
		way.add(fmt.Sprintf("%s to %s", cmp.Or(p.o.clean(c.From), from),
			cmp.Or(p.o.clean(c.To), "(unknown)")))
		n.add(format.Decimal(&c.PerStep))
		b := "-"
		if c.Bytes != nil {
			b = format.Bytes(int64(*c.Bytes))
		}
		bytes.add(b)
		dur.add(p.o.durationOf(c.Dur))
		largest.add(p.o.clean(c.Largest))
	}
	p.table(t)
}

// submitted formats how often a backend's graphs were submitted to a queue per step, and the host's time for
// it.
func submitted(o *Options, b *offload.Backend) string {
	if b.Submissions == nil {
		return "-"
	}
	return number1(*b.Submissions) + " in " + o.durationOf(b.Submitting)
}

// handedOver says from when devices' times count: from the first submission where those were seen.
func handedOver(xs []offload.Offload) string {
	queues, others := false, false
	for i := range xs {
		for j := range xs[i].Backends {
			b := &xs[i].Backends[j]
			queues = queues || b.QueueSpans > 0 && b.QueueSpans == b.Spans
			others = others || b.QueueSpans < b.Spans
		}
	}
	switch {
	case queues && others:
		return " is submitted to its queue (or handed to its backend, where that is not seen)"
	case queues:
		return " is submitted to its queue"
	}
	return " is handed to its backend"
}
