// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/trace"
)

// A device's own interface: libraries through which backends submit work to queues and wait for it. Their
// exported functions are probed, so it does not matter how a backend uses them, as long as it calls these and
// not pointers that bypass them.

// queueCall is one exported function.
type queueCall struct {
	name       string
	begin, end engine.Role
	covers     trace.Covers
	a, b, c, d engine.Arg
	args       []int // integer arguments that must be intact at the probe
	often      bool  // called for each operator: probed only where that is cheap
}

func at(r uint8, off int32) engine.Arg { return engine.Arg{Kind: engine.ArgAt, Reg: r, Stack: off} }
func number(n int32) engine.Arg        { return engine.Arg{Kind: engine.ArgConst, Stack: n} }

func submits(name string, queue engine.Arg, args ...int) queueCall {
	return queueCall{name: name, begin: engine.RoleSubmitBegin, end: engine.RoleSubmitEnd, a: queue,
		args: args}
}

func waits(name string, covers trace.Covers, args ...int) queueCall {
	return queueCall{name: name, begin: engine.RoleWaitBegin, end: engine.RoleWaitEnd, covers: covers,
		args: args}
}

// queueLibrary is one such interface.
type queueLibrary struct {
	file  string   // prefix of the library's name
	needs []string // a backend linked with one of these uses it
	calls func(arm bool) []queueCall
}

var queueLibraries = []queueLibrary{
	{"libvulkan.so", []string{"libvulkan.so"}, vulkanCalls},
	{"libcuda.so", []string{"libcuda.so", "libcudart.so", "libcublas.so"}, cudaCalls},
	{"libOpenCL.so", []string{"libOpenCL.so"}, openCLCalls},
}

// vulkanCalls are the loader's functions (Vulkan 1.3 specification, chapters 6 and 7). The first word of a
// queue and of a device points to the loader's table of functions, which a device shares with its queues: it
// distinguishes devices. vkGetFenceStatus is not probed, as ggml polls it in a loop, hundreds of times per
// graph: a fence that was seen done is reset, and it must not be reset before it is done.
func vulkanCalls(bool) []queueCall {
	var out []queueCall
	// (queue, count, submits, fence)
	for _, n := range []string{"vkQueueSubmit", "vkQueueSubmit2", "vkQueueSubmit2KHR"} {
		c := submits(n, reg(0), 0, 1, 3)
		c.b, c.c, c.d = reg(3), at(0, 0), reg(1)
		out = append(out, c)
	}
	fences := waits("vkWaitForFences", trace.CoversToken, 0, 1, 2) // (device, count, fences, all, timeout)
	fences.b, fences.c, fences.d = at(2, 0), at(0, 0), reg(1)
	queue := waits("vkQueueWaitIdle", trace.CoversQueue, 0)
	queue.a, queue.c = reg(0), at(0, 0)
	device := waits("vkDeviceWaitIdle", trace.CoversDevice, 0)
	device.c = at(0, 0)
	out = append(out, fences, queue, device)
	// which submission signals them is not read
	for _, n := range []string{"vkWaitSemaphores", "vkWaitSemaphoresKHR"} {
		c := waits(n, "", 0)
		c.c = at(0, 0)
		out = append(out, c)
	}
	return append(out, queueCall{name: "vkResetFences", begin: engine.RoleDone, b: reg(2), c: at(0, 0),
		d: reg(1), args: []int{0, 1, 2}})
}

// cudaCalls are the driver's functions (CUDA driver API), which the runtime library calls. A stream is a
// queue, an event is a handle.
func cudaCalls(arm bool) []queueCall {
	// the ninth argument of cuLaunchKernel; on x86-64 the return address is below it
	stream := engine.Arg{Kind: engine.ArgStackAt, Stack: 24}
	if arm {
		stream.Stack = 0
	}
	var out []queueCall
	add := func(c queueCall, often bool) {
		c.often = often
		out = append(out, c)
		c.name += "_ptsz" // with a default stream per thread
		out = append(out, c)
	}
	add(submits("cuLaunchKernel", stream), true)
	add(submits("cuLaunchCooperativeKernel", stream), true)
	add(submits("cuLaunchKernelEx", at(0, 32), 0), true) // (config, ...): hStream after seven numbers
	add(submits("cuGraphLaunch", reg(1), 1), false)
	for _, n := range []string{"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2",
		"cuMemcpyAsync", "cuMemsetD8Async"} {
		add(submits(n, reg(3), 3), true)
	}
	event := submits("cuEventRecord", reg(1), 0, 1)
	event.b, event.d = reg(0), number(0)
	add(event, true)
	stop := waits("cuStreamSynchronize", trace.CoversQueue, 0)
	stop.a = reg(0)
	add(stop, false)
	until := waits("cuEventSynchronize", trace.CoversToken, 0)
	until.b, until.d = reg(0), number(1)
	add(until, false)
	return append(out, waits("cuCtxSynchronize", trace.CoversDevice))
}

