// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/sched"
)

// notableShare is the fraction of the time that other processes must have run in place of a team to be named
// even though the team's own threads ran longer: they may be what made the team share.
const notableShare = 0.1

// crowd is what is known of a team and the CPUs that it may use; 0: unknown.
type crowd struct{ threads, cpus, machine int }

func (j *judge) crowdOf(g *workGroup) crowd {
	return crowd{int(g.team), j.cpus, j.s.Run.Cores}
}

// more reports whether there are more threads than CPUs for them.
func (c crowd) more() bool { return c.cpus > 0 && c.threads > c.cpus }

// blamed returns who is named first of those that ran in place of threads: the longest of other processes, if
// these together have a notable part of the time, otherwise the team itself. nil: unknown.
func blamed(all []sched.Culprit) *sched.Culprit {
	var sum, others int64
	var first, own *sched.Culprit
	for i := range all {
		c := &all[i]
		sum += c.Dur
		switch {
		case c.Own && own == nil:
			own = c
		case !c.Own && !c.Unnamed():
			if others += c.Dur; first == nil {
				first = c
			}
		}
	}
	switch {
	case sum <= 0:
		return nil
	case first != nil && (own == nil || float64(others) >= notableShare*float64(sum)):
		return first
	}
	return own
}

func (o *opinion) blamed() *sched.Culprit { return blamed(o.g.culprits()) }

// culprits returns who ran in place of the group's threads, longest first.
func (g *workGroup) culprits() []sched.Culprit { return sched.TopCulprits(g.instead, len(g.instead)) }

// saidOf returns how to name one of another process, in the text and in a sentence's names.
func saidOf(c *sched.Culprit) (text, name string) {
	name = shortName(c.Comm)
	switch {
	case c.Kernel:
		return "the kernel's " + name, name
	case c.PID != 0:
		return name + " (" + strconv.Itoa(int(c.PID)) + ")", name
	}
	return name, name
}

// ranFor describes where it ran and how long: "sh (77) held CPU 1 for 2.65 s, so that the team had to share
// CPUs".
func ranFor(c *sched.Culprit, start int64) string {
	text, _ := saidOf(c)
	d := format.Sentence.Duration(float64(c.Dur))
	cpu := "a CPU"
	switch {
	case strings.ContainsAny(c.CPUs, "-,"):
		cpu = "CPUs " + c.CPUs
	case c.CPUs != "":
		cpu = "CPU " + c.CPUs
	}
	when := ""
	if c.To > c.From && start > 0 && c.From >= start {
		when = " (from " + format.Sentence.Duration(float64(c.From-start)) + " to " +
			format.Sentence.Duration(float64(c.To-start)) + ")"
	}
	why := " while engine threads were runnable there"
	if !c.Direct() {
		why = " while engine threads were runnable and shared the other CPUs"
	}
	if float64(c.Held) < 1.1*float64(c.Dur) {
		return text + " held " + cpu + " for " + d + when + why
	}
	return text + " held " + cpu + " for " + format.Sentence.Duration(float64(c.Held)) + when + ", " + d +
		" of that" + why
}

// ranThere is the function of that name, for culprits of this run.
func (j *judge) ranThere(all []sched.Culprit, c crowd) (text string, names []string) {
	if j.held != nil {
		j.held(all)
	}
	return ranThere(all, c, j.start)
}

// ranThere describes who ran in place of threads; empty if unknown.
func ranThere(all []sched.Culprit, c crowd, start int64) (text string, names []string) {
	first := blamed(all)
	if first == nil || first.Dur <= 0 {
		return "", nil
	}
	var own *sched.Culprit
	var others int64
	for i := range all {
		switch x := &all[i]; {
		case x.Own && own == nil:
			own = x
		case !x.Own && x != first && !x.Unnamed():
			others += x.Dur
		}
	}
	if first.Own {
		return sharedWhy(own, c), nil
	}
	_, n := saidOf(first)
	text = ranFor(first, start)
	if others*2 >= first.Dur {
		text += "; other processes for " + format.Sentence.Duration(float64(others))
	}
	if own != nil && own.Dur > first.Dur+others {
		why := ""
		if c.more() {
			why = ", as " + c.text()
		}
		text += "; other engine threads for " + format.Sentence.Duration(float64(own.Dur)) + why
	}
	return text, []string{n}
}

// sharedWhy says why a team shared CPUs.
func sharedWhy(c *sched.Culprit, of crowd) string {
	switch {
	case of.more():
		return of.text()
	case c.Free*2 > c.Dur:
		return "engine threads shared a CPU although another that they may use was idle"
	}
	return "engine threads shared CPUs"
}

// text: "4 engine threads share 2 CPUs (oversubscription)".
func (c crowd) text() string {
	text := format.Count(int64(c.threads)) + " engine threads share " + format.Plural(int64(c.cpus), "CPU") +
		" (oversubscription"
	if c.machine > c.cpus {
		text += "; CPU affinity leaves out the other " + format.Count(int64(c.machine-c.cpus))
	}
	return text + ")"
}
