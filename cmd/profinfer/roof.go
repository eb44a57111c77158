// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/peaks"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/trace"
)

// roofFlags select what recordings are compared with.
type roofFlags struct {
	bandwidth, flops string
	none             bool
}

func (r *roofFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.bandwidth, "peak-bandwidth", "",
		"the machine's peak memory bandwidth in GB/s, in place of the measured one (51.2, 1.2TB/s)")
	f.StringVar(&r.flops, "peak-flops", "",
		"its CPUs' peak in GFLOP/s, in place of the measured one (250, 1.2TFLOP/s)")
	f.BoolVar(&r.none, "no-peaks", false, "do not compare with measured peaks")
}

// set reports whether any of them was given.
func (r *roofFlags) set() bool { return r.bandwidth != "" || r.flops != "" || r.none }

// machineRoof determines the peaks of recordings.
type machineRoof struct {
	kept   *peaks.Peaks // of this machine; nil: none
	why    string       // why there are none
	gbps   *float64
	gflops *float64
	given  bool
	none   bool // none was requested
}

// roof reads the flags, and the peaks stored for this machine. Problems with those are reported, but do not
// stop the command.
func (r *roofFlags) roof() (*machineRoof, error) {
	out := &machineRoof{}
	rate := func(flag, text string, parse func(string) (float64, error)) (*float64, error) {
		if text == "" {
			return nil, nil
		}
		v, err := parse(text)
		if err != nil {
			return nil, usage("--%s: %v", flag, err)
		}
		out.given = true
		return &v, nil
	}
	var err error
	if out.gbps, err = rate("peak-bandwidth", r.bandwidth, peaks.ParseBandwidth); err != nil {
		return nil, err
	}
	if out.gflops, err = rate("peak-flops", r.flops, peaks.ParseFlops); err != nil {
		return nil, err
	}
	if r.none {
		if out.given {
			return nil, usage("--no-peaks takes no peaks: give it without --peak-bandwidth and --peak-flops")
		}
		out.none, out.why = true, "left out by --no-peaks"
		return out, nil
	}
	if out.gbps != nil && out.gflops != nil {
		out.none = true // nothing remains to be measured
		return out, nil
	}
	out.kept, err = peaks.Load()
	switch {
	case err != nil:
		warn("%v", err)
		out.why = "the kept peaks cannot be read"
	case out.kept == nil:
		out.why = "not measured on this machine (measure them: profinfer peaks)"
	}
	return out, nil
}

// peaks returns those of the machine of a recording that was read.
func (r *machineRoof) peaks(h *profile.Header) *roof.Peaks { return r.of(&h.Meta) }

// recordedPeaks returns the peaks that the recording contains of its own machine; nil if there are none, or
// if they are of another machine.
func recordedPeaks(m *trace.Meta) *peaks.Peaks {
	p, err := peaks.Parse([]byte(m.Extra["peaks"]))
	if err != nil || !p.MadeOn(m.Arch, m.CPU, m.MemBytes) {
		return nil
	}
	return p
}

// better returns the undisturbed one of two measurements of a machine, or the later one; nil: there is none.
func better(a, b *peaks.Peaks) *peaks.Peaks {
	switch {
	case a == nil || b != nil && !a.Sound() && b.Sound():
		return b
	case b == nil || a.Sound() && !b.Sound() || !b.Measured.After(a.Measured):
		return a
	}
	return b
}

// of returns the peaks of a recording: those stored for this machine if it was made here, or those that it
// contains of its own machine, combined with those given by hand.
func (r *machineRoof) of(m *trace.Meta) *roof.Peaks {
	kept, why := r.kept, r.why
	if kept != nil && !kept.MadeOn(m.Arch, m.CPU, m.MemBytes) {
		kept, why = nil, "the recording is of another machine than this one (give them: --peak-bandwidth, --peak-flops)"
	}
	if !r.none {
		kept = better(kept, recordedPeaks(m))
	}
	p := kept.With(r.gbps, r.gflops)
	if p == nil {
		return &roof.Peaks{Missing: why}
	}
	out := &roof.Peaks{At: func(threads int, weight string) roof.Roof { return roofAt(p, threads, weight) }}
	if kept != nil {
		out.Source = "measured " + kept.Measured.UTC().Format("2006-01-02")
		out.Doubtful, out.CacheBytes = !kept.Sound(), kept.Machine.Cache
	}
	if r.given {
		if out.Source != "" {
			out.Source += ", and "
		}
		out.Source += "given by hand"
	}
	return out
}

// roofAt returns the roof of matmuls with weights of a type: the memory's rate, and that of the type their
// elements are multiplied as. Source: ggml/src/ggml-cpu/simd-mappings.h: f16 is widened to f32 on x86-64, and
// multiplied directly on Arm where the CPU supports it.
func roofAt(p *peaks.Peaks, threads int, weight string) roof.Roof {
	out := roof.Roof{Threads: threads, GBps: p.Rate(peaks.Read, threads),
		StreamGBps: p.Rate(peaks.Stream, threads), Units: "f32"}
	most := func(ws ...peaks.What) *float64 {
		var v *float64
		for _, w := range ws {
			if x := p.Rate(w, threads); x != nil && (v == nil || *x > *v) {
				v = x
			}
		}
		return v
	}
	switch {
	case ops.IsQuantised(weight):
		out.Units, out.GFlops, out.MatrixGFlops = "int8", most(peaks.Int8), most(peaks.Int8Matrix)
		if out.GFlops == nil { // older CPUs widen to 16 bits or to floats
			out.Units, out.GFlops = "f32", most(peaks.F32)
		}
	case weight == "bf16":
		out.GFlops, out.MatrixGFlops = most(peaks.F32, peaks.BF16), most(peaks.BF16Matrix)
	case weight == "f16", weight == "":
		out.GFlops = most(peaks.F32, peaks.F16)
	default:
		out.GFlops = most(peaks.F32)
	}
	if p.GivenGBps != nil {
		out.GBps, out.StreamGBps = p.GivenGBps, nil
	}
	if p.GivenGFlops != nil {
		out.GFlops, out.MatrixGFlops, out.Units = p.GivenGFlops, nil, ""
	}
	return out
}
