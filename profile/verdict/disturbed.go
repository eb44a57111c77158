// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/internal/num"
	"github.com/profinfer/profinfer/profile/summary"
)

const (
	disturbedShare = 0.25    // of what a step takes otherwise
	disturbedLeast = 100_000 // ns
)

// Disturbed reports by how much a step's operators lasted longer because a thread had lost its CPU, the part of
// that in which it waited for the disk, and whether that is much of the step.
func Disturbed(s *profile.Step, ops []*profile.Op) (lost, disk int64, much bool) {
	for _, o := range ops {
		if o.OffCPU > 0 {
			off, blocked := lostBy(o, max(0, o.Dur-o.Probe))
			lost += off
			disk += blocked
		}
	}
	lost = min(lost, s.Dur)
	return lost, min(disk, lost), lost >= disturbedLeast &&
		float64(lost) >= disturbedShare*float64(s.Dur-lost)
}

// FromOutside reports whether disturbed steps were disturbed by other processes or the disk. What an engine's own
// threads take from each other is no disturbance: it is what the run is like.
// With more threads than CPUs these have the larger part of it even while others run.
func FromOutside(d *summary.Disturbed, threads, cpus int) bool {
	var own, others int64
	for i := range d.Instead {
		if c := &d.Instead[i]; c.Own {
			own += c.Dur
		} else if !c.Unnamed() {
			others += c.Dur
		}
	}
	if cpus > 0 && threads > cpus && own > others {
		return false
	}
	c := blamed(d.Instead)
	return d.Disk*2 > d.Lost || c != nil && !c.Own
}

// lostBy returns by how much an operator, which took dur without its probes, lasted longer because a thread had
// lost its CPU, and the part in which that thread was in uninterruptible sleep.
func lostBy(o *profile.Op, dur int64) (off, blocked int64) {
	n := int64(len(o.Threads))
	if n == 0 {
		return 0, 0
	}
	work := min(dur, max(0, o.Busy/n-o.Probe))
	var last, free int64 // the last arrival if none had been off-CPU, and if none had been blocked
	for i := range o.Threads {
		t := &o.Threads[i]
		last = max(last, t.Start+t.Busy-o.Start)
		free = max(free, t.Arrival()-t.Blocked-o.Start)
	}
	off = min(max(0, o.Dur-last), dur-work)
	return off, min(max(0, o.Dur-free), off)
}

// leftOut reports whether a phase's figures of operators are without its disturbed steps.
func leftOut(ps *summary.Phase) bool { return ps.Disturbed != nil && ps.Disturbed.LeftOut }

// oversubscription is the kind of the finding that comes first where it is true.
const oversubscription = "oversubscription"

// oversubscribed finds more computing threads than CPUs for them.
func (f *finder) oversubscribed() {
	c := f.j.crowdOf(f.g)
	if !c.more() {
		return
	}
	for _, x := range f.found {
		if x.Kind == oversubscription {
			return
		}
	}
	lost := f.g.sums(func(*workCell) bool { return true })
	cpus := strconv.Itoa(c.cpus)
	text := "More threads than CPUs: " + strconv.Itoa(c.threads) + " threads on " +
		format.Plural(int64(c.cpus), "CPU")
	if c.machine > c.cpus {
		text += " (CPU affinity leaves out the other " + strconv.Itoa(c.machine-c.cpus) + ")"
	}
	text += ". Use -t " + cpus + ": in " + f.name() + " threads wait for a CPU or for each other " +
		f.each(float64(lost.off+lost.wait)) + "."
	f.loss(summary.Finding{Kind: oversubscription, Text: text,
		Figures: []summary.Evidence{fig("threads", float64(c.threads), "threads", "of the largest team"),
			fig("cpus", float64(c.cpus), "CPUs", "that they may use")},
		Target: summary.Target{View: "stat", Params: f.params("tab", "threads", "phase", f.ps.Phase)}},
		float64(lost.off+lost.wait), f.ps.Traced, f.ps.TracedDur)
}

// disturbed names the few steps that hold a loss, and what the others take.
func (f *finder) disturbed() {
	ps, d := f.ps, f.ps.Disturbed
	if !leftOut(ps) || ps.UndisturbedStep == nil {
		return
	}
	x := summary.Finding{Kind: "disturbed_steps", Names: []string{},
		Target: summary.Target{View: "time",
			Params: f.params("step", strconv.FormatInt(ps.StepMaxID, 10))}}
	x.Text = format.Count(d.Steps) + " of " + format.Plural(ps.Steps, "step") + " of " + f.name() + " (" +
		stepNumbers(d.Ranges) + ") took " + format.Sentence.Duration(float64(d.Dur)) + ", " +
		format.Share(num.SafeRatio(d.Dur, ps.Dur)) + " of its time"
	if who, names := f.heldBy(d); who != "" {
		x.Text += ": " + who
		x.Names = append(x.Names, names...)
	}
	x.Text += ". The other steps take " + format.Sentence.Duration(*ps.UndisturbedStep) + " each"
	if ps.UndisturbedTPS != nil {
		x.Text += ", " + format.Sentence.Number(*ps.UndisturbedTPS) + " t/s"
	}
	x.Text += "."
	x.Figures = []summary.Evidence{fig("disturbed_steps", float64(d.Steps), "count", "steps"),
		fig("disturbed", float64(d.Dur), "ns", "their time"), fig("lost", float64(d.Lost), "ns",
			"by how much longer their operators lasted"),
		fig("undisturbed_step", *ps.UndisturbedStep, "ns", "mean of the other steps")}
	over := max(0, float64(d.Dur)-float64(d.Steps)**ps.UndisturbedStep)
	each, part := over/float64(ps.Steps), over/float64(ps.Dur)
	x.Gain, x.GainShare, x.GainAll = &each, &part, &over
	f.add(x)
}

// heldBy says what disturbed steps were disturbed by: processes that had the CPUs, or the disk.
func (f *finder) heldBy(d *summary.Disturbed) (text string, names []string) {
	if d.Disk*2 > d.Lost {
		return "threads waited for the disk for " + format.Sentence.Duration(float64(d.Disk)), nil
	}
	return f.j.ranThere(d.Instead, f.j.crowdOf(f.g))
}

// stepNumbers formats "33 to 41", "3, 7 and 12 to 14".
func stepNumbers(all []summary.StepRange) string {
	var out []string
	for i, r := range all {
		if i == 4 && len(all) > 5 {
			return strings.Join(out, ", ") + " ..."
		}
		switch text := strconv.FormatInt(r.First, 10); r.Last - r.First {
		case 0:
			out = append(out, text)
		default:
			out = append(out, text+" to "+strconv.FormatInt(r.Last, 10))
		}
	}
	return andList(out)
}
