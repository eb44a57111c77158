// SPDX-License-Identifier: Apache-2.0

package profile

import "strconv"

// diskSum is what the steps of a phase of one model waited for the disk.
type diskSum struct{ wall, majors, read, steps int64 }

func (d *diskSum) step(s *Step) {
	d.wall += s.FaultWall
	d.majors += s.MajorFaults
	d.read += s.DiskRead
	if s.MajorFaults > 0 || s.DiskRead > 0 {
		d.steps++
	}
}

func (d *diskSum) merge(o *diskSum) {
	d.wall += o.wall
	d.majors += o.majors
	d.read += o.read
	d.steps += o.steps
}

// faulted finds time in which threads waited for pages that were read from disk: measured, where page faults were recorded.
func (f *finder) faulted() {
	d := &f.g.disk
	if d.wall <= 0 || f.ps.Steps <= 0 {
		return
	}
	text := "In " + f.name() + " at least one thread waits for the disk " + sayDur(safeRatio(d.wall, f.ps.Steps)) + " a step (" +
		sayPercent(safeRatio(d.wall, f.ps.Dur)) + "): " + plural(d.majors, "major page fault") + " in " + sayCount(d.steps) + " of " + plural(f.ps.Steps, "step") +
		", " + sayBytes(float64(d.read)) + " read"
	x := Finding{Kind: "disk", Target: Target{"time", f.params("step", strconv.FormatInt(f.ps.StepMaxID, 10))},
		Figures: []Evidence{fig("disk", safeRatio(d.wall, f.ps.Steps), "ns", "a step, with at least one thread in a fault that waits for the disk"),
			fig("major_faults", float64(d.majors), "count", "in steps of the phase"), fig("read", float64(d.read), "B", "by faults, read ahead included")}}
	if s := f.j.s.Faults; s != nil && len(s.Names) > 0 && s.Names[0].Name != "" {
		n := shortName(s.Names[0].Name)
		x.Names = append(x.Names, n)
		text += "; most time in all goes to " + n
	}
	x.Text = text + "."
	f.loss(x, float64(d.wall), f.ps.Steps, f.ps.Dur)
}

// faulted gives each cell the time by which recorded page faults delayed its operators.
func (j *judge) faulted() {
	for _, k := range j.keys {
		for _, c := range j.groups[k].cells {
			if c.faultDelay > 0 {
				c.majors = c.faults
				c.takeDisk(c.faultDelay)
			}
		}
	}
}

// takeDisk takes time that went to the disk out of the time off the CPU, then of waiting, then of work.
func (c *workCell) takeDisk(ns int64) {
	left := min(ns, c.dur)
	c.disk = left
	for _, from := range []*int64{&c.off, &c.wait, &c.work} {
		x := min(left, *from)
		*from -= x
		left -= x
	}
	c.disk -= left
}
