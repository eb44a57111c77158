// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/summary"
)

// boundPhrases say what bounds a phase.
var boundPhrases = map[summary.Bound]string{
	summary.BoundMemory: "memory-bound", summary.BoundCompute: "compute-bound",
	summary.BoundWait: "bound by barrier wait", summary.BoundDisk: "disk-bound",
	summary.BoundInterference: "contention-bound", summary.BoundOutside: "bound outside operators",
	summary.BoundMixed: "no single bottleneck",
}

// boundNames name a part of a phase's time.
var boundNames = map[summary.Bound]string{
	summary.BoundMemory: "memory", summary.BoundCompute: "compute", summary.BoundWait: "barrier wait",
	summary.BoundDisk: "disk", summary.BoundInterference: "CPU contention",
	summary.BoundOutside: "outside operators", summary.BoundUnknown: "not known",
}

// phaseKey is which phase of which model a phase or its verdict is of.
type phaseKey struct {
	phase string
	model int // -1: unknown
}

func keyOf(phase string, model *int) phaseKey {
	if model == nil {
		return phaseKey{phase, -1}
	}
	return phaseKey{phase, *model}
}

// phaseOrder returns the phases in the order of the verdicts, decode first.
func phaseOrder(s *summary.Stat) []*summary.Phase {
	of := make(map[phaseKey]*summary.Phase, len(s.Phases))
	for i := range s.Phases {
		of[keyOf(s.Phases[i].Phase, s.Phases[i].Model)] = &s.Phases[i]
	}
	var out []*summary.Phase
	add := func(k phaseKey) {
		if f := of[k]; f != nil {
			out = append(out, f)
			delete(of, k)
		}
	}
	for i := range s.Verdicts {
		add(keyOf(s.Verdicts[i].Phase, s.Verdicts[i].Model))
	}
	for i := range s.Phases {
		add(keyOf(s.Phases[i].Phase, s.Phases[i].Model))
	}
	return out
}

func verdictOf(s *summary.Stat, f *summary.Phase) *summary.Verdict {
	for i := range s.Verdicts {
		if v := &s.Verdicts[i]; keyOf(v.Phase, v.Model) == keyOf(f.Phase, f.Model) {
			return v
		}
	}
	return nil
}

// mainPhase is the phase that took most time of those whose operators were seen; nil: none. Decode is it as
// long as no other took more than twice its time.
func mainPhase(s *summary.Stat) (main *summary.Phase) {
	took := func(f *summary.Phase) int64 {
		if f.Phase == "decode" {
			return 2 * f.Dur
		}
		return f.Dur
	}
	for _, f := range phaseOrder(s) {
		if f.Ops > 0 && (main == nil || took(f) > took(main)) {
			main = f
		}
	}
	return main
}

// mostPhases is how many phases are shown: several processes have several each.
const mostPhases = 8

// shownPhases are the phases that tables show, the most important first.
func (p *page) shownPhases(s *summary.Stat) []*summary.Phase {
	order := phaseOrder(s)
	if p.o.Verbose || len(order) <= mostPhases {
		return order
	}
	return order[:mostPhases]
}

// phaseBlocks says of each phase what bounds it and how fast it is.
func (p *page) phaseBlocks(s *summary.Stat, most int) {
	order := phaseOrder(s)
	if f := mainPhase(s); f != nil && most < len(order) { // of it are the operators below
		order = slices.DeleteFunc(order, func(o *summary.Phase) bool { return o == f })
		order = slices.Insert(order, 0, f)
	}
	names := make([]string, len(order))
	indent := 0
	for i, f := range order {
		names[i] = p.o.clean(blockName(s, f))
		if i < most {
			indent = max(indent, textWidth(names[i])+2)
		}
	}
	for i, f := range order {
		if i == most && len(order) > most {
			p.line("+"+format.Plural(len(order)-i, "more phase")+": profinfer stat --full"+p.fileArg(), dim)
			break
		}
		p.hanging(names[i], indent, p.verdictText(s, f, indent), bold)
		p.items("", indent, p.latency(s, f), "   ")
	}
}

