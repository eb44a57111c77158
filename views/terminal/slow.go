// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"strconv"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/summary"
)

// slowWords describe a cause: with enough room, and beside a step.
var slowWords = map[slow.Cause][2]string{
	slow.SlowOther:       {"CPU contention: another process had the CPU", "another process"},
	slow.SlowOwn:         {"oversubscription: engine threads shared a CPU", "own threads"},
	slow.SlowNotSeen:     {"CPU contention: who had the CPU was not seen", "not seen"},
	slow.SlowDisk:        {"disk read: a thread was blocked", "disk"},
	slow.SlowSleep:       {"a thread slept: a lock, or woken late", "asleep"},
	slow.SlowFaults:      {"page faults", "faults"},
	slow.SlowExperts:     {"newly activated experts", "new experts"},
	slow.SlowImbalance:   {"load imbalance: a running thread was late", "imbalance"},
	slow.SlowKV:          {"attention reads more of the KV cache", "KV cache"},
	slow.SlowRebuilt:     {"graph rebuilt", "graph rebuilt"},
	slow.SlowBackend:     {"graphs of other backends", "backend"},
	slow.SlowCopies:      {"copies between graphs of a step", "copies"},
	slow.SlowRecording:   {"recording: a new graph was copied", "recording"},
	slow.SlowSteal:       {"steal time (hypervisor; estimate)", "steal time"},
	slow.SlowUnexplained: {"unattributed", "unattributed"},
}

// Slow draws the steps that took longer than their neighbours, the causes, and who took CPUs. stat describes
// what was recorded. It returns w's errors.
func Slow(w io.Writer, stat *summary.Stat, s *slow.Slow, o Options) error {
	p := &page{o: o}
	p.head(stat, mostNamed)
	p.blank()
	p.line(p.slowLine(s), bold)
	p.slowNotes(s)
	if s.Slow > 0 {
		p.blank()
		p.slowCauses(s)
		p.blank()
		p.slowSteps(s)
	}
	p.interferers(&s.Interference)
	p.lost(stat)
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *page) slowLine(s *slow.Slow) string {
	over := fmt.Sprintf("%.0f %%", s.OverShare*100)
	if s.Steps == 0 {
		return "No step could be compared with a local baseline."
	}
	if s.Slow == 0 {
		text := "No step is slower than its local baseline by more than " + over
		if s.NextShare != nil && *s.NextShare > 0 && *s.NextShare <= s.OverShare {
			text += ": the slowest by " + format.Percent(s.NextShare)
		}
		return text + "."
	}
	share := float64(s.Excess) / float64(max(1, s.Dur))
	verb := "took"
	return fmt.Sprintf("%s of %s %s over %s longer than their local baseline: excess latency %s in all, %s of the time of all steps.",
		format.Count(s.Slow), format.Plural(s.Steps,
			"step"), verb, over, p.o.duration(float64(s.Excess)), format.Percent1(&share))
}

func (p *page) slowNotes(s *slow.Slow) {
	var notes []string
	if s.Alone > 0 {
		notes = append(notes, format.Plural(s.Alone, "step")+
			" had fewer than four steps of the same kind nearby, and "+format.Agree(s.Alone, "is", "are")+
			" not judged.")
	}
	if s.Partial > 0 {
		notes = append(notes, format.Plural(s.Partial, "step")+" incomplete, not judged.")
	}
	if s.Steps > 0 && !s.HasSched {
		notes = append(notes, "Scheduling was not recorded: preemptors are unknown, and CPU contention looks like load imbalance.")
	}
	if s.Steps > 0 && !s.HasOps {
		notes = append(notes, "Operators were not recorded: little of the excess latency can be attributed.")
	}
	for _, n := range notes {
		p.line(n, warn)
	}
}

// signedDur formats a time that can be negative.
func (p *page) signedDur(ns int64) string {
	if ns < 0 {
		return "-" + p.o.duration(float64(-ns))
	}
	return p.o.duration(float64(ns))
}

