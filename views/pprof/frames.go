// SPDX-License-Identifier: Apache-2.0

package pprof

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/profinfer/profinfer/internal/clean"
	model "github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/summary"
)

// sampleTypes describe a stack's values, the default one first.
var sampleTypes = []*profile.ValueType{
	{Type: "time", Unit: "nanoseconds"}, // in which it ran; see the package's comment
	{Type: "busy", Unit: "nanoseconds"}, // this and the next two: sums over threads
	{Type: "wait", Unit: "nanoseconds"},
	{Type: "off_cpu", Unit: "nanoseconds"},
	{Type: "calls", Unit: "count"},
	{Type: "bytes", Unit: "bytes"},
	{Type: "flops", Unit: "flop"},
}

// Frames that are not operators.
const (
	frameProbes  = "probes (estimate)"
	frameRest    = "outside operators"
	frameGraphs  = "outside graphs"
	frameAlone   = "operators not recorded"
	frameOthers  = "other operators (too many for frames of their own)"
	frameNoLayer = "no layer"
	frameOutside = "outside steps"
	frameFor     = ", for another process" // follows a phase
)

// maxName is how many bytes of a name are shown.
const maxName = 200

// drawing is a profile under construction.
type drawing struct {
	p     *profile.Profile
	names map[string]*profile.Location
}

// frame returns the location of a name. Each name is one function at an unknown place.
func (d *drawing) frame(name string) *profile.Location {
	name = clean.Short(name, maxName)
	l := d.names[name]
	if l == nil {
		id := uint64(len(d.p.Function) + 1)
		f := &profile.Function{ID: id, Name: name}
		l = &profile.Location{ID: id, Mapping: d.p.Mapping[0], Line: []profile.Line{{Function: f}}}
		d.p.Function, d.p.Location = append(d.p.Function, f), append(d.p.Location, l)
		d.names[name] = l
	}
	return l
}

// sample adds a stack, named from its root. It omits a stack without any value.
func (d *drawing) sample(v *values, names ...string) {
	list := v.list()
	if !slices.ContainsFunc(list, func(n int64) bool { return n != 0 }) {
		return
	}
	s := &profile.Sample{Value: list}
	for i := len(names) - 1; i >= 0; i-- { // the leaf comes first
		if names[i] != "" {
			s.Location = append(s.Location, d.frame(names[i]))
		}
	}
	d.p.Sample = append(d.p.Sample, s)
}

// shown is a group that is drawn: a phase of one model.
type shown struct {
	phase   model.Phase
	outside bool
	model   int // -1: unknown
	pid     int32
	whole   group
	partial group
}

// drawn returns which group is drawn, and whether its steps are incomplete.
func (s *shown) drawn() (g *group, partial bool) {
	if s.whole.steps == 0 && s.partial.steps > 0 {
		return &s.partial, true
	}
	return &s.whole, false
}

