// SPDX-License-Identifier: Apache-2.0

// Package roof holds what a machine can do: peak memory bandwidth and compute, by number of threads and type
// of weights.
package roof

import "github.com/profinfer/profinfer/profile/internal/num"

// Peaks are the maximum rates of the recording's machine, as measured or given. nil: unknown.
type Peaks struct {
	// Source says where they come from: "measured 2026-11-19", "given by hand"; empty: there are none.
	Source string
	// Missing says why there are none; it follows "The machine's peaks are not known:".
	Missing string
	// Doubtful: other work disturbed the measurement, so the machine may be capable of more.
	Doubtful bool
	// CacheBytes is the total size of the machine's last-level caches; 0: unknown.
	CacheBytes int64
	// At returns the roof for a number of threads and a type of weights (as ggml names it; "" for
	// activations): bytes from memory (GB/s), and operations on the type that such weights are multiplied as
	// (GFLOP/s; GOP/s for 8-bit numbers). nil: unknown.
	At func(threads int, weight string) Roof
}

// Roof is the maximum for a number of threads, with lower ceilings that code can be limited by.
type Roof struct {
	Threads int      `json:"threads"`
	GBps    *float64 `json:"gb_s"` // from memory, by the fastest access pattern; nil: unknown
	// StreamGBps is a lower ceiling: memory read in order, one stream per thread, as in a loop over a
	// matrix's rows. nil: unknown.
	StreamGBps *float64 `json:"stream_gb_s"`
	GFlops     *float64 `json:"gflop_s"` // of vector instructions; nil: unknown
	// MatrixGFlops is what matrix instructions (AMX, i8mm) reach; code without them is limited by GFlops.
	// nil: unknown, or none.
	MatrixGFlops *float64 `json:"matrix_gflop_s"`
	// what the operations are on: "f32", "int8"; empty: unknown, or any
	Units string `json:"units"`
}

// Fixed returns peaks that hold for any number of threads and any type; nil: unknown.
func Fixed(source string, gbps, gflops *float64) *Peaks {
	return &Peaks{Source: source, At: func(threads int, _ string) Roof {
		return Roof{Threads: threads, GBps: positive(gbps), GFlops: positive(gflops)}
	}}
}

// Roof returns the roof for a number of threads, empty if p is nil.
func (p *Peaks) Roof(threads int, weight string) Roof {
	if p == nil || p.At == nil || threads <= 0 {
		return Roof{Threads: threads}
	}
	r := p.At(threads, weight)
	r.GBps, r.StreamGBps, r.GFlops, r.MatrixGFlops = positive(r.GBps), positive(r.StreamGBps),
		positive(r.GFlops), positive(r.MatrixGFlops)
	return r
}

// Used are the peaks that a Stat compares with.
type Used struct {
	Source   string `json:"source"`   // empty: there are none
	Missing  string `json:"missing"`  // why there are none
	Doubtful bool   `json:"doubtful"` // other work disturbed the measurement: they may be too low
	// by number of threads and type of weights, as seen in the run
	Roofs []UsedRoof `json:"rooflines"`
}

// UsedRoof is the roof of one type of weights.
type UsedRoof struct {
	Weight string `json:"weight"` // as ggml names it; empty: activations
	Roof
}

// Cache is how many bytes of a step's reads can stay in a cache: the machine's size, or else a default.
func (p *Peaks) Cache() float64 {
	if p == nil || p.CacheBytes <= 0 {
		return cacheBytes
	}
	return float64(p.CacheBytes)
}

// positive returns nil for an impossible rate.
func positive(v *float64) *float64 {
	if v == nil || !(*v > 0) {
		return nil
	}
	return v
}

// Ridge is the arithmetic intensity (flop/B) at which both roofs meet; nil where one is unknown.
func (r Roof) Ridge() *float64 {
	if r.GBps == nil || r.GFlops == nil {
		return nil
	}
	return num.Ratio(*r.GFlops, *r.GBps)
}

// Under returns the lower roof at an arithmetic intensity, and its rate in GFLOP/s.
func (r Roof) Under(intensity float64) (limit string, gflops float64, ok bool) {
	if r.GBps == nil || r.GFlops == nil {
		return "", 0, false
	}
	if memory := *r.GBps * intensity; memory < *r.GFlops {
		return "memory", memory, true
	}
	return "compute", *r.GFlops, true
}

const cacheBytes = 128 << 20
