// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/summary"
)

// mostBatches is how many sizes of batches, or CPUs, are listed without -v.
const mostBatches = 16

// batches draws step times by the size of batches, where there are several sizes.
func (p *page) batches(s *summary.Stat) {
	b := s.Batches
	if b == nil || len(b.BySize) < 3 { // one of prefill and one of decode say what the phases do
		return
	}
	var t table
	size := t.col(column{title: "batches, by tokens", left: true, keep: 100})
	steps := t.col(column{title: "steps", keep: 80})
	seqs := t.col(column{title: "sequences", keep: 60})
	p50 := t.col(column{title: "step p50", keep: 95})
	p95 := t.col(column{title: "p95", keep: 90})
	p99 := t.col(column{title: "p99", keep: 50})
	most := t.col(column{title: "max", keep: 70})
	tps := t.col(column{title: "t/s", keep: 92})
	for i := range b.BySize {
		if i == mostBatches && !p.o.Verbose {
			break
		}
		x := &b.BySize[i]
		name := x.Phase + " " + format.Count(x.From)
		if x.To > x.From {
			name += " to " + format.Count(x.To)
		}
		size.add(name)
		seqs.add(number1(x.Sequences))
		tps.add(format.Rate(x.TokensPerS))
		d := x.StepTime
		if d == nil {
			for _, c := range []*column{steps, p50, p95, p99, most} {
				c.add("-")
			}
			continue
		}
		steps.add(format.Count(d.N))
		p50.add("-")
		if d.N >= fewestValues {
			p50.cells[len(p50.cells)-1] = p.o.duration(d.P50)
		}
		p95.add(p.o.durationOf(d.P95))
		p99.add(p.o.durationOf(d.P99))
		most.add(p.o.duration(d.Max))
	}
	p.blank()
	p.table(&t)
	if n := len(b.BySize) - len(size.cells); n > 0 {
		p.line(fmt.Sprintf("+%d more sizes: -v shows them", n), dim)
	}
}

// cpus draws how much of each CPU the engine and others used during steps.
func (p *page) cpus(s *summary.Stat) {
	u := s.CPUUse
	if u == nil || len(u.Each) == 0 {
		return
	}
	var t table
	cpu := t.col(column{title: "CPUs, in steps", left: true, keep: 100})
	engine := t.col(column{title: "engine", keep: 90})
	bar := t.col(column{left: true, keep: 30, tight: true})
	others := t.col(column{title: "others", keep: 80})
	for i := range u.Each {
		if i == mostBatches && !p.o.Verbose {
			break
		}
		x := &u.Each[i]
		cpu.add(fmt.Sprintf("CPU %d", x.CPU))
		engine.add(format.Percent(&x.Engine))
		bar.add(p.o.bar(x.Engine, 1, 10))
		bar.style = append(bar.style, blue)
		others.add(format.Percent(x.Others))
	}
	p.blank()
	p.table(&t)
	if n := len(u.Each) - len(cpu.cells); n > 0 {
		p.line(fmt.Sprintf("+%d more CPUs: -v shows them", n), dim)
	}
	text := fmt.Sprintf("%s CPUs used on average", format.Decimal(&u.Busy))
	if of := mayUse(s); of > 0 && u.Utilisation != nil {
		text += fmt.Sprintf(" of %s: utilisation %s", format.Count(of), format.Percent(u.Utilisation))
	}
	p.line(text, dim)
}