func blockName(s *summary.Stat, f *summary.Phase) string {
	name := phaseName(s, f)
	return strings.ToUpper(f.Phase) + name[len(f.Phase):]
}

// hanging writes a text behind a name, its further lines below the text.
func (p *page) hanging(name string, indent int, text, style string) {
	if text == "" {
		return
	}
	name, indent = p.narrow(name, indent)
	width := p.o.Width
	if width > 0 {
		width = max(width-indent, 1)
	}
	p.behind(name, indent, wrap(text, width, 0), style)
}

// items writes a list behind a name; its lines end behind whole items.
func (p *page) items(name string, indent int, list []string, sep string) {
	name, indent = p.narrow(name, indent)
	var lines []string
	line, end := "", strings.TrimRight(sep, " ")
	for _, t := range list {
		switch {
		case t == "":
		case line == "":
			line = t
		case p.o.Width > 0 && indent+textWidth(line+sep+t+end) > p.o.Width:
			lines = append(lines, line+end)
			line = t
		default:
			line += sep + t
		}
	}
	if line == "" {
		return
	}
	p.behind(name, indent, append(lines, line), plain)
}

// narrow gives a name a line of its own where there is no room behind it.
func (p *page) narrow(name string, indent int) (string, int) {
	if p.o.Width == 0 || p.o.Width-indent >= 30 {
		return name, indent
	}
	if name != "" {
		p.line(name, bold)
	}
	return "", 2
}

func (p *page) behind(name string, indent int, lines []string, style string) {
	for i, l := range lines {
		before := strings.Repeat(" ", indent)
		if i == 0 {
			before = p.o.style(name, bold) + strings.Repeat(" ", max(0, indent-textWidth(name)))
		}
		if p.o.Width > 0 && textWidth(l) > p.o.Width-indent { // an item that is longer than a line
			for _, l := range wrap(l, max(p.o.Width-indent, 1), 0) {
				p.b.WriteString(before + p.o.style(strings.TrimRight(l, " "), style))
				p.blank()
				before = strings.Repeat(" ", indent)
			}
			continue
		}
		p.b.WriteString(before + p.o.style(l, style))
		p.blank()
	}
}

// verdictText: "memory-bound (confidence: high): 24.6 of 39.5 GB/s, 62 % of peak; CPU contention 16 %".
func (p *page) verdictText(s *summary.Stat, f *summary.Phase, indent int) string {
	v := verdictOf(s, f)
	if v == nil || v.Bound == summary.BoundUnknown && f.Ops == 0 && len(f.Backends) == 0 {
		return "no verdict: operators were not recorded"
	}
	text := boundPhrases[v.Bound]
	if text == "" {
		text = "bound not known"
	}
	if v.Sure != "" {
		text += " (confidence: " + v.Sure + ")"
	}
	of := p.parted(v)
	if rate := p.achieved(f, v); rate != "" {
		if worked(v) {
			of = slices.Insert(of, 0, rate)
		} else {
			of = append(of, rate)
		}
	}
	sep := ": "
	for i, part := range of {
		if i > 0 && p.o.Width > 0 && indent+textWidth(text+sep+part) > p.o.Width {
			break // what says least
		}
		text, sep = text+sep+part, "; "
	}
	return text
}

// worked reports whether how fast a phase reads or computes is what matters most of it.
func worked(v *summary.Verdict) bool {
	return v.Bound == summary.BoundMemory || v.Bound == summary.BoundCompute ||
		v.Bound == summary.BoundUnknown
}

// achieved says what a phase reads or computes a second, and what part of the peak that is. Of a phase that
// neither bounds, decode tells what it reads and other phases what they compute.
func (p *page) achieved(f *summary.Phase, v *summary.Verdict) string {
	r := f.Compute
	if v.Bound == summary.BoundMemory || f.Phase == "decode" && v.Bound != summary.BoundCompute {
		r = f.Bandwidth
	}
	if r == nil {
		return ""
	}
	text := format.Sentence.Number(r.Achieved)
	if r.Peak != nil {
		text += " of " + format.Sentence.Number(*r.Peak)
	}
	text += " " + r.Unit
	if r.OfPeak != nil {
		text += ", " + format.Percent(r.OfPeak) + " of peak"
	}
	return text
}

