// SPDX-License-Identifier: Apache-2.0

package profile

// Peaks are what the machine of a recording can do at most, as measured or given elsewhere. nil: not known.
type Peaks struct {
	// Source says where they come from: "measured 2026-11-19", "given by hand".
	Source string
	// At is the roof for a number of threads and a type of weights (as ggml names it; "" of activations): bytes from memory
	// (GB/s), and operations on what such weights are multiplied as (GFLOP/s; GOP/s where that is 8-bit numbers). nil: not known.
	At func(threads int, weight string) Roof
}

// Roof is the most that a number of threads can have.
type Roof struct {
	Threads int      `json:"threads"`
	GBps    *float64 `json:"gb_s"`    // from memory; nil: not known
	GFlops  *float64 `json:"gflop_s"` // nil: not known
	Units   string   `json:"units"`   // what the operations are on: "f32", "int8"; empty: not known, or of any
}

// FixedPeaks are peaks of any number of threads and any type; nil: not known.
func FixedPeaks(source string, gbps, gflops *float64) *Peaks {
	return &Peaks{Source: source, At: func(threads int, _ string) Roof {
		return Roof{Threads: threads, GBps: positive(gbps), GFlops: positive(gflops)}
	}}
}

// roof is that of a number of threads, empty where p is nil.
func (p *Peaks) roof(threads int, weight string) Roof {
	if p == nil || p.At == nil || threads <= 0 {
		return Roof{Threads: threads}
	}
	r := p.At(threads, weight)
	r.GBps, r.GFlops = positive(r.GBps), positive(r.GFlops)
	return r
}

// positive is nil for what no rate can be.
func positive(v *float64) *float64 {
	if v == nil || !(*v > 0) {
		return nil
	}
	return v
}
