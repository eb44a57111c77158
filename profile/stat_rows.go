// SPDX-License-Identifier: Apache-2.0

package profile

// rowSum is a row under way.
type rowSum struct {
	row                        StatRow
	hist                       histogram
	started                    bool
	bytes, bytesDur            int64
	flops, flopsDur            int64
	both, bothBytes            int64 // flops and bytes of operators that have both
	hasBytes, hasFlop, hasBoth bool
	atMost                     bool
	maxBusy                    float64 // sum of max busy * threads
	allBusy                    int64
	counts                     []countSum
}

// call adds one call: its time and what it was.
func (r *rowSum) call(d *Derived, o *Op, dur, busy, wait, off int64) {
	if !r.started {
		r.started = true
		r.row.Type, r.row.Op, r.row.Block = d.WeightType, o.Op, d.Block
	}
	r.same(d.WeightType, o.Op, d.Block)
	r.row.Calls++
	r.row.Dur += dur
	r.row.Probe += o.Probe
	r.row.Busy += busy
	r.row.Wait += wait
	r.row.OffCPU += off
	if o.Incomplete {
		r.row.Incomplete++
	}
	r.hist.add(max(0, dur-o.Probe))
}

// same keeps of a row's facts those that all its operators share.
func (r *rowSum) same(typ, op string, block Block) {
	if r.row.Type != typ {
		r.row.Type = ""
	}
	if r.row.Op != op {
		r.row.Op = ""
	}
	if r.row.Block != block {
		r.row.Block = ""
	}
}

// add adds one call and what it moved and computed, which is of the operator as a whole and
// not of one thread.
func (r *rowSum) add(d *Derived, o *Op, dur, busy, wait, off int64) {
	r.call(d, o, dur, busy, wait, off)
	if o.Counts != nil {
		r.count(o.Counts)
	}
	if d.Bytes != nil {
		r.hasBytes = true
		r.atMost = r.atMost || d.BytesAtMost
		r.bytes += *d.Bytes
		r.bytesDur += o.Dur - o.Probe
	}
	if d.Flops != nil {
		r.hasFlop = true
		r.flops += *d.Flops
		r.flopsDur += o.Dur - o.Probe
	}
	if d.Bytes != nil && d.Flops != nil {
		r.hasBoth = true
		r.both += *d.Flops
		r.bothBytes += *d.Bytes
	}
	if im := o.Imbalance(); im >= 0 && !o.Incomplete {
		r.maxBusy += (im + 1) * float64(o.Busy)
		r.allBusy += o.Busy
	}
}

// merge adds another row's sums, for the rows that are left out.
func (r *rowSum) merge(o *rowSum) {
	r.row.Calls += o.row.Calls
	r.row.Dur += o.row.Dur
	r.row.Probe += o.row.Probe
	r.row.Busy += o.row.Busy
	r.row.Wait += o.row.Wait
	r.row.OffCPU += o.row.OffCPU
	r.row.Incomplete += o.row.Incomplete
	r.hist.merge(&o.hist)
	r.mergeCounts(o)
	r.hasBytes = r.hasBytes || o.hasBytes
	r.atMost = r.atMost || o.atMost
	r.hasFlop = r.hasFlop || o.hasFlop
	r.hasBoth = r.hasBoth || o.hasBoth
	r.bytes += o.bytes
	r.bytesDur += o.bytesDur
	r.flops += o.flops
	r.flopsDur += o.flopsDur
	r.both += o.both
	r.bothBytes += o.bothBytes
	r.maxBusy += o.maxBusy
	r.allBusy += o.allBusy
}