// openCLCalls are the loader's functions (OpenCL 3.0). Events are not read, so what clWaitForEvents waits for
// is unknown, except for the backend's synchronize around it.
func openCLCalls(bool) []queueCall {
	kernel := submits("clEnqueueNDRangeKernel", reg(0), 0)
	kernel.often = true
	finish := waits("clFinish", trace.CoversQueue, 0)
	finish.a = reg(0)
	out := []queueCall{kernel, finish, waits("clWaitForEvents", "")}
	// (queue, buffer, blocking, ...)
	for _, n := range []string{"clEnqueueReadBuffer", "clEnqueueWriteBuffer"} {
		c := waits(n, trace.CoversQueue, 0, 2)
		c.a, c.d = reg(0), reg(2)
		out = append(out, c)
	}
	return out
}

// queueSites plans sites in the interfaces of the scheduler's backends. It leaves out functions that a
// library does not export, and frequently called ones that would be expensive.
func (s *backendScan) queueSites() {
	for _, q := range queueLibraries {
		user := s.user(q.needs)
		if user == "" {
			continue
		}
		for _, m := range target.ExecutableFiles(s.maps) {
			if !strings.HasPrefix(lastPart(m.Path), q.file) {
				continue
			}
			lib, err := s.lib(m)
			if err != nil {
				s.out.Warnings = append(s.out.Warnings,
					engine.Warning{Level: engine.LevelGraph, Backend: user,
						Text: "queues of " + m.Path + " cannot be seen: " + err.Error()})
				continue
			}
			sites := lib.l.queueSites(q.calls(lib.l.arm()))
			if len(sites) == 0 {
				continue
			}
			index := lib.index
			if index < 0 {
				f := lib.file.File
				f.Role = "queues"
				index = len(s.plan.Files) + len(s.out.Files)
				lib.index = index
				s.out.Files = append(s.out.Files, f)
			}
			for _, x := range sites {
				x.File = index
				s.out.Sites = append(s.out.Sites, x)
			}
		}
	}
}

// user names a backend other than the CPU that is linked with one of these libraries; empty: none is.
func (s *backendScan) user(names []string) string {
	for _, l := range s.libs {
		if l.backend == "" {
			continue
		}
		if slices.ContainsFunc(l.l.e.Needed(), func(n string) bool {
			return slices.ContainsFunc(names, func(p string) bool { return strings.HasPrefix(n, p) })
		}) {
			return l.backend
		}
	}
	return ""
}

// queueSites plans the begins and returns of the calls.
func (l *lib) queueSites(calls []queueCall) (out []engine.Site) {
	seen := map[uint64]bool{}
	for _, c := range calls {
		fn, ok := l.fn(c.name)
		if !ok || seen[fn] { // another name for the same function
			continue
		}
		seen[fn] = true
		e, err := l.walkEntry(fn, c.args...)
		if err != nil {
			continue
		}
		ends := l.queueEnds(fn, c.end)
		// a return probe must come before the stack moves
		if c.end != engine.RoleNone && ends == nil && !e.canReturn {
			if e.in, err = l.e.Insn(fn); err != nil {
				continue
			}
			e = entry{in: e.in, canReturn: true}
		}
		x, err := l.site(e.in, c.begin)
		if err != nil || x.Warning != "" && c.often {
			continue
		}
		x.A, x.B, x.C, x.D, x.Covers, x.Entry = c.a, c.b, c.c, c.d, c.covers, c.name
		out = append(out, x)
		if c.end == engine.RoleNone {
			continue
		}
		if ends == nil {
			x.Return = true
			ends = []engine.Site{x}
		}
		for _, end := range ends {
			end.Role, end.Covers, end.Entry, end.A, end.B, end.C, end.D = c.end, c.covers, c.name,
				engine.Arg{}, engine.Arg{}, engine.Arg{}, engine.Arg{}
			out = append(out, end)
		}
	}
	return out
}

// queueEnds finds where a call of a device's interface ends; nil: only by a return probe. Return probes are
// for these functions alone: the interfaces are C, nothing is thrown through them, and a loader hands each
// call on by an indirect jump.
func (l *lib) queueEnds(fn uint64, role engine.Role) []engine.Site {
	if role == engine.RoleNone {
		return nil
	}
	ends, err := l.ends(fn, "", role)
	if err != nil {
		return nil
	}
	var out []engine.Site
	for _, in := range ends {
		x, err := l.site(in.Insn, role)
		if err != nil || x.Warning != "" {
			return nil
		}
		out = append(out, x)
	}
	return out
}
