// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"strconv"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
)

// opText is what the slices of all runs of an operator of a graph definition have in common, encoded.
type opText struct {
	d     *facts.Derived
	op    string
	epoch int // in which its numbers of strings are valid
	name  handle
	// annotations, in the order in which they are written: others come between
	layer, what, flops message
}

// maxTexts bounds the operators that are kept encoded; beyond it, all are encoded again.
const maxTexts = 1 << 16

// fixedNames are categories and names of slices that are written for every operator.
type fixedNames struct{ op, wait, waiting handle }

// text returns what is kept for an operator, and whether it is of this operator.
func (e *exporter) text(o *profile.Op, d *facts.Derived) (t *opText, known bool) {
	i := d.ID % maxTexts
	if i >= len(e.texts) {
		more := make([]opText, min(max(i+1, 2*len(e.texts), 1024), maxTexts))
		copy(more, e.texts)
		e.texts = more
	}
	t = &e.texts[i]
	if t.d != d || t.op != o.Op {
		*t = opText{d: d, op: o.Op, layer: t.layer[:0], what: t.what[:0], flops: t.flops[:0]}
		return t, false
	}
	return t, t.epoch == e.p.epoch
}

// Op takes an operator: a slice on each of its threads, with its wait inside.
func (e *exporter) Op(o *profile.Op) error {
	end := o.Start + o.Dur
	e.last = max(e.last, end)
	if o.Shape == nil || o.Shape.Shape == nil || o.Node < 0 || int(o.Node) >= len(o.Shape.Nodes) {
		return e.p.err()
	}
	pid := o.Shape.PID
	if o.Step != nil {
		pid = o.Step.PID
		e.openStep(o.Step)
	}
	if o.Graph != nil {
		pid = o.Graph.PID
		e.openGraph(o.Graph)
	}
	e.experts.Op(o)
	d := e.derive.Derive(o)
	e.addToStep(o, d)
	name := o.Op
	if d.Stem != "" {
		name = d.Stem
	}
	text, known := e.text(o, d)
	p := e.p
	for i := range o.Threads {
		th := &o.Threads[i]
		k := e.t.thread(pid, th.TID)
		n := e.t.notes()
		n.integer(n.hot(noteOpID), o.ID)
		known = known && text.epoch == p.epoch
		switch {
		case known:
			n.m = append(n.m, text.layer...)
		case d.Layer != nil:
			from := len(n.m)
			n.int("layer", int64(*d.Layer))
			text.layer = append(text.layer[:0], n.m[from:]...)
		}
		if i == 0 {
			e.describe(n, o, d, text, known)
			known = true
		}
		if th.Ith != profile.UnknownIth {
			n.integer(n.hot(noteThread), int64(th.Ith))
		}
		if th.OffCPU > 0 {
			n.integer(n.hot(noteOffCPU), th.OffCPU)
		}
		e.counts.annotate(n, ofThread, th.Counts)
		arrived := th.Busy+th.OffCPU+th.Wait > 0
		if !arrived {
			n.text("incomplete", "the thread was not seen to arrive")
		}
		k.last = max(th.Start, k.last)
		p.begin(k.last, k.uuid, p.known(&e.fixed.op, internCategories, "op"),
			p.known(&text.name, internEvents, name), n.m)
		if arrived && th.Wait > 0 {
			k.last = max(end-th.Wait, k.last)
			p.begin(k.last, k.uuid, p.known(&e.fixed.wait, internCategories, "wait"),
				p.known(&e.fixed.waiting, internEvents, "wait"), nil)
			k.last = max(end, k.last)
			p.end(k.last, k.uuid, nil)
		}
		k.last = max(end, k.last)
		p.end(k.last, k.uuid, nil)
		e.counts.draw(e.t, pid, th)
	}
	return p.err()
}

// addToStep adds what an operator read and counted to the sums of its step.
func (e *exporter) addToStep(o *profile.Op, d *facts.Derived) {
	if o.Step == nil || d.Bytes == nil && o.Counts == nil {
		return
	}
	if e.sumStep != o.Step {
		s := e.sums[o.Step]
		if s == nil {
			s = &stepSum{}
			e.sums[o.Step] = s
		}
		e.sumStep, e.sum = o.Step, s
	}
	if d.Bytes != nil {
		e.sum.bytes += *d.Bytes
		e.sum.bytesDur += o.Dur
	}
	e.sum.counts = e.counts.sum(e.sum.counts, o.Counts)
}

// describe annotates an operator's slice on its first thread. text has, or gets, what is the same in all runs.
func (e *exporter) describe(n *notes, o *profile.Op, d *facts.Derived, text *opText, known bool) {
	if known {
		n.m = append(n.m, text.what...)
	} else {
		from := len(n.m)
		e.define(n, o, d)
		text.what, text.epoch = append(text.what[:0], n.m[from:]...), e.p.epoch
	}
	if d.Bytes != nil && o.Dur > 0 {
		n.double(n.hot(noteBandwidth), float64(*d.Bytes)/float64(o.Dur))
	}
	if d.Flops != nil {
		if known {
			n.m = append(n.m, text.flops...)
		} else {
			from := len(n.m)
			n.int("flops", *d.Flops)
			text.flops = append(text.flops[:0], n.m[from:]...)
		}
		if o.Dur > 0 {
			n.double(n.hot(noteFlopRate), float64(*d.Flops)/float64(o.Dur))
		}
	}
	n.experts(o.Choice)
	n.integer(n.hot(noteThreads), int64(len(o.Threads)))
	if v := o.Imbalance(); v >= 0 && !o.Incomplete && finite(v) {
		n.double(n.hot(noteImbalance), v)
	}
	if o.Incomplete {
		n.text("incomplete", "not all threads were seen")
	}
	if o.Probe > 0 {
		n.integer(n.hot(noteProbe), o.Probe)
	}
	e.counts.annotate(n, ofOperator, o.Counts)
	if o.Scaled {
		n.text("count.scaled", "some are estimates: their events took turns")
	}
}

// define annotates what follows from an operator's definition, but for the flops.
func (e *exporter) define(n *notes, o *profile.Op, d *facts.Derived) {
	def := o.NodeDef()
	n.text("op", o.Op)
	n.text("name", d.Name)
	n.text("block", string(d.Block))
	n.text("type", def.Type)
	n.text("dims", e.dimensions(def.Ne))
	n.text("weight", d.Weight)
	n.text("weight_type", d.WeightType)
	n.int("node", int64(o.Node))
	n.int("shape", o.Shape.Index)
	if d.Bytes != nil {
		n.int("bytes", *d.Bytes)
	}
}

// dimensions formats 2048x8192, without trailing ones.
func (e *exporter) dimensions(ne [4]int64) string {
	s := e.dims[ne]
	if s == "" {
		last := 3
		for last > 0 && ne[last] == 1 {
			last--
		}
		s = strconv.FormatInt(ne[0], 10)
		for _, v := range ne[1 : last+1] {
			s += "x" + strconv.FormatInt(v, 10)
		}
		if len(e.dims) < maxInterned {
			e.dims[ne] = s
		}
	}
	return s
}
