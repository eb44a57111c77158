// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/peaks"
)

// Peaks draws a machine's roofline: a sentence, a table of the points, each loop's rate if Verbose, warnings. now
// is the time from which its age is computed. It returns w's errors.
func Peaks(w io.Writer, r *peaks.Peaks, now time.Time, o Options) error {
	p := &page{o: o}
	p.peaksTitle(r, now)
	p.peaksFindings(r)
	p.blank()
	p.peaksTable("threads", r.Points)
	for i := range r.Kinds {
		k := &r.Kinds[i]
		p.blank()
		p.line(fmt.Sprintf("%s: CPUs %s", p.o.clean(k.Name), list(k.CPUs)), bold)
		p.peaksTable("threads", k.Points)
	}
	if o.Verbose && len(r.Kernels) > 0 {
		p.blank()
		p.kernels(r)
	}
	if len(r.Warnings) > 0 {
		p.blank()
		for _, s := range r.Warnings {
			p.line("warning: "+p.o.clean(s), warn)
		}
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

func (p *page) peaksTitle(r *peaks.Peaks, now time.Time) {
	m := &r.Machine
	var facts []string
	if m.Model != "" {
		facts = append(facts, p.o.clean(m.Model))
	}
	facts = append(facts, format.Plural(int64(m.CPUs), "CPU"))
	if m.Memory > 0 {
		facts = append(facts, format.Bytes(m.Memory)+" memory")
	}
	if m.Cache > 0 {
		facts = append(facts, format.Bytes(m.Cache)+" last-level cache")
	}
	facts = append(facts, "measured "+r.Measured.UTC().Format("2006-01-02 15:04 MST")+
		age(now.Sub(r.Measured)))
	p.parts(facts)
}

// age formats how long ago something was, in the largest suitable unit.
func age(d time.Duration) string {
	switch {
	case d < time.Hour:
		return ""
	case d < 48*time.Hour:
		return fmt.Sprintf(" (%s ago)", format.Plural(int64(d/time.Hour), "hour"))
	}
	return fmt.Sprintf(" (%s ago)", format.Plural(int64(d/(24*time.Hour)), "day"))
}

func (p *page) peaksFindings(r *peaks.Peaks) {
	if len(r.Points) == 0 {
		return
	}
	last := &r.Points[len(r.Points)-1]
	var parts []string
	add := func(f *peaks.Figure, text string) {
		if f != nil {
			parts = append(parts, fmt.Sprintf(text, format.Decimal(&f.Best)))
		}
	}
	add(last.Read, "reads %s GB/s")
	add(last.F32, "computes %s GFLOP/s in f32")
	add(last.Int8, "%s GOP/s in 8-bit dot products")
	if len(parts) > 0 {
		text := parts[0]
		if n := len(parts); n > 1 {
			text = strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
		}
		p.line(fmt.Sprintf("With %s this machine %s, at most.", format.Plural(int64(last.Threads), "thread"),
			text), bold)
	}
	if last.Read != nil && last.F32 != nil {
		ridge := last.F32.Best / last.Read.Best
		p.line(fmt.Sprintf("Ridge point: %s FLOP/byte in f32%s. Work of lower arithmetic intensity is memory-bound.", format.Decimal(&ridge), ridgeInt8(last)), plain)
	}
}

func ridgeInt8(pt *peaks.Point) string {
	if pt.Int8 == nil {
		return ""
	}
	ridge := pt.Int8.Best / pt.Read.Best
	return fmt.Sprintf(", %s operations per byte in 8-bit dot products", format.Decimal(&ridge))
}

func list(ids []int) string {
	var out []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if j == i {
			out = append(out, fmt.Sprint(ids[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

func (p *page) peaksTable(first string, points []peaks.Point) {
	var t table
	threads := t.col(column{title: first})
	type figure struct {
		title string
		keep  int
		of    func(*peaks.Point) *peaks.Figure
	}
	for _, pt := range points {
		threads.add(fmt.Sprint(pt.Threads))
	}
	for _, f := range []figure{
		{"read GB/s", 90, func(pt *peaks.Point) *peaks.Figure { return pt.Read }},
		{"one stream", 75, func(pt *peaks.Point) *peaks.Figure { return pt.Stream }},
		{"f32 GFLOP/s", 80, func(pt *peaks.Point) *peaks.Figure { return pt.F32 }},
		{"f16 GFLOP/s", 50, func(pt *peaks.Point) *peaks.Figure { return pt.F16 }},
		{"bf16 GFLOP/s", 40, func(pt *peaks.Point) *peaks.Figure { return pt.BF16 }},
		{"int8 GOP/s", 70, func(pt *peaks.Point) *peaks.Figure { return pt.Int8 }},
		{"bf16 matrix", 30, func(pt *peaks.Point) *peaks.Figure { return pt.BF16Matrix }},
		{"int8 matrix", 35, func(pt *peaks.Point) *peaks.Figure { return pt.Int8Matrix }},
	} {
		value := t.col(column{title: f.title, keep: f.keep})
		spread := t.col(column{title: "median", keep: f.keep - 25, tight: true})
		for i := range points {
			v := f.of(&points[i])
			if v == nil {
				value.add("-")
				spread.add("-")
				value.style, spread.style = append(value.style, plain), append(spread.style, plain)
				continue
			}
			value.add(format.Decimal(&v.Best))
			style := plain
			if v.Doubtful() {
				style = warn
			}
			value.style = append(value.style, style)
			spread.add(below(v.Median/v.Best - 1))
			spread.style = append(spread.style, dim)
		}
	}
	clock := t.col(column{title: "GHz", keep: 60})
	cycle := t.col(column{title: "f32 flop/cycle", keep: 55})
	for i := range points {
		pt := &points[i]
		if pt.GHz == nil || pt.F32 == nil {
			clock.add("-")
			cycle.add("-")
			continue
		}
		clock.add(fmt.Sprintf("%.2f", *pt.GHz))
		per := pt.F32.Best / *pt.GHz / float64(pt.Threads)
		cycle.add(format.Decimal(&per))
	}
	p.table(&t)
}

// below formats how far the median trial is below the best.
func below(v float64) string {
	return difference(v*100, false) + " %"
}

func (p *page) kernels(r *peaks.Peaks) {
	p.line("loops, one thread", bold)
	var t table
	what := t.col(column{title: "what", left: true})
	kernel := t.col(column{title: "loop", left: true, min: 8})
	value := t.col(column{title: "rate", keep: 90})
	unit := t.col(column{left: true, keep: 80, tight: true})
	for _, k := range r.Kernels {
		what.add(p.o.clean(string(k.What)))
		kernel.add(p.o.clean(k.Kernel))
		value.add(format.Decimal(&k.Rate))
		switch k.What {
		case peaks.Read, peaks.Stream:
			unit.add("GB/s")
		case peaks.Int8, peaks.Int8Matrix:
			unit.add("GOP/s")
		default:
			unit.add("GFLOP/s")
		}
	}
	p.table(&t)
}
