// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strconv"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

// diskSum is the time that the steps of a phase of one model waited for the disk.
type diskSum struct{ wall, majors, read, steps int64 }

func (d *diskSum) step(s *profile.Step) {
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

// faulted finds time in which threads waited for pages that were read from disk, as measured where page
// faults were recorded.
func (f *finder) faulted() {
	d := &f.g.disk
	if d.wall <= 0 || f.ps.Steps <= 0 {
		return
	}
	text := "Disk reads in " + f.name() + ": at least one thread waits for the disk " +
		format.Sentence.Duration(num.SafeRatio(d.wall, f.ps.Steps)) + " per step (" +
		format.Share(num.SafeRatio(d.wall, f.ps.Dur)) + "): " + format.Plural(d.majors, "major page fault") +
		" in " + format.Count(d.steps) + " of " + format.Plural(f.ps.Steps, "step") +
		", " + format.Sentence.Bytes(float64(d.read)) + " read"
	x := summary.Finding{Kind: "disk",
		Target: summary.Target{View: "time", Params: f.params("step", strconv.FormatInt(f.ps.StepMaxID, 10))},
		Figures: []summary.Evidence{fig("disk", num.SafeRatio(d.wall, f.ps.Steps), "ns",
			"per step, with at least one thread in a fault that waits for the disk"),
			fig("major_faults", float64(d.majors), "count", "in steps of the phase"), fig("read",
				float64(d.read), "B", "by faults, read ahead included")}}
	if s := f.j.s.Faults; s != nil && len(s.Names) > 0 && s.Names[0].Name != "" {
		n := shortName(s.Names[0].Name)
		x.Names = append(x.Names, n)
		text += "; most of the time goes to " + n
	}
	x.Text = text + "."
	f.loss(x, float64(d.wall), f.ps.Steps, f.ps.Dur)
}

// faulted sets for each cell the time by which recorded page faults delayed its operators.
func (j *judge) faulted() {
	for _, k := range j.keys {
		for _, c := range j.groups[k].inOrder() {
			if c.faultDelay > 0 {
				c.majors = c.faults
				c.takeDisk(c.faultDelay)
			}
		}
	}
}

// blocked sets for each cell the time by which its operators were late because a thread was in
// uninterruptible sleep: mostly reading. The number of faults behind it may be known.
func (j *judge) blocked() {
	j.byState = true
	for _, k := range j.keys {
		for _, c := range j.groups[k].inOrder() {
			c.majors = c.faults
			c.takeDisk(c.blocked)
		}
	}
}

// inferred reports that time is attributed to the disk only because threads were blocked.
func (j *judge) inferred(majors int64) bool { return j.byState && majors == 0 }

const notWhatFor = "Threads were in uninterruptible sleep, mostly disk reads. Page faults tell what was read (record --faults)."

// diskWords describes what is lost to the disk, after a share.
func (j *judge) diskWords() string {
	if j.byState {
		return "uninterruptible sleep, mostly disk reads"
	}
	return "disk reads"
}

// blocked finds time in which threads were blocked.
func (f *finder) blocked(all *workCell, longest *workCell) {
	n := shortName(longest.name)
	f.loss(summary.Finding{Kind: "disk", Names: []string{n},
		Text: "Operators of " + f.name() + " last " + f.each(float64(all.disk)) +
			" longer because a thread was in uninterruptible sleep, mostly disk reads; most in " + n +
			". Page faults tell what is read (record --faults); more memory or a smaller model avoids it.",
		Figures: []summary.Evidence{fig("disk", num.SafeRatio(all.disk, f.ps.Traced), "ns",
			"lost per step while a thread was in uninterruptible sleep")},
		Target: summary.Target{View: "stat",
			Params: f.params("tab", "tables", "by", "weight", "phase", f.ps.Phase, "sel", f.sel(longest))}},
		float64(all.disk), f.ps.Traced, f.ps.TracedDur)
}

// takeDisk takes disk time out of the off-CPU time, then out of waiting, then out of work.
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
