// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/engine/internal/emulator"
	"github.com/profinfer/profinfer/target"
)

const (
	hookName     = "ggml_cpu_extra_compute_forward"
	forwardName  = "ggml_compute_forward"
	barrierName  = "ggml_barrier"
	graphCompute = "ggml_graph_compute"
	schedCompute = "ggml_backend_sched_graph_compute_async"
)

// Costs measured on one machine: an emulated probe 0.4 us, a stepped one 14 to 27 us in a VM and about three
// times an emulated one on bare metal.
const steppedCost = "stepped: costs 14 to 27 us per probe event in a virtual machine, about 1.5 us on bare metal"

func reg(i uint8) engine.Arg { return engine.Arg{Kind: engine.ArgReg, Reg: i} }

// site makes a site of an instruction; the file's number is filled in when a plan is assembled. Where the
// kernel accepts no probe it returns none: the kernel would refuse all that are attached together with this
// one.
func (l *lib) site(in target.Insn, role engine.Role) (engine.Site, error) {
	off, ok := l.e.FileOffset(in.Addr)
	if !ok {
		return engine.Site{}, fmt.Errorf("%s: address %#x is not in the file", l.e.Name, in.Addr)
	}
	sym := func(a uint64) string { return l.e.CalleeName(a) }
	s := engine.Site{Offset: off, Addr: in.Addr, Where: l.e.NameAt(in.Addr), Insn: in.Text(sym),
		Class: in.Class, Role: role}
	switch s.Class {
	case target.ClassEmulated, target.ClassNop5:
	case target.ClassRefused:
		return engine.Site{}, fmt.Errorf("%s: the kernel takes no probe at %s (%s)", l.e.Name, s.Where,
			s.Insn)
	default:
		s.Warning = steppedCost
	}
	return s, nil
}

// span plans the begin and end of one function: begin holds the roles and arguments of the first site, args
// the integer arguments that must be intact there. inner: see [lib.ends]. If the end cannot be probed, the
// begin is returned with errNoEnd.
func (l *lib) span(fn uint64, inner string, begin engine.Site, end engine.Role, args ...int) ([]engine.Site,
	error) {
	e, err := l.walkEntry(fn, args...)
	if err != nil {
		return nil, err
	}
	if !e.cheap && begin.Batch == engine.BatchPointer {
		if call, ok := l.passesOn(fn); ok {
			e = entry{in: call, cheap: true}
		}
	}
	s, err := l.site(e.in, begin.Role)
	if err != nil {
		return nil, err
	}
	s.A, s.B, s.C, s.Batch, s.Entry, s.Phase, s.Backend = begin.A, begin.B, begin.C, begin.Batch, begin.Entry,
		begin.Phase, begin.Backend
	if s.B.Kind == engine.ArgStackAddr {
		s.B.Stack += e.moved
	}
	sites := []engine.Site{s}
	if end == engine.RoleNone {
		return sites, nil
	}
	ends, err := l.ends(fn, inner, end)
	if err != nil {
		return sites, fmt.Errorf("%w: %w", errNoEnd, err)
	}
	for _, in := range ends {
		x, err := l.site(in.Insn, end)
		if err != nil {
			return sites[:1], fmt.Errorf("%w: %w", errNoEnd, err)
		}
		if in.early {
			x.Warning = "" // nothing was done: it is hardly ever hit
		}
		x.Entry, x.Phase, x.Backend = begin.Entry, begin.Phase, begin.Backend
		sites = append(sites, x)
	}
	return sites, nil
}

// errNoEnd reports that a function's begin can be probed, but its end cannot.
var errNoEnd = errors.New("its end cannot be probed")

// cpuFacts is what was read from one CPU library.
type cpuFacts struct {
	sites       []engine.Site
	ith, nth    int
	planThreads int
	tests       bool // the operator loop tests the COMPUTE flag
	find        findings
	warnings    []engine.Warning
}

