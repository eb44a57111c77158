// SPDX-License-Identifier: Apache-2.0

// Package roof holds what a machine can do: peak memory bandwidth and compute, by threads and type of
// weights.
package roof

import "github.com/profinfer/profinfer/profile/internal/num"

// Peaks are what the machine of a recording can do at most, as measured or given elsewhere. nil: not known.
type Peaks struct {
	// Source says where they come from: "measured 2026-11-19", "given by hand"; empty: there are none.
	Source string
	// Missing says why there are none, after "The machine's peaks are not known:".
	Missing string
	// Doubtful: other work disturbed the measurement, so that the machine may give more.
	Doubtful bool
	// CacheBytes is what the machine's last-level caches hold together; 0: not known.
	CacheBytes int64
	// At is the roof for a number of threads and a type of weights (as ggml names it; "" of activations):
	// bytes from memory (GB/s), and operations on what such weights are multiplied as (GFLOP/s; GOP/s where
	// that is 8-bit numbers). nil: not known.
	At func(threads int, weight string) Roof
}

// Roof is the most that a number of threads can have, with the ceilings below it that code can stop at.
type Roof struct {
	Threads int      `json:"threads"`
	GBps    *float64 `json:"gb_s"` // from memory, in whatever way gives most; nil: not known
	// StreamGBps is a ceiling below it: memory read in order, one place a thread, as a loop over a matrix's
	// rows does. nil: not known.
	StreamGBps *float64 `json:"stream_gb_s"`
	GFlops     *float64 `json:"gflop_s"` // of vector instructions; nil: not known
	// MatrixGFlops is what instructions for small matrices (AMX, i8mm) reach: code that has none stops at
	// GFlops. nil: not known, or none.
	MatrixGFlops *float64 `json:"matrix_gflop_s"`
	// what the operations are on: "f32", "int8"; empty: not known, or of any
	Units string `json:"units"`
}

// Fixed are peaks of any number of threads and any type; nil: not known.
func Fixed(source string, gbps, gflops *float64) *Peaks {
	return &Peaks{Source: source, At: func(threads int, _ string) Roof {
		return Roof{Threads: threads, GBps: positive(gbps), GFlops: positive(gflops)}
	}}
}

// Roof is that of a number of threads, empty where p is nil.
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
	Doubtful bool   `json:"doubtful"` // other work disturbed their measurement: the machine may give more
	// by number of threads and type of weights, as they were seen in the run
	Roofs []UsedRoof `json:"roofs"`
}

// UsedRoof is the roof of one type of weights.
type UsedRoof struct {
	Weight string `json:"weight"` // as ggml names it; empty: activations
	Roof
}

// Cache is how much of what a step reads can stay in a cache, bytes: what the machine has, else what any has.
func (p *Peaks) Cache() float64 {
	if p == nil || p.CacheBytes <= 0 {
		return cacheBytes
	}
	return float64(p.CacheBytes)
}

// positive is nil for what no rate can be.
func positive(v *float64) *float64 {
	if v == nil || !(*v > 0) {
		return nil
	}
	return v
}

// Ridge is the intensity (flop/B) at which both roofs meet; nil where one is not known.
func (r Roof) Ridge() *float64 {
	if r.GBps == nil || r.GFlops == nil {
		return nil
	}
	return num.Ratio(*r.GFlops, *r.GBps)
}

// Under returns the lower roof at an intensity, and its rate in GFLOP/s.
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
