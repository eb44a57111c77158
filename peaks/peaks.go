// SPDX-License-Identifier: Apache-2.0

// Package peaks provides the machine's roofline: its peak memory bandwidth and peak compute rates by number
// of threads. Measure determines them in seconds, Save and Load store them for this machine, and
// ParseBandwidth and ParseFlops parse values given by hand.
//
// A peak is what well-written code reaches, not what a data sheet says: the CPU's widest loads read memory in
// order, operands of multiply-adds are in registers.
package peaks

import (
	"math"
	"time"
)

// SchemaVersion of Peaks as JSON.
const SchemaVersion = 1

// Peaks is the result of measuring a machine. Rates are GB/s (10^9 bytes per second), GFLOP/s and GOP/s (10^9
// operations; a multiply-add counts as two); nil is unknown: not measured, or the CPU has no such
// instructions.
type Peaks struct {
	SchemaVersion int       `json:"schema_version"`
	Tool          string    `json:"tool,omitempty"` // version of profinfer
	Machine       Machine   `json:"machine"`
	Measured      time.Time `json:"measured"` // when it ended
	TookNS        int64     `json:"took_ns"`

	// CPUs are those that threads were pinned to, in this order: a point with k threads uses the first k.
	CPUs []int `json:"cpus"`
	// Points are those of the whole machine, by number of threads. If CPUs are of several kinds, the fast
	// ones come first.
	Points []Point `json:"points"`
	// Kinds are the points of each kind of CPU alone, if there are several.
	Kinds []Kind `json:"kinds,omitempty"`
	// Kernels are the rates of every loop that was tried, with one thread on the first of the CPUs.
	Kernels []KernelRate `json:"kernels"`

	// WorkingSet is the memory read by all threads of a point, bytes, the minimum over all points. Cache is
	// the size of the last-level caches of all CPUs together, 0: unknown.
	WorkingSet int64 `json:"working_set_bytes"`
	// Others is the share of these CPUs' time that others used while measuring: other processes, interrupts,
	// and the hypervisor if it is reported. nil: unknown.
	Others   *float64 `json:"others"`
	Load     *float64 `json:"load_before"` // load average of the preceding minute
	Warnings []string `json:"warnings,omitempty"`

	// GivenGBps and GivenGFlops are peaks given by hand (With), for any number of threads.
	GivenGBps   *float64 `json:"given_gb_s,omitempty"`
	GivenGFlops *float64 `json:"given_gflop_s,omitempty"`
}

// Point is what a number of threads reach together.
type Point struct {
	Threads    int     `json:"threads"`
	Read       *Figure `json:"read_gb_s"`
	Stream     *Figure `json:"stream_gb_s"`
	F32        *Figure `json:"f32_gflop_s"`
	F16        *Figure `json:"f16_gflop_s"`
	BF16       *Figure `json:"bf16_gflop_s"`
	BF16Matrix *Figure `json:"bf16_matrix_gflop_s"`
	Int8       *Figure `json:"int8_gop_s"`
	Int8Matrix *Figure `json:"int8_matrix_gop_s"`
	// GHz is the clock rate right after the best trial of F32, mean of the threads: dependent additions, one
	// per cycle.
	GHz *float64 `json:"ghz"`
}

// Figure is a rate: the best of several trials, and their spread. Disturbances make a trial slower, and
// nothing makes it faster than the machine: so the best is the estimate, as in STREAM (J. D. McCalpin,
// STREAM: Sustainable Memory Bandwidth in High Performance Computers).
type Figure struct {
	Best   float64 `json:"best"`
	Median float64 `json:"median"`
	Worst  float64 `json:"worst"`
	Trials int     `json:"trials"`
	// Agree: the best is not an outlier: the best three trials are within 3 %.
	Agree bool `json:"agree"`
	// CPU is the CPU time of the threads in the best trial / (its time * threads): below 1, other work took
	// the rest. nil: unknown.
	CPU    *float64 `json:"cpu"`
	Kernel string   `json:"kernel"`
}

// Kind is a kind of CPU: performance and efficient cores, big and LITTLE.
type Kind struct {
	Name   string  `json:"name"`
	CPUs   []int   `json:"cpus"`
	Points []Point `json:"points"`
}

// KernelRate is the best rate of a loop.
type KernelRate struct {
	What   What    `json:"what"`
	Kernel string  `json:"kernel"`
	Rate   float64 `json:"rate"` // GB/s, GFLOP/s, GOP/s
}

// Sound reports whether other work left all figures alone: their best trials agree, and were not interrupted.
func (p *Peaks) Sound() bool {
	for i := range p.Points {
		for _, w := range figures {
			if f := p.Points[i].Figure(w); f != nil && f.Doubtful() {
				return false
			}
		}
	}
	return true
}