func (p *page) slowCauses(s *slow.Slow) {
	var t table
	what := t.col(column{title: "excess latency, by cause", left: true, keep: 9})
	ns := t.col(column{title: "time", keep: 8})
	share := t.col(column{title: "share", keep: 7})
	bar := t.col(column{left: true, tight: true, keep: 2})
	who := t.col(column{title: "who", left: true, keep: 6})
	var most float64
	for _, c := range s.Causes {
		most = max(most, c.Share)
	}
	for _, c := range s.Causes {
		what.addOr(slowWords[c.Cause][0], slowWords[c.Cause][1])
		ns.add(p.signedDur(c.Ns))
		share.add(format.Percent(&c.Share))
		bar.add(p.o.bar(c.Share, most, 10))
		bar.style = append(bar.style, blue)
		if c.Cause == slow.SlowOwn { // they are its own: the names add nothing
			who.addList(nil)
			continue
		}
		who.addList(p.slowWho(&c, 3))
	}
	p.table(&t)
}

// slowWho names who caused a part.
func (p *page) slowWho(c *slow.Part, most int) []string {
	var out []string
	var rest int64
	for _, w := range c.Who {
		if w.Comm == "" || len(out) >= most || w.Ns*100 < c.Ns {
			rest += w.Ns
			continue
		}
		out = append(out, p.name(w.Comm)+" "+p.signedDur(w.Ns))
	}
	if len(out) > 0 && rest*100 >= c.Ns {
		out = append(out, "others "+p.signedDur(rest))
	}
	return out
}

func (p *page) slowSteps(s *slow.Slow) {
	var t table
	step := t.col(column{title: "step", keep: 9})
	phase := t.col(column{title: "phase", left: true, keep: 3})
	pos := t.col(column{title: "position", keep: 4})
	dur := t.col(column{title: "took", keep: 7})
	usual := t.col(column{title: "baseline", keep: 6})
	over := t.col(column{title: "excess", keep: 9})
	to := t.col(column{title: "causes", left: true, keep: 8, whole: 2})
	where := t.col(column{title: "largest operator regressions", left: true, keep: 2})
	for i := range s.Listed {
		x := &s.Listed[i]
		step.add(format.Count(x.Step))
		phase.add(x.Phase)
		pos.add(countOf(x.Position))
		dur.add(p.o.duration(float64(x.Dur)))
		usual.add(p.o.duration(float64(x.Baseline)))
		over.add("+" + p.o.duration(float64(x.Excess)))
		to.addList(p.slowParts(x))
		where.addList(p.slowOps(x))
	}
	p.table(&t)
	if n := s.Slow - int64(len(s.Listed)); n > 0 {
		p.line("and "+format.Plural(n, "more slow step")+": --top lists them", dim)
	}
	if p.o.Verbose {
		for i := range s.Listed {
			x := &s.Listed[i]
			if x.NewExperts != nil && x.UsualNewExperts != nil {
				p.line(fmt.Sprintf("step %s: %s newly activated, usually %.1f",
					format.Count(x.Step), format.Plural(*x.NewExperts, "expert"), *x.UsualNewExperts), dim)
			}
			if x.KHz != nil && x.UsualKHz != nil {
				p.line(fmt.Sprintf("step %s: its CPUs ran at %.2f GHz, usually at %.2f", format.Count(x.Step),
					*x.KHz/1e6, *x.UsualKHz/1e6), dim)
			}
			for _, d := range x.Doubts {
				p.line("step "+format.Count(x.Step)+": "+p.o.clean(d), dim)
			}
		}
		return
	}
	n := int64(0)
	for i := range s.Listed {
		if len(s.Listed[i].Doubts) > 0 {
			n++
		}
	}
	if n > 0 && s.HasSched && s.HasOps {
		p.line("not all is known of "+format.Plural(n, "step")+" listed: -v says what", dim)
	}
}