// readCPU finds the operator sites and graph sites of a CPU library. flags is the offset of a tensor's flags
// (unknown: none).
func readCPU(l *lib, flags int) (*cpuFacts, error) {
	c := &cpuFacts{ith: unknown, nth: unknown, planThreads: unknown}
	if err := c.readOps(l, flags); err != nil {
		return nil, err
	}
	fn, ok := l.fn(graphCompute)
	if !ok {
		return nil, fmt.Errorf("%s: no function %s in it", l.e.Name, graphCompute)
	}
	sites, err := l.span(fn, "", engine.Site{Role: engine.RoleGraphBegin, A: reg(0), B: reg(1),
		Backend: "CPU"}, engine.RoleGraphEnd, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.e.Name, graphCompute, err)
	}
	c.sites = append(c.sites, sites...)
	c.readParams(l)
	return c, nil
}

// opCall finds the call that begins an operator, in the function of the operator loop.
func (l *lib) opCall() (call target.Insn, f target.Function, hook bool, how string, err error) {
	one := func(addrs []uint64, err error) (target.Insn, target.Function, bool) {
		for _, a := range addrs {
			in, e := l.e.Insn(a)
			f, ok := l.e.FunctionAt(a)
			if err == nil && e == nil && ok && (in.Kind == target.Call || in.Kind == target.CallIndirect) {
				return in, f, true
			}
		}
		return target.Insn{}, target.Function{}, false
	}
	hooks, herr := l.calls(hookName)
	if in, f, ok := one(hooks, herr); ok {
		w := l.flow(f)
		for _, from := range w.afterHook(in) {
			if w.reaches(from, in.Addr, never) {
				return in, f, true, "the call of " + hookName + " in the operator loop", nil
			}
		}
		// No loop around it: it is in a function of its own, ggml_compute_forward, whose calls are in the
		// loop.
		if in, f, ok := one(l.e.CallsTo(f.Start)); ok {
			return in, f, false, "the call of the function that calls " + hookName, nil
		}
		return in, f, true, "the call of " + hookName, nil
	}
	if in, f, ok := one(l.calls(forwardName)); ok {
		return in, f, false, "the call of " + forwardName, nil
	}
	return call, f, false, "", fmt.Errorf("%s: neither a call of %s nor of %s is in it: operators cannot be seen",
		l.e.Name, hookName, forwardName)
}

// calls lists direct calls of a function, or those through its slot if there are none.
func (l *lib) calls(name string) ([]uint64, error) {
	out, err := l.e.Calls(name)
	if err == nil && len(out) == 0 {
		return l.e.SlotCalls(name)
	}
	return out, err
}

func (w *flow) isBarrier(in target.Insn) bool {
	return (in.Kind == target.Call || in.Kind == target.CallIndirect || in.Kind == target.Jump &&
		(in.Target < w.f.Start || in.Target >= w.f.End)) &&
		w.callee(in) == barrierName
}

// isGOMPBarrier recognizes the barrier of OpenMP, which a build with an inlined ggml_barrier calls instead.
func (w *flow) isGOMPBarrier(in target.Insn) bool {
	if in.Kind != target.Call && in.Kind != target.CallIndirect {
		return false
	}
	n := w.callee(in)
	return n == "GOMP_barrier" || n == "__kmpc_barrier"
}

