// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"fmt"
	"slices"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// fileFacts is what was read from one file. It is shared by all processes that map it.
type fileFacts struct {
	base     *baseFacts
	baseErr  error
	cpu      *cpuFacts
	cpuErr   error
	llama    *llamaFacts
	llamaErr error
	whisper  *llamaFacts
	sched    []engine.Site
	schedErr error
	copies   []engine.Site
	left     error // why it could not be read to the end: the rest is unreliable
}

type factsKey struct {
	id    target.FileID
	path  string
	flags int // offset of a tensor's flags, from the base library
}

// maxFacts bounds the number of files whose facts are remembered.
const maxFacts = 256

// factsOf returns the facts of a file, read now or before. If it could not be read to the end, they are kept
// only if that is the file's own fault.
func (g *Engine) factsOf(f *file, flags int, read func() *fileFacts) *fileFacts {
	key := factsKey{f.ID, f.Path, flags}
	keep := f.ID != (target.FileID{})
	if keep {
		g.mu.Lock()
		known := g.facts[key]
		g.mu.Unlock()
		if known != nil {
			return known
		}
	}
	facts := read()
	facts.left = f.ELF.Trouble()
	var l *target.LimitError
	if !keep || facts.left != nil && (!errors.As(facts.left, &l) || l.Shared) {
		return facts
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.facts) >= maxFacts {
		clear(g.facts)
	}
	g.facts[key] = facts
	return facts
}

// PlanFiles makes the plan for a process that has exactly these files mapped. It works before all of them are
// present (the CPU library, for one, is loaded late): Warnings lists what is missing, and a new plan is made
// when files are added. The error is *[engine.NotFound] or *[engine.Incomplete], or says which file could not
// be understood.
func (g *Engine) PlanFiles(files []engine.OpenedFile) (*engine.Plan, error) {
	in := make([]file, len(files))
	for i := range files {
		in[i].OpenedFile = files[i]
	}
	return g.plan(in, nil)
}

// plan makes a plan; left says why other files of the process are missing here.
func (g *Engine) plan(files []file, left []error) (*engine.Plan, error) {
	files, err := detect(files)
	if err != nil {
		return nil, err
	}
	p := &engine.Plan{Engine: "ggml"}
	b, base, err := g.planBase(p, files)
	if err != nil {
		return nil, err
	}
	p.Arch = files[base].ELF.Arch
	p.Layout = baseLayout(b)
	p.Library, p.LibraryVersion, p.LibraryCommit = "ggml", b.version, b.commit
	var cpus []*cpuFacts
	var batch *batchLayout
	var unread []error // of schedulers
	left = slices.Clone(left)
	for i := range files {
		f := &files[i]
		if f.ELF.Arch != p.Arch {
			p.Warnings = append(p.Warnings,
				engine.Warning{Text: fmt.Sprintf("%s is of another architecture (%s) and left out", f.Path,
					f.ELF.Arch)})
			continue
		}
		facts := g.factsOf(f, b.tensor.flags, func() *fileFacts {
			return readFile(f.ELF, f.parts, b.tensor.flags)
		})
		if facts.left != nil {
			left = leave(left, facts.left)
			continue
		}
		index := len(p.Files)
		p.Files = append(p.Files, f.File)
		add := func(sites []engine.Site) {
			for _, s := range sites {
				s.File = index
				p.Sites = append(p.Sites, s)
			}
		}
		// One file can define the same functions as another that was loaded earlier and whose functions are
		// called: whichever is used is hit.
		add(facts.sched)
		for _, s := range facts.copies {
			s.File = index
			p.Copies = append(p.Copies, s)
		}
		if facts.schedErr != nil {
			unread = append(unread, facts.schedErr)
		}
		if c := facts.cpu; c != nil {
			add(c.sites)
			cpus = append(cpus, c)
			p.Findings = append(p.Findings, c.find...)
			p.Warnings = append(p.Warnings, c.warnings...)
		} else if facts.cpuErr != nil {
			p.Warnings = append(p.Warnings,
				engine.Warning{Text: "operators on CPUs cannot be seen: " + facts.cpuErr.Error(),
					Level: engine.LevelGraph})
		}
		if l := facts.llama; l != nil {
			add(l.sites)
			p.Engine, p.EngineVersion, batch = "llama.cpp", l.version, &l.batch
			p.Findings = append(p.Findings, l.find...)
			p.Warnings = append(p.Warnings, l.warnings...)
		} else if facts.llamaErr != nil {
			p.Warnings = append(p.Warnings,
				engine.Warning{Text: "steps cannot be seen: " + facts.llamaErr.Error()})
		}
		if w := facts.whisper; w != nil && p.Engine != "llama.cpp" {
			p.Engine, p.EngineVersion = "whisper.cpp", w.version
			p.Findings = append(p.Findings, w.find...)
		}
	}
	planThreads(p, cpus)
	if batch != nil {
		batchInto(&p.Layout, batch)
	}
	d := newDecoder(b, flagged(b, cpus))
	p.Decode, p.Operators = d, d.operators()
	if op, ok := p.Operators["MUL_MAT_ID"]; ok {
		p.Layout.ChooseOp, p.Layout.ChooseSrc = uint16(op), 2 // ggml_mul_mat_id(as, b, ids)
	}
	p.Features = featuresOf(p)
	p.Warnings = append(p.Warnings, missing(p, files, cpus, unread)...)
	p.LeftOut = errors.Join(left...)
	for _, err := range left {
		// an engine with everything present lacks at most another backend
		p.Warnings = append(p.Warnings,
			engine.Warning{Text: "a file is left out: " + err.Error(), Elsewhere: whole(p)})
	}
	return p, nil
}