// shown merges groups whose models turned out to be one, in drawing order.
func (e *exporter) shown() []*shown {
	e.book.List() // fixes their order
	keys := slices.SortedFunc(maps.Keys(e.groups), func(a, b key) int {
		return cmp.Compare(e.groups[a].number, e.groups[b].number)
	})
	var list []*shown
	for _, k := range keys {
		m := -1
		if !k.outside {
			m = e.book.Index(k.model)
		}
		at := slices.IndexFunc(list, func(s *shown) bool {
			return s.phase == k.phase && s.outside == k.outside && s.model == m && (m >= 0 || s.pid == k.pid)
		})
		if at < 0 {
			at = len(list)
			list = append(list, &shown{phase: k.phase, outside: k.outside, model: m, pid: k.pid})
		}
		if k.partial {
			list[at].partial.merge(e.groups[k])
		} else {
			list[at].whole.merge(e.groups[k])
		}
	}
	rank := map[model.Phase]int{model.Prefill: 0, model.Decode: 1, model.Encode: 2, model.Unknown: 3}
	slices.SortStableFunc(list, func(a, b *shown) int {
		out := func(s *shown) int {
			if s.outside {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(out(a), out(b)), cmp.Compare(uint(a.model), uint(b.model)),
			cmp.Compare(a.pid, b.pid), cmp.Compare(rank[a.phase], rank[b.phase]))
	})
	return list
}

// profile draws all that was seen. stat reports what was not.
func (e *exporter) profile(h *model.Header, stat *summary.Stat) *profile.Profile {
	list := e.shown()
	d := &drawing{names: map[string]*profile.Location{},
		p: &profile.Profile{SampleType: sampleTypes, DefaultSampleType: sampleTypes[0].Type,
			// All names are in the profile: there is no file to look them up in.
			Mapping: []*profile.Mapping{{ID: 1, File: program(stat), HasFunctions: true, HasFilenames: true,
				HasLineNumbers: true, HasInlineFrames: true}}}}
	from, to := h.Shown()
	if to > from {
		d.p.DurationNanos = to - from
	}
	if m := &h.Meta; m.Realtime > 0 && m.Start > 0 && from > 0 {
		d.p.TimeNanos = m.Realtime + from - m.Start
	}
	f := h.Meta.Filter()
	filtered := f.PartOfSteps()
	roots := e.roots(list, stat)
	for i, s := range list {
		g, _ := s.drawn()
		phase := string(s.phase)
		switch {
		case s.outside && s.phase != model.Unknown:
			phase += frameFor
		case s.outside:
			phase = frameOutside
		case s.phase == model.Unknown:
			phase = "unknown"
		}
		d.group(g, roots[i], phase, filtered)
	}
	d.p.Comments = e.comments(stat, list, roots)
	return d.p
}

// group draws a group's stacks below its root (if any) and phase.
func (d *drawing) group(g *group, root, phase string, filtered bool) {
	stacks := slices.SortedFunc(maps.Keys(g.ops), func(a, b *stack) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.block, b.block),
			cmp.Compare(a.name, b.name), cmp.Compare(a.op, b.op), cmp.Compare(a.typ, b.typ))
	})
	for _, s := range stacks {
		if s == others {
			d.sample(g.ops[s], root, phase, frameOthers)
			continue
		}
		layer := frameNoLayer
		if s.layer >= 0 {
			layer = fmt.Sprintf("layer %d", s.layer)
		}
		d.sample(g.ops[s], root, phase, layer, string(s.block), s.text())
	}
	for _, name := range slices.Sorted(maps.Keys(g.graphs)) {
		d.sample(g.graphs[name], root, phase, strings.TrimSpace("graph "+name))
	}
	rest := frameRest
	if filtered { // missing time is not time outside operators
		rest = frameAlone
	}
	d.sample(&values{time: g.probe}, root, phase, frameProbes)
	d.sample(&values{time: g.restOps}, root, phase, rest)
	d.sample(&values{time: g.restGraphs}, root, phase, frameGraphs)
	d.sample(&values{time: g.alone}, root, phase, frameAlone)
}

// text names an operator: "ffn_down (MUL_MAT q4_0)", "kq (MUL_MAT)", "ADD".
func (s *stack) text() string {
	op := s.op
	if op == "" {
		op = "operator"
	}
	switch {
	case s.name == "" || s.name == s.op:
		return op
	case s.typ != "":
		op += " " + s.typ
	}
	if name, ok := strings.CutSuffix(s.name, ")"); ok { // "output (token_embd)"
		return name + ", " + op + ")"
	}
	return s.name + " (" + op + ")"
}

// roots returns for each group a frame that names its owner; empty if there is only one model and process.
func (e *exporter) roots(list []*shown, stat *summary.Stat) []string {
	type owner struct {
		model int
		pid   int32
	}
	owners, pids := map[owner]bool{}, map[int32]bool{}
	for _, s := range list {
		if s.model >= 0 || !s.outside {
			owners[owner{s.model, s.pid}] = true
		}
		pids[s.pid] = true
	}
	roots := make([]string, len(list))
	if len(owners) < 2 && len(pids) < 2 {
		return roots
	}
	seen := map[string]owner{}
	for i, s := range list {
		name := ""
		if s.model >= 0 && s.model < len(stat.Models) {
			name = modelText(&stat.Models[s.model])
		}
		if len(pids) > 1 || name == "" {
			name = strings.TrimSpace(name + " " + processText(stat, s.pid))
		}
		o := owner{s.model, s.pid}
		if other, ok := seen[name]; ok && other != o { // two models with equal names
			name += fmt.Sprintf(" #%d", s.model+1)
		}
		seen[name] = o
		roots[i] = name
	}
	return roots
}

func modelText(m *facts.Model) string {
	parts := []string{cmp.Or(m.Family, "model")}
	if m.Layers > 0 {
		parts = append(parts, fmt.Sprintf("%d layers", m.Layers))
	}
	if m.Width != nil {
		parts = append(parts, fmt.Sprintf("%d wide", *m.Width))
	}
	if len(m.Types) > 0 {
		parts = append(parts, m.Types[0].Type)
	}
	return strings.Join(parts, " ")
}

