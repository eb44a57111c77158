// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/internal/sketch"
	"github.com/profinfer/profinfer/profile/ops"
)

// RowSum is a row while it is summed up.
type RowSum struct {
	Row                        Row
	Hist                       sketch.Histogram
	started                    bool
	Bytes, BytesDur            int64
	Flops, FlopsDur            int64
	Both, BothBytes            int64 // flops and bytes of operators for which both are known
	HasBytes, HasFlop, HasBoth bool
	AtMost                     bool
	MaxBusy                    float64 // sum of max busy * threads
	AllBusy                    int64
	counts                     []countSum
}

// Call adds one call: its time and its properties.
func (r *RowSum) Call(d *facts.Derived, o *profile.Op, dur, busy, wait, off int64) {
	if !r.started {
		r.started = true
		r.Row.Type, r.Row.Op, r.Row.Block = d.WeightType, o.Op, d.Block
	}
	r.Same(d.WeightType, o.Op, d.Block)
	r.Row.Calls++
	r.Row.Dur += dur
	r.Row.Probe += o.Probe
	r.Row.Busy += busy
	r.Row.Wait += wait
	r.Row.OffCPU += off
	if o.Incomplete {
		r.Row.Incomplete++
	}
	r.Hist.Add(max(0, dur-o.Probe))
}

// Same keeps those properties of a row that all its operators share.
func (r *RowSum) Same(typ, op string, block ops.Block) {
	if r.Row.Type != typ {
		r.Row.Type = ""
	}
	if r.Row.Op != op {
		r.Row.Op = ""
	}
	if r.Row.Block != block {
		r.Row.Block = ""
	}
}

// Add adds one call with its bytes and flops, which belong to the operator as a whole and not to one thread.
func (r *RowSum) Add(d *facts.Derived, o *profile.Op, dur, busy, wait, off int64) {
	r.Call(d, o, dur, busy, wait, off)
	if o.Counts != nil {
		r.Count(o.Counts)
	}
	if d.Bytes != nil {
		r.HasBytes = true
		r.AtMost = r.AtMost || d.BytesAtMost
		r.Bytes += *d.Bytes
		r.BytesDur += o.Dur - o.Probe
	}
	if d.Flops != nil {
		r.HasFlop = true
		r.Flops += *d.Flops
		r.FlopsDur += o.Dur - o.Probe
	}
	if d.Bytes != nil && d.Flops != nil {
		r.HasBoth = true
		r.Both += *d.Flops
		r.BothBytes += *d.Bytes
	}
	if im := o.Imbalance(); im >= 0 && !o.Incomplete {
		r.MaxBusy += (im + 1) * float64(o.Busy)
		r.AllBusy += o.Busy
	}
}

// Merge adds another row's sums, for the rows that are left out.
func (r *RowSum) Merge(o *RowSum) {
	r.Row.Calls += o.Row.Calls
	r.Row.Dur += o.Row.Dur
	r.Row.Probe += o.Row.Probe
	r.Row.Busy += o.Row.Busy
	r.Row.Wait += o.Row.Wait
	r.Row.OffCPU += o.Row.OffCPU
	r.Row.Incomplete += o.Row.Incomplete
	r.Hist.Merge(&o.Hist)
	r.MergeCounts(o)
	r.HasBytes = r.HasBytes || o.HasBytes
	r.AtMost = r.AtMost || o.AtMost
	r.HasFlop = r.HasFlop || o.HasFlop
	r.HasBoth = r.HasBoth || o.HasBoth
	r.Bytes += o.Bytes
	r.BytesDur += o.BytesDur
	r.Flops += o.Flops
	r.FlopsDur += o.FlopsDur
	r.Both += o.Both
	r.BothBytes += o.BothBytes
	r.MaxBusy += o.MaxBusy
	r.AllBusy += o.AllBusy
}