// parted lists what else than the bound took a notable part of the phase's time.
func (p *page) parted(v *summary.Verdict) (parts []string) {
	for i := range v.Causes {
		c := &v.Causes[i]
		name := boundNames[c.Bound]
		if c.Share < notable || name == "" || c.Bound == summary.BoundUnknown {
			continue
		}
		if c.Bound == v.Bound && (v.Bound == summary.BoundMemory || v.Bound == summary.BoundCompute) {
			continue // the rate says it
		}
		parts = append(parts, name+" "+format.Percent(&c.Share))
	}
	return parts
}

// latency: "33.1 t/s", "TPOT p50 29.9  p95 31.2  p99 38.0 ms", "64 steps".
func (p *page) latency(s *summary.Stat, f *summary.Phase) []string {
	facts := []string{p.speed(f)}
	if t := p.spread("TPOT", f.TPOT); t != "" {
		facts = append(facts, t)
	}
	if q := s.Sequences; q != nil && q.AtOnce > 1 && f.Phase == "decode" {
		facts = append(facts, p.spread("ITL", q.TokenGap))
	}
	if f.Phase == "prefill" {
		facts = append(facts, p.ttft(s)...)
	}
	if v := verdictOf(s, f); f.MBU != nil && f.Phase == "decode" && v != nil && worked(v) {
		facts = append(facts, "MBU "+format.Percent(f.MBU))
	}
	n := format.Plural(f.Steps, "step")
	if f.Tokens != nil && *f.Tokens != f.Steps {
		n += ", " + format.Plural(*f.Tokens, "token")
	}
	facts = append(facts, n)
	if d := f.Disturbed; d != nil && d.LeftOut && f.UndisturbedTPS != nil && f.TokensPerS != nil &&
		*f.UndisturbedTPS > 1.05**f.TokensPerS && !found(s, f, "disturbed_steps") {
		facts = append(facts, fmt.Sprintf("%s t/s without %s", format.Rate(f.UndisturbedTPS),
			format.Plural(d.Steps, "disturbed step")))
	}
	return facts
}

// found reports whether a finding of a kind is about the phase: it says more.
func found(s *summary.Stat, f *summary.Phase, kind string) bool {
	return slices.ContainsFunc(s.Findings, func(x summary.Finding) bool {
		return x.Kind == kind && keyOf(x.Phase, x.Model) == keyOf(f.Phase, f.Model)
	})
}

// speed is tokens per second, end to end where that is known: with the time between steps.
func (p *page) speed(f *summary.Phase) string {
	switch {
	case f.EndToEndTPS != nil && f.TokensPerS != nil && *f.TokensPerS > 1.02**f.EndToEndTPS:
		return format.Rate(f.EndToEndTPS) + " t/s end to end (in steps " + format.Rate(f.TokensPerS) + ")"
	case f.EndToEndTPS != nil:
		return format.Rate(f.EndToEndTPS) + " t/s end to end"
	case f.TokensPerS != nil:
		return format.Rate(f.TokensPerS) + " t/s"
	}
	return "t/s not known"
}

// spread: "TPOT p50 29.9  p95 31.2  p99 38.0  max 41.0 ms", in the unit of the median; empty if unknown.
func (p *page) spread(name string, d *requests.Spread) string {
	if d == nil {
		return ""
	}
	if d.N == 1 {
		return name + " " + p.o.duration(d.Max)
	}
	median := p.o.duration(d.P50)
	unit := format.Unit{}
	for _, u := range []format.Unit{{Name: "s", NS: 1e9}, {Name: "ms", NS: 1e6}, {Name: p.o.micro("µs"), NS: 1e3}} {
		if strings.HasSuffix(median, " "+u.Name) {
			unit = u
			break
		}
	}
	own := unit.NS == 0 || d.Max >= 1e4*unit.NS // each has its unit
	text := name
	add := func(q string, v *float64) {
		switch {
		case v == nil:
		case own:
			text += " " + q + " " + p.o.duration(*v) + " "
		default:
			text += " " + q + " " + format.Table.Number(*v/unit.NS) + " "
		}
	}
	add("p50", &d.P50)
	add("p95", d.P95)
	add("p99", d.P99)
	add("max", &d.Max)
	text = strings.TrimSpace(text)
	if !own {
		text += " " + unit.Name
	}
	return text
}

