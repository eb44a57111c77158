// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/summary"
)

// expertLine summarises below a table what tokens of a phase chose.
func (p *page) expertLine(s *summary.Stat, f *summary.Phase, t *opTable) {
	e := f.Experts
	if e == nil || len(f.Rows) == 0 {
		return
	}
	if len(e.Layers) > 0 {
		t.note(strings.Join(p.expertFacts(s, f), "; ")+"; more: profinfer stat --by expert"+p.fileArg(), dim)
	}
	for _, n := range expertGaps(e) {
		t.note(n, warn)
	}
}

func (p *page) expertFacts(s *summary.Stat, f *summary.Phase) (facts []string) {
	e := f.Experts
	used, of := e.Layers[0].Used, e.Layers[0].Experts
	worst, at := 0.0, -1
	distinct := 0.0
	for i := range e.Layers {
		l := &e.Layers[i]
		if l.Used != used || l.Experts != of {
			used = 0
		}
		// with fewer choices some are frequent by chance
		if l.Imbalance > worst && l.Tokens*int64(l.Used) >= 2*int64(l.Experts) {
			worst, at = l.Imbalance, i
		}
		distinct += l.Distinct / float64(len(e.Layers))
	}
	if used > 0 {
		facts = append(facts, fmt.Sprintf("%s: a token uses %d of %d experts in each of %s", phaseName(s, f),
			used, of, format.Plural(int64(len(e.Layers)), "layer")))
	} else {
		facts = append(facts, fmt.Sprintf("%s: experts in %s", phaseName(s, f),
			format.Plural(int64(len(e.Layers)), "layer")))
	}
	if used > 0 && distinct > float64(used)+0.05 {
		facts = append(facts, fmt.Sprintf("%s distinct per batch", format.Table.Number(distinct)))
	}
	if e.Again != nil {
		facts = append(facts, fmt.Sprintf("%s reused from the previous token (random baseline %s)",
			format.Percent(e.Again), format.Percent(e.ByChance)))
	}
	if e.Bytes != nil && e.BytesAll != nil {
		facts = append(facts, fmt.Sprintf("%s of their %s read per step", format.Bytes(int64(*e.Bytes)),
			format.Bytes(int64(*e.BytesAll))))
	}
	if at >= 0 {
		where := ""
		if n := e.Layers[at].Layer; n != nil {
			where = fmt.Sprintf(" (layer %d)", *n)
		}
		facts = append(facts, fmt.Sprintf("max/mean load %s%s", format.Table.Number(worst+1),
			where))
	}
	return facts
}

// expertGaps says which choices are in no figure.
func expertGaps(e *experts.Stat) (out []string) {
	add := func(n int64, what string) {
		if n > 0 {
			out = append(out, format.Plural(n, "choice")+" "+what)
		}
	}
	add(e.Slots, "in places of the engine's cache of experts, not in experts: left out")
	add(e.NotSeen, "not wholly seen and left out")
	add(e.Dropped, "of more layers or experts than are kept")
	return out
}

// experts draws what tokens of a phase chose, by layer.
func (p *page) experts(s *summary.Stat, f *summary.Phase) {
	e := f.Experts
	p.blank()
	if e == nil {
		p.line(phaseName(s, f)+": no choice of experts was recorded: the model has none, --experts=false was given, or operators were not recorded", dim)
		return
	}
	if len(e.Layers) == 0 {
		p.gaps(e)
		return
	}
	p.line(strings.Join(p.expertFacts(s, f), "; "), bold)
	t := &table{}
	name := t.col(column{title: phaseName(s, f) + ", by layer", left: true, keep: 100})
	experts := t.col(column{title: "experts", keep: 50})
	used := t.col(column{title: "used", keep: 60})
	tokens := t.col(column{title: "tokens", keep: 55})
	distinct := t.col(column{title: "distinct per batch", keep: 65})
	again := t.col(column{title: "reused", keep: 80})
	busiest := t.col(column{title: "max/mean load", keep: 75})
	unused := t.col(column{title: "unused", keep: 70})
	wide := 0
	for i := range e.Layers {
		wide = max(wide, e.Layers[i].Experts)
	}
	limit := 64
	if p.o.Width > 0 {
		limit = max(8, min(128, p.o.Width-62))
	}
	heat := t.col(column{title: "load, expert 0 to " + strconv.Itoa(wide-1), left: true, keep: 90})
	for i := range e.Layers {
		l := &e.Layers[i]
		if l.Layer != nil {
			name.add("layer " + strconv.Itoa(*l.Layer))
		} else {
			name.add("no layer")
		}
		experts.add(strconv.Itoa(l.Experts))
		used.add(strconv.Itoa(l.Used))
		tokens.add(format.Count(l.Tokens))
		distinct.add(format.Table.Number(l.Distinct))
		again.add(format.Percent(l.Again))
		busiest.add(format.Table.Number(l.Imbalance+1) + "x")
		unused.add(strconv.Itoa(l.Unused))
		heat.add(p.o.heat(l.Load, limit))
	}
	p.table(t)
	p.line("load of an expert against the mean: "+p.o.heatKey(), dim)
	p.expertCache(e)
	p.expertProducts(s, f)
	p.gaps(e)
}