// slowParts lists a step's parts that are at least a hundredth of the excess.
func (p *page) slowParts(x *slow.Step) []string {
	var out []string
	for _, c := range x.Parts {
		if c.Ns*100 < x.Excess && -c.Ns*100 < x.Excess {
			continue
		}
		name := slowWords[c.Cause][1]
		if n := len(c.Who); n > 0 && c.Cause == slow.SlowOther && c.Who[0].Comm != "" {
			name = p.name(c.Who[0].Comm)
			if n > 1 && c.Who[1].Comm != "" {
				name += "+" + p.name(c.Who[1].Comm)
			}
			if n > 2 {
				name += "+" + strconv.Itoa(n-2)
			}
		}
		out = append(out, fmt.Sprintf("%s %s", name, format.Percent(&c.Share)))
	}
	return out
}

func (p *page) slowOps(x *slow.Step) []string {
	var out []string
	for i, o := range x.Ops {
		if i == 2 {
			break
		}
		name := p.name(o.Name)
		if o.Layer != nil {
			name += " " + strconv.Itoa(*o.Layer)
		}
		out = append(out, name+" +"+p.o.duration(float64(o.Dur-o.Usual)))
	}
	return out
}

// interferers says who took CPUs in the whole run.
func (p *page) interferers(f *slow.Interference) {
	if len(f.By) > 0 {
		var t table
		who := t.col(column{title: "CPU contention, by process", left: true, keep: 9, min: 30})
		ran := t.col(column{title: "while runnable", keep: 8})
		held := t.col(column{title: "held CPUs", keep: 6})
		times := t.col(column{title: "times", keep: 4})
		cpus := t.col(column{title: "CPUs", left: true, keep: 5, sep: ","})
		cost := t.col(column{title: "cost", keep: 8})
		ops := t.col(column{title: "operators delayed", left: true, keep: 3, most: 3})
		waited := t.col(column{title: "threads delayed", left: true, keep: 2, most: 2})
		for i, x := range f.By {
			if i == 8 && !p.o.Verbose {
				break
			}
			name := p.o.clean(x.Comm)
			switch {
			case x.Own:
				name += " (own threads)"
			case x.Kernel:
				name += " (kernel)"
			case x.PID != 0:
				name += " " + strconv.Itoa(int(x.PID))
			}
			who.add(name)
			ran.add(p.o.duration(float64(x.Ran)))
			if x.Held != nil {
				held.add(p.o.duration(float64(*x.Held)))
			} else {
				held.add("")
			}
			times.add(format.Count(x.Times))
			cpus.addList(cpuList(x.CPUs))
			cost.add(p.o.duration(float64(x.Cost)))
			ops.addList(p.paid(x.Ops))
			waited.addList(p.paid(x.Waited))
		}
		p.blank()
		p.table(&t)
	}
	var facts []string
	if f.Disk > 0 {
		facts = append(facts, "blocked, mostly disk reads: "+p.o.duration(float64(f.Disk)))
	}
	if f.Migrations != nil {
		facts = append(facts, format.Plural(*f.Migrations, "migration")+" of engine threads")
	}
	for _, c := range f.CPUs {
		if c.Steal != nil && *c.Steal > 0 {
			facts = append(facts, fmt.Sprintf("CPU %d: steal time %s", c.CPU, p.o.duration(float64(*c.Steal))))
		}
		if c.MinKHz != nil && c.MaxKHz != nil {
			facts = append(facts, fmt.Sprintf("CPU %d: %.1f to %.1f GHz", c.CPU, float64(*c.MinKHz)/1e6,
				float64(*c.MaxKHz)/1e6))
		}
	}
	if len(facts) > 0 {
		p.blank()
		p.parts(facts)
	}
}

func (p *page) paid(list []slow.PaidBy) []string {
	var out []string
	for _, x := range list {
		out = append(out, p.name(x.Name)+" "+p.o.duration(float64(x.Ns)))
	}
	return out
}

// cpuList formats 0-3 and 7.
func cpuList(cpus []int) []string {
	var out []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		switch {
		case j == i:
			out = append(out, strconv.Itoa(cpus[i]))
		default:
			out = append(out, strconv.Itoa(cpus[i])+"-"+strconv.Itoa(cpus[j]))
		}
		i = j + 1
	}
	return out
}
