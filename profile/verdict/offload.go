// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/offload"
	"github.com/profinfer/profinfer/profile/summary"
)

// What a device computes need not be in a step's time either: the call that hands graphs over returns
// earlier, and the engine waits when it reads the result. Where that is most of the time, a phase is judged
// by the time until its results are there.

// deviceOf returns a phase's split and the backend that had work for most of the end-to-end time. The backend
// is nil if there is none, or if that time is inside the step's call.
func (j *judge) deviceOf(ps *summary.Phase) (*offload.Offload, *offload.Backend) {
	for i := range j.s.Phases {
		if q := &j.s.Phases[i]; q != ps && keyOf(q).Phase == keyOf(ps).Phase {
			return nil, nil // several models: whose it is was not kept
		}
	}
	for i := range j.s.Offload {
		x := &j.s.Offload[i]
		if x.Phase != keyOf(ps).Phase || !x.Late() {
			continue
		}
		for k := range x.Backends {
			if b := &x.Backends[k]; b.Has() >= mostShare**x.UntilDone && b.Backend != "" {
				return x, b
			}
		}
	}
	return nil, nil
}

// onDevice reports that most of a phase's end-to-end time passes on a device, after the steps' calls.
func (j *judge) onDevice(ps *summary.Phase) bool {
	_, b := j.deviceOf(ps)
	return b != nil
}

// device replaces a verdict on the steps' calls where a device has work for most of the end-to-end time.
func (o *opinion) device() {
	x, b := o.j.deviceOf(o.ps)
	if b == nil {
		return
	}
	n := shortName(b.Backend)
	o.v.Bound, o.v.Among, o.sure = summary.BoundOutside, []summary.Bound{}, 2
	o.reasons = []string{"What a device does within its graphs cannot be seen."}
	o.v.Names = []string{n}
	o.v.Text = capital(o.name()) + " is limited by " + n + ": it has work for " +
		format.Sentence.Duration(b.Has()) + " of the " + format.Sentence.Duration(*x.UntilDone) +
		" per step, end to end (" + format.Share(b.Has() / *x.UntilDone) +
		"). The step's own call submits graphs and returns earlier."
	o.v.Evidence = nil
	o.figure("device", b.Has(), "ns", "per step, in which "+n+" had work")
	o.figure("until_done", *x.UntilDone, "ns", "per step, end to end, mean")
	if x.TokensPerS != nil {
		o.figure("tokens_per_s", *x.TokensPerS, "tokens/s", "with that wait")
	}
	o.figure("call", *x.Call, "ns", "per step, the call alone, mean")
}