func (c *cpuFacts) readOps(l *lib, flags int) error {
	call, f, hook, how, err := l.opCall()
	if err != nil {
		return err
	}
	w := l.flow(f)
	site := func(in target.Insn, role engine.Role) (engine.Site, error) {
		s, err := l.site(in, role)
		if f.Name == "" { // stripped: identified by what it does
			s.Where = fmt.Sprintf("ggml_graph_compute_thread+%#x", in.Addr-f.Start)
		}
		return s, err
	}
	begin, err := site(call, engine.RoleOpBegin)
	if err != nil {
		return err
	}
	begin.A, begin.B = reg(0), reg(1)
	c.sites = append(c.sites, begin)
	c.find.add("operator begin", begin.Where, how)

	from := []uint64{call.End()}
	if hook {
		from = w.afterHook(call)
	}
	loop, closing := w.loopEnds(call, from, w.isBarrier)
	arg, endHow := reg(0), "control flow from the operator's call to the barrier"
	if len(loop)+len(closing) == 0 {
		// The compiler inlined the barrier into the loop.
		arg = engine.Arg{}
		if in, ok := w.join(call, from); ok {
			loop, endHow = []target.Insn{in},
				"the first branch where all operators come together; ggml_barrier is inlined"
		} else if loop, closing = w.loopEnds(call, from, w.isGOMPBarrier); len(loop)+len(closing) > 0 {
			endHow = "control flow from the operator's call to the OpenMP barrier; ggml_barrier is inlined"
			c.warnings = append(c.warnings, engine.Warning{Level: engine.LevelOp,
				Text: "ggml_barrier is inlined in this build: operators end at the OpenMP barrier, and where a graph runs on one thread at the next operator's begin"})
		} else {
			c.warnings = append(c.warnings, engine.Warning{Level: engine.LevelOp,
				Text: "no barrier was found behind the operators of " + l.e.Name +
					": an operator ends at the next one's begin, waiting counts as computing"})
		}
	}
	for _, e := range append(slices.Clone(loop), closing...) {
		s, err := site(e, engine.RoleOpEnd)
		if err != nil {
			return err
		}
		s.A = arg
		c.sites = append(c.sites, s)
	}
	c.find.add("operator end", fmt.Sprintf("%d in the loop, %d closing", len(loop), len(closing)), endHow)
	for _, in := range w.fusedCalls() {
		s, err := site(in, engine.RoleOpFused)
		if err != nil {
			return err
		}
		s.A, s.B, s.C = reg(0), reg(1), reg(2)
		c.sites = append(c.sites, s)
		c.find.add("fused operator", s.Where, "the call of "+w.callee(in))
	}
	if flags != unknown {
		c.tests = w.testsFlag(flags)
		value, how := "not tested", "no test of bit 0x10 of flags in the operator loop"
		if c.tests {
			value, how = "tested", "the operator loop tests bit 0x10 of flags"
		}
		c.find.add("flag COMPUTE", value, how)
	}
	return nil
}

// readParams finds the thread's number and the team's size in struct ggml_compute_params, as operators
// defined by the user are called with both; and the number of threads in struct ggml_cplan, the first field
// of it that ggml_graph_compute reads.
func (c *cpuFacts) readParams(l *lib) {
	for _, x := range []struct {
		fn       string
		ith, nth int // argument numbers of the user's function
	}{{"ggml_compute_forward_custom", 1, 2}, {"ggml_compute_forward_map_custom1", 2,
		3}, {"ggml_compute_forward_map_custom2", 3, 4}} {
		m, addr, err := l.machine(x.fn)
		if err != nil {
			continue
		}
		p, t := m.NewObject("params"), m.NewObject("tensor")
		for i := 0; i < 256; i += 4 {
			p.Put32(i, uint32(1000+i))
		}
		for i := 0; i < 1024; i += 4 {
			t.Put32(i, uint32(5000+i))
		}
		if _, err := m.Run(addr, p.Addr, t.Addr); err != nil || m.Tail == nil {
			continue
		}
		for _, a := range m.Loads(p) {
			if a.Size == 4 && a.Val == m.Arg(x.ith)&0xffffffff {
				c.ith = int(a.Off)
			}
			if a.Size == 4 && a.Val == m.Arg(x.nth)&0xffffffff {
				c.nth = int(a.Off)
			}
		}
		if c.ith >= 0 && c.nth >= 0 {
			c.find.add("params.ith", c.ith, x.fn+" passes it on")
			c.find.add("params.nth", c.nth, x.fn+" passes it on")
			break
		}
		c.ith, c.nth = unknown, unknown
	}
	if c.ith == unknown {
		c.ith, c.nth = histParamsIth, histParamsNth
		c.find.add("params.ith", c.ith, "history 2024-06-26")
		c.find.add("params.nth", c.nth, "history 2024-06-26")
	}
	if m, addr, err := l.machine(graphCompute); err == nil {
		g, p := m.NewObject("graph"), m.NewObject("cplan")
		m.Hook = func(_ *emulator.Machine, name string, _ uint64) (uint64, emulator.HookResult) {
			if strings.HasPrefix(name, "ggml_cpu_init") {
				return 0, emulator.Return
			}
			return 0, emulator.Follow
		}
		_, _ = m.Run(addr, g.Addr, p.Addr) // ends at the assertion that there are threads
		for _, a := range m.Loads(p) {
			if a.Size == 4 {
				c.planThreads = int(a.Off)
				c.find.add("cplan.n_threads", a.Off, graphCompute+" asks for it first")
				break
			}
		}
	}
	if c.planThreads == unknown {
		c.planThreads = histPlanThreads
		c.find.add("cplan.n_threads", c.planThreads, "history 2024-06-26")
	}
}