func processText(stat *summary.Stat, pid int32) string {
	for i := range stat.Run.Processes {
		if p := &stat.Run.Processes[i]; p.PID == pid && p.Comm != "" {
			return fmt.Sprintf("%s [%d]", p.Comm, pid)
		}
	}
	return fmt.Sprintf("process [%d]", pid)
}

// program names the profile as a whole.
func program(stat *summary.Stat) string {
	for i := range stat.Run.Processes {
		if p := &stat.Run.Processes[i]; p.Comm != "" && (p.Steps > 0 || len(stat.Run.Processes) == 1) {
			// must never be a file for pprof to open
			return clean.Short(strings.ReplaceAll(p.Comm, "/", "_"), maxName)
		}
	}
	return "profinfer"
}

func seconds(ns int64) string { return fmt.Sprintf("%.3f s", float64(ns)/1e9) }

// comments describe the profile's source, how its times add up, and what was not seen.
func (e *exporter) comments(stat *summary.Stat, list []*shown, roots []string) []string {
	var out []string
	say := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	most := func(s string) string { return clean.Short(s, 1000) }
	run := &stat.Run
	if len(run.Command) > 0 {
		say("command: %s", most(strings.Join(run.Command, " ")))
	}
	for i := range run.Processes {
		if p := &run.Processes[i]; i < 8 {
			say("process %d: %s, %s %s, ggml %s", p.PID, most(p.Comm), most(p.Engine), most(p.EngineVersion),
				most(p.GGMLVersion))
		}
	}
	if run.CPU != "" {
		say("machine: %s, %d cores, Linux %s", most(run.CPU), run.Cores, most(run.Kernel))
	}
	say("recorded by profinfer %s, level %s", most(run.Tool), most(run.Level))
	say("time: what was recorded of steps adds up to their time, each moment counted once; busy, wait, off_cpu: sums over threads")
	if !stat.HasOffCPU {
		say("off_cpu: not recorded; busy holds it")
	}
	if run.Part != "" {
		say("a part of the recording: %s", run.Part)
	}
	if run.Filter != "" {
		say("recorded with a filter: %s", most(run.Filter))
	}
	for i, s := range list {
		if s.outside {
			continue
		}
		g, partial := s.drawn()
		name := strings.TrimSpace(clean.Short(roots[i], maxName) + " " + cmp.Or(string(s.phase), "unknown"))
		say("%s: %d steps, %s; %d of them are in this profile, %s", name, g.steps, seconds(g.dur), g.traced,
			seconds(g.tracedDur))
		if partial {
			say("not seen: none of these %s steps was wholly seen: figures can be too low", name)
		} else if s.partial.steps > 0 {
			say("not seen: %d further %s steps were not wholly seen and are left out", s.partial.steps, name)
		}
	}
	for _, u := range stat.Lost.Untraced {
		say("not seen: operators of %d steps (%s); the steps are left out", u.Steps, most(u.Why))
	}
	for i := range stat.Lost.ByWhy {
		if l := &stat.Lost.ByWhy[i]; i < 16 {
			say("not seen: %s %s, %d events in %d spans, %s", most(l.What), most(l.Why), l.Events, l.Spans,
				seconds(l.Dur))
		}
	}
	for _, n := range []struct {
		n    int64
		text string
	}{{stat.Lost.IncompleteOps, "operators of which not all threads were seen"}, {stat.Lost.UnknownShapes,
		"graph executions without a definition"},
		{stat.Lost.PartShapes, "graph executions whose definition has holes"}, {e.dropped,
			"operators of steps whose end did not come, left out"},
		{e.noBytes, "operators whose bytes are not known, counted as 0"}, {e.noFlops,
			"operators whose flops are not known, counted as 0"},
		{e.atMost, "operators of whose bytes only an upper estimate is known"}} {
		if n.n > 0 {
			say("%d %s", n.n, n.text)
		}
	}
	if stat.Lost.Torn != "" {
		say("the recording is damaged: %s", most(stat.Lost.Torn))
	}
	if stat.Lost.Cut {
		say("the recording did not end in good order")
	}
	for i, n := range run.Notes {
		if i < 16 {
			say("note: %s", most(n))
		}
	}
	return out
}