// Doubtful reports whether the best trial is an outlier, or was interrupted.
func (f *Figure) Doubtful() bool { return !f.Agree || f.interrupted() }

func (f *Figure) interrupted() bool { return f.CPU != nil && *f.CPU < uninterrupted }

// Replaces reports whether p should replace old, and if not, why: other work disturbed it, but not old; or it
// has fewer threads.
func (p *Peaks) Replaces(old *Peaks) (ok bool, why string) {
	switch {
	case old == nil:
		return true, ""
	case p.most() < old.most():
		return false, "it is of fewer threads"
	case !p.Sound() && old.Sound():
		return false, "other work disturbed it"
	}
	return true, ""
}

// most is the highest number of threads.
func (p *Peaks) most() int {
	if len(p.Points) == 0 {
		return 0
	}
	return p.Points[len(p.Points)-1].Threads
}

// slot is where a point stores the figure of w.
func (p *Point) slot(w What) **Figure {
	switch w {
	case Read:
		return &p.Read
	case Stream:
		return &p.Stream
	case F32:
		return &p.F32
	case F16:
		return &p.F16
	case BF16:
		return &p.BF16
	case BF16Matrix:
		return &p.BF16Matrix
	case Int8:
		return &p.Int8
	case Int8Matrix:
		return &p.Int8Matrix
	}
	var none *Figure
	return &none
}

// Figure is the point's figure of w; nil: unknown.
func (p *Point) Figure(w What) *Figure { return *p.slot(w) }

// At returns the peaks for a number of threads: bytes read (GB/s), float32 operations (GFLOP/s), operations
// of 8-bit dot products (GOP/s); nil if unknown. It interpolates linearly between points and is constant
// below the first and above the last: more threads than were measured are more than the machine has CPUs.
// Peaks given by hand take precedence, and apply to any number of threads; a compute peak given by hand is
// for all types, so that the third is nil. p may be nil.
func (p *Peaks) At(threads int) (gbps, gflops, gint8ops *float64) {
	if p == nil || threads <= 0 {
		return nil, nil, nil
	}
	gbps, gflops, gint8ops = p.Rate(Read, threads), p.Rate(F32, threads), p.Rate(Int8, threads)
	if p.GivenGBps != nil {
		gbps = p.GivenGBps
	}
	if p.GivenGFlops != nil {
		gflops, gint8ops = p.GivenGFlops, nil
	}
	return gbps, gflops, gint8ops
}

// Rate is the measured peak of one type for a number of threads, interpolated as in At.
func (p *Peaks) Rate(w What, threads int) *float64 {
	if p == nil || threads <= 0 {
		return nil
	}
	return between(p.Points, threads, w)
}

func between(points []Point, threads int, w What) *float64 {
	var low, high *Point
	for i := range points {
		pt := &points[i]
		if *pt.slot(w) == nil {
			continue
		}
		if pt.Threads <= threads {
			low = pt
		} else if high == nil {
			high = pt
		}
	}
	switch {
	case low == nil && high == nil:
		return nil
	case low == nil:
		low = high
	case high == nil || low.Threads == threads:
		high = low
	}
	v := (*low.slot(w)).Best
	if high != low {
		v += ((*high.slot(w)).Best - v) * float64(threads-low.Threads) / float64(high.Threads-low.Threads)
	}
	return &v
}

// With returns peaks with measured values replaced by those given by hand, nil: not given. p may be nil, and
// is not changed.
func (p *Peaks) With(gbps, gflops *float64) *Peaks {
	if gbps == nil && gflops == nil {
		return p
	}
	q := Peaks{SchemaVersion: SchemaVersion}
	if p != nil {
		q = *p
	}
	q.GivenGBps, q.GivenGFlops = gbps, gflops
	return &q
}

// MadeOn reports whether these are the peaks of the machine described in a recording (trace.Meta): arch as in
// Go, the CPU's name, the memory in bytes, to an eighth; empty and 0 match anything. Peaks given only by hand
// match any machine.
func (p *Peaks) MadeOn(arch, cpu string, memory int64) bool {
	if p == nil {
		return false
	}
	if len(p.Points) == 0 {
		return true
	}
	m := &p.Machine
	return (arch == "" || arch == m.Arch) && (cpu == "" || cpu == m.Model) && near(memory, m.Memory)
}

// near: what the kernel reserves changes from version to version.
func near(a, b int64) bool {
	return a <= 0 || b <= 0 || math.Abs(float64(a)-float64(b)) <= float64(max(a, b))/8
}