// featuresOf returns what a plan can do. An inlined barrier does not reveal its thread pool.
func featuresOf(p *engine.Plan) engine.Features {
	f := engine.Features{Definitions: true, Routing: p.Layout.ChooseOp != engine.Absent}
	poolless := false
	for i := range p.Sites {
		switch s := &p.Sites[i]; s.Role {
		case engine.RoleOpEnd:
			f.Lockstep = true
			poolless = poolless || s.A.Kind == engine.ArgNone
		case engine.RoleStepBegin:
			f.Batches = f.Batches || s.Batch != engine.BatchNone
		case engine.RoleSchedBegin:
			f.Schedulers = true
		}
	}
	f.Lockstep = f.Lockstep && !poolless
	return f
}

// planBase finds the base library and reads it.
func (g *Engine) planBase(p *engine.Plan, files []file) (*baseFacts, int, error) {
	var b *baseFacts
	var bad, left error // errors of the first that cannot be read
	at := -1
	for i := range files {
		f := &files[i]
		if f.parts&PartBase == 0 {
			continue
		}
		if at >= 0 {
			p.Warnings = append(p.Warnings,
				engine.Warning{Text: fmt.Sprintf("two base libraries of ggml are loaded, %s and %s: layouts are those of the first", files[at].Path, f.Path)})
			continue
		}
		facts := g.factsOf(f, unknown-1, func() *fileFacts {
			x := &fileFacts{}
			x.base, x.baseErr = readBase(newLib(f.ELF))
			return x
		})
		switch {
		case facts.left == nil && facts.baseErr == nil:
			b, at = facts.base, i
		case facts.left != nil: // reported with the files that are left out
			left = first(left, facts.left)
		default:
			bad = first(bad, facts.baseErr)
		}
	}
	if b == nil {
		return nil, 0, first(bad, left, errIncomplete)
	}
	if bad != nil {
		p.Warnings = append(p.Warnings, engine.Warning{Text: bad.Error()})
	}
	p.Findings = append(p.Findings, b.find...)
	p.Warnings = append(p.Warnings, b.warnings...)
	return b, at, nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// readFile reads everything from a file except the base library's layouts.
func readFile(e *target.ELF, parts Part, flags int) *fileFacts {
	x, l := &fileFacts{}, newLib(e)
	if fn, ok := l.fn(schedCompute); ok {
		x.sched, x.schedErr = l.schedSites(fn)
	}
	if parts&PartBase != 0 {
		x.copies = l.copySites()
	}
	if parts&PartCPU != 0 {
		x.cpu, x.cpuErr = readCPU(l, flags)
	}
	if parts&PartLlama != 0 {
		x.llama, x.llamaErr = readLlama(l)
	}
	if parts&PartWhisper != 0 {
		x.whisper = &llamaFacts{}
		x.whisper.readVersion(l, "whisper_version")
	}
	return x
}

// schedSites plans the scheduler's begin and, where that is cheap, its end: a profile can do without the end,
// as the graphs inside have theirs.
func (l *lib) schedSites(fn uint64) ([]engine.Site, error) {
	begin := engine.Site{Role: engine.RoleSchedBegin, A: reg(0), B: reg(1), Entry: schedCompute}
	sites, err := l.span(fn, "", begin, engine.RoleSchedEnd, 0, 1)
	if err != nil && !errors.Is(err, errNoEnd) {
		return nil, fmt.Errorf("%s: %s: %w", l.e.Name, schedCompute, err)
	}
	return slices.DeleteFunc(sites, func(s engine.Site) bool {
		return s.Role == engine.RoleSchedEnd && s.Warning != ""
	}), nil
}

// flagged reports whether tensors without the COMPUTE flag are skipped, as the operator loop tests it.
// Without a known CPU library, all count as run.
func flagged(b *baseFacts, cpus []*cpuFacts) bool {
	return b.tensor.flags != unknown && slices.ContainsFunc(cpus, func(c *cpuFacts) bool { return c.tests })
}

func baseLayout(b *baseFacts) engine.Layout {
	t := &b.tensor
	at := func(off int) uint16 {
		if off < 0 {
			return engine.Absent
		}
		return uint16(off)
	}
	size := min(t.size, maxTensor)
	l := engine.Layout{
		GraphNNodes: at(b.graphN), GraphNodes: at(b.graphNodes), GraphUID: at(b.graphUID),
		TensorSize: uint16(size), TensorSrc: at(t.src), MaxSrc: uint16(t.maxSrc),
		TensorViewSrc: at(t.viewSrc), TensorOp: at(t.op),
		TensorFlags: at(t.flags), TensorNe: at(t.ne), TensorNb: at(t.nb), TensorData: at(t.data),
		ChooseOp:  engine.Absent,
		ParamsIth: histParamsIth, ParamsNth: histParamsNth, PlanThreads: engine.Absent,
		BatchNTokens: engine.Absent, BatchPos: engine.Absent, BatchSeqID: engine.Absent,
		BatchLogits: engine.Absent,
		VecBegin:    engine.Absent, VecEnd: engine.Absent, VecStride: engine.Absent,
		VecSeqHead: engine.Absent,
		VecSeqVal:  engine.Absent, VecPos: engine.Absent, VecOutput: engine.Absent,
	}
	region := func(off, n int) engine.Region { return engine.Region{Off: at(off), Len: uint16(n)} }
	l.Always = []engine.Region{region(t.typ, 4), region(t.ne, 32), region(t.nb, 32), region(t.op, 4),
		region(t.src, 8*t.maxSrc), region(t.viewSrc, 8), region(t.name, maxName)}
	if t.flags >= 0 {
		l.Always = slices.Insert(l.Always, 4, region(t.flags, 4))
	}
	l.OwnData = []engine.Region{region(t.params, 16), region(t.data, 8)}
	return l
}

// planThreads copies the thread offsets from the CPU libraries.
func planThreads(p *engine.Plan, cpus []*cpuFacts) {
	for i, c := range cpus {
		l := &p.Layout
		if i > 0 && (l.ParamsIth != uint16(c.ith) || l.ParamsNth != uint16(c.nth)) {
			p.Warnings = append(p.Warnings,
				engine.Warning{Text: "two CPU libraries with different layouts are loaded: numbers of threads may be wrong", Level: engine.LevelGraph})
			continue
		}
		l.ParamsIth, l.ParamsNth, l.PlanThreads = uint16(c.ith), uint16(c.nth), uint16(c.planThreads)
	}
}

func batchInto(l *engine.Layout, b *batchLayout) {
	l.BatchNTokens, l.BatchPos, l.BatchSeqID, l.BatchLogits = b.nTokens, b.pos, b.seqID, b.logits
	l.VecBegin, l.VecEnd, l.VecStride = b.vecBegin, b.vecEnd, b.stride
	l.VecSeqHead, l.VecSeqVal, l.VecPos, l.VecOutput = b.seqHead, b.seqVal, b.vPos, b.vOutput
}

// missing describes what the available files lack. unread says why schedulers could not be read.
func missing(p *engine.Plan, files []file, cpus []*cpuFacts, unread []error) []engine.Warning {
	var out []engine.Warning
	has := map[engine.Role]bool{}
	for _, s := range p.Sites {
		has[s.Role] = true
	}
	if len(cpus) == 0 && !slices.ContainsFunc(files, func(f file) bool { return f.parts&PartCPU != 0 }) {
		out = append(out, engine.Warning{Text: "no CPU backend of ggml is loaded (yet): operators on CPUs cannot be seen", Level: engine.LevelGraph})
	}
	if p.Engine == "llama.cpp" && !has[engine.RoleStepBegin] || p.Engine == "ggml" &&
		!has[engine.RoleSchedBegin] {
		out = append(out, engine.Warning{Text: "no entry point of the engine was found: steps cannot be seen"})
	}
	if !has[engine.RoleSchedBegin] && others(files) {
		for _, err := range unread {
			out = append(out, engine.Warning{Text: err.Error(), Level: engine.LevelGraph})
		}
		out = append(out, engine.Warning{Text: "the scheduler was not found: graphs of other backends than the CPU cannot be seen", Level: engine.LevelGraph})
	}
	return out
}

// others reports whether there can be backends other than the CPU: a library of one, or a file with
// everything in it, which does not show.
func others(files []file) bool {
	return slices.ContainsFunc(files, func(f file) bool {
		return f.parts&PartBackend != 0 || f.parts&(PartBase|PartCPU) == PartBase|PartCPU
	})
}