// fewestValues is of how many values a median is given.
const fewestValues = 5

// ttft gives times to first token by length of prompt, the longest first.
func (p *page) ttft(s *summary.Stat) []string {
	if s.Sequences == nil {
		return nil
	}
	var out []string
	list := s.Sequences.TTFTByPrompt
	for i := len(list) - 1; i >= 0; i-- {
		c := &list[i]
		if c.TTFT == nil {
			continue
		}
		if len(out) == 2 && i > 0 {
			out = append(out, fmt.Sprintf("+%d more lengths of prompt", i+1))
			break
		}
		of := format.Plural(c.To, "token")
		if c.TTFT.N > 1 {
			if c.From < c.To {
				of = p.o.atMost() + of
			}
			of += ", n=" + format.Count(c.TTFT.N)
		}
		text := strings.TrimSpace(p.spread("", c.TTFT))
		switch n := c.TTFT.N; { // too few for a median
		case n == 2 && c.TTFT.P50 < c.TTFT.Max:
			text = p.between(c.TTFT.P50, c.TTFT.Max)
		case n == 2:
			text = p.o.duration(c.TTFT.Max)
		case n < fewestValues && n > 2:
			text = "at most " + p.o.duration(c.TTFT.Max)
		}
		out = append(out, text+" ("+of+")")
	}
	if len(out) > 0 {
		out[0] = "TTFT " + out[0]
	}
	return out
}

// between: "30.1 to 51.3 ms".
func (p *page) between(least, most float64) string {
	a, b := p.o.duration(least), p.o.duration(most)
	if i := strings.LastIndexByte(a, ' '); i >= 0 && strings.HasSuffix(b, a[i:]) {
		a = a[:i]
	}
	return a + " to " + b
}

// notable is the part of a phase's time below which something is left to --full.
const notable = 0.05

// topFindings draws the findings with the largest possible gain.
func (p *page) topFindings(s *summary.Stat, most int) {
	said := 0
	for i := range s.Findings {
		f := &s.Findings[i]
		if f.Gain == nil || said == most {
			return
		}
		if f.GainShare != nil && *f.GainShare < notable {
			continue
		}
		said++
		p.line(p.said(f.Text), plain)
	}
}

// split says where the main phase's time goes, and its threads'.
func (p *page) split(s *summary.Stat) {
	f := mainPhase(s)
	if f == nil {
		return
	}
	share := func(name string, v *float64, least float64) string {
		if v == nil || *v < least {
			return ""
		}
		return name + " " + format.Percent(v)
	}
	step := phaseName(s, f) + " step " + p.o.duration(float64(f.TracedDur)/float64(max(1, f.Traced)))
	parts := []string{share("weight matmul", f.MatMul, 0), share("attention", f.Attn, 0),
		share("other", f.Other, 0)}
	if b := backendTitle(s); b != "" {
		parts = append(parts, share(p.name(b), f.Backend, 0))
	}
	parts = append(parts, share("outside operators", f.GapShare, 0), share("probes", f.ProbeShare, 0.015))
	head := max(textWidth(step), textWidth("thread time")) + 2
	p.items(step, head, parts, "  ")
	if f.Wait == nil {
		return
	}
	parts = []string{share("busy", busyShare(f), 0), share("barrier wait", f.Wait, 0),
		share("off-CPU", f.OffCPU, 0)}
	p.items("thread time", head, parts, "  ")
}
