// SPDX-License-Identifier: Apache-2.0

package oncpu

// Holder is a thread that can have a CPU; 0 is the idle loop's ID.
type Holder interface{ ThreadID() int32 }

// Run is an interval in which a thread had a CPU, ns.
type Run[H Holder] struct {
	Holder   H
	Unseen   bool // it is not known who had it
	From, To int64
}

// CPU is who has a CPU, and since when, ns. The zero value is a CPU of which nothing was seen.
type CPU[H Holder] struct {
	Holder H
	Unseen bool // it is not known who has it
	Since  int64
	begun  bool
	ended  [2]Run[H]
}

// Missed reports whether a switch from prev shows that one before it is missing: another thread was switched
// to last.
func (c *CPU[H]) Missed(prev H) bool {
	return c.begun && (c.Unseen || c.Holder.ThreadID() != prev.ThreadID())
}

// Lose notes that the next switch on this CPU is missing.
func (c *CPU[H]) Lose() { c.Unseen = true }

// Switch handles a switch on this CPU. held is how long prev has had it, 0 if that is not known. It returns
// the runs that have ended, in order, until the next call. Where others ran in between, nobody is known to have
// run until then, but for the time that prev is known to have had the CPU.
func (c *CPU[H]) Switch(at, held int64, prev, next H) []Run[H] {
	if !c.begun {
		c.begun, c.Since, c.Holder = true, at-held, prev
	}
	runs := c.ended[:0]
	if !c.Missed(prev) {
		runs = put(runs, Run[H]{prev, false, c.Since, at})
	} else {
		from := at
		if held > 0 {
			from = max(c.Since, at-held)
		}
		runs = put(runs, Run[H]{c.Holder, true, c.Since, from})
		runs = put(runs, Run[H]{prev, false, from, at})
	}
	c.Holder, c.Unseen, c.Since = next, false, at
	return runs
}

// Look handles an observation that who has had the CPU for a time, as Switch does. Later events of that CPU
// take precedence over it.
func (c *CPU[H]) Look(at, held int64, who H) []Run[H] {
	from, runs := at-held, c.ended[:0]
	switch {
	case !c.begun:
		c.begun = true
	case from <= c.Since:
		return nil
	default:
		runs = put(runs, Run[H]{c.Holder, true, c.Since, from})
	}
	c.Holder, c.Unseen, c.Since = who, false, from
	return runs
}

func put[H Holder](runs []Run[H], r Run[H]) []Run[H] {
	if r.To <= r.From {
		return runs
	}
	return append(runs, r)
}