func (p *page) gaps(e *experts.Stat) {
	for _, n := range expertGaps(e) {
		p.line(n, warn)
	}
}

var (
	heatUnicode = []string{" ", "░", "▒", "▓", "█"}
	heatASCII   = []string{" ", ".", "-", "+", "#"}
	heatBelow   = []float64{0, 0.5, 1, 2} // relative to the mean: nothing, less than half, ...
)

func (o *Options) heatKey() string {
	c := either(o, heatUnicode, heatASCII)
	return fmt.Sprintf("blank none, %s below half, %s below it, %s up to twice, %s more", c[1], c[2], c[3],
		c[4])
}

// heat draws the load of experts relative to the mean, in at most columns columns: if there are more experts,
// each column is the largest of several.
func (o *Options) heat(load []int64, columns int) string {
	var sum int64
	for _, n := range load {
		sum += n
	}
	chars := either(o, heatUnicode, heatASCII)
	each := max(1, (len(load)+columns-1)/max(1, columns))
	var b strings.Builder
	for i := 0; i < len(load); i += each {
		var most int64
		for _, n := range load[i:min(len(load), i+each)] {
			most = max(most, n)
		}
		part := 0.0
		if sum > 0 {
			part = float64(most) * float64(len(load)) / float64(sum)
		}
		k := 0
		for k < len(heatBelow) && (part > heatBelow[k] || k > 0 && part == heatBelow[k] &&
			k < len(heatBelow)-1) {
			k++
		}
		b.WriteString(chars[k])
	}
	return b.String()
}

// expertCache describes the simulated hit rates of a cache of experts.
func (p *page) expertCache(e *experts.Stat) {
	var facts []string
	for _, c := range e.Cache {
		facts = append(facts, fmt.Sprintf("%d %s", c.Experts, format.Percent(&c.Hits)))
	}
	if len(facts) > 0 {
		p.line("simulated LRU cache, hit rate by experts per layer: "+strings.Join(facts, ", "), plain)
	}
}

// expertProducts draws matmul times by how many of their experts are new.
func (p *page) expertProducts(s *summary.Stat, f *summary.Phase) {
	e := f.Experts
	most, median, varied := -1, 0.0, false
	for i := range e.Products {
		varied = varied || e.Products[i].PerNew != nil
		for _, n := range e.Products[i].New {
			most = max(most, n.New)
			median = max(median, n.Median)
		}
	}
	// with one number of new experts there is nothing to compare: in prefill, a few matmuls of its last layer
	if !varied {
		return
	}
	most = min(most, 16)
	u := p.o.unitFor(median)
	t := &table{}
	title := phaseName(s, f) + ", median " + u.Name + " per matmul, by newly activated experts"
	above := p.o.Width > 0 && p.o.Width < 100 // no room for figures beside a long title
	if above {
		p.blank()
		p.line(title, bold)
		title = "matmul"
	}
	name := t.col(column{title: title, left: true, keep: 100, min: 20})
	typ := t.col(column{left: true, keep: 45})
	cols := make([]*column, most+1)
	for i := range cols {
		cols[i] = t.col(column{title: strconv.Itoa(i), keep: 60})
	}
	per := t.col(column{title: "cost per new expert", keep: 90})
	for i := range e.Products {
		w := &e.Products[i]
		name.add(p.o.clean(w.Weight))
		typ.add(p.o.clean(w.Type))
		row := make([]string, most+1)
		for _, n := range w.New {
			if n.New <= most {
				row[n.New] = u.Of(n.Median)
			}
		}
		for k := range cols {
			if row[k] == "" {
				row[k] = "-"
			}
			cols[k].add(row[k])
		}
		if w.PerNew == nil {
			per.add("-")
		} else if *w.PerNew < 1 { // ns: below the clock's resolution, or a matmul that does not take longer
			per.add("nothing")
		} else {
			per.add(p.o.duration(*w.PerNew))
		}
	}
	if !above {
		p.blank()
	}
	p.table(t)
}
