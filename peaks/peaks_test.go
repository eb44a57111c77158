// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"testing"
	"time"
)

func fig(v float64) *Figure {
	return &Figure{Best: v, Median: v, Worst: v, Trials: 5, Agree: true, Kernel: "k"}
}

// some peaks of a machine with four CPUs
func sample() *Peaks {
	m, _ := readMachine(server())
	return &Peaks{SchemaVersion: SchemaVersion, Machine: m,
		Measured: time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC), TookNS: 4e9, CPUs: []int{0, 1, 2, 3},
		Kernels: []KernelRate{{What: Read, Kernel: "k", Rate: 20}},
		Points: []Point{
			{Threads: 1, Read: fig(20), F32: fig(100), Int8: fig(400)},
			{Threads: 2, Read: fig(36), F32: fig(200)},
			{Threads: 4, Read: fig(40), F32: fig(300), Int8: fig(1000)},
		}}
}

func TestAt(t *testing.T) {
	p := sample()
	for _, c := range []struct {
		threads          int
		gbps, gflops, i8 float64
	}{{1, 20, 100, 400}, {2, 36, 200, 600}, {3, 38, 250, 800}, {4, 40, 300, 1000}, {64, 40, 300, 1000}} {
		g, f, i := p.At(c.threads)
		if g == nil || f == nil || i == nil || *g != c.gbps || *f != c.gflops || *i != c.i8 {
			t.Errorf("%d threads: %v %v %v", c.threads, *g, *f, *i)
		}
	}
	if p.Points[0].Read.Best != 20 {
		t.Error("At changed the points")
	}
	for _, n := range []int{0, -1} {
		if g, f, i := p.At(n); g != nil || f != nil || i != nil {
			t.Errorf("%d threads have a roof", n)
		}
	}
	var none *Peaks
	if g, f, i := none.At(1); g != nil || f != nil || i != nil {
		t.Error("no peaks have a roof")
	}
	if p.Rate(F16, 2) != nil || none.Rate(F32, 2) != nil || p.Rate("nonsense", 1) != nil {
		t.Error("what was not measured has a rate")
	}
	// before the first point: its own
	p.Points = p.Points[1:]
	if g, _, i := p.At(1); *g != 36 || *i != 1000 {
		t.Errorf("below the first point: %v %v", *g, *i)
	}
}

func TestWith(t *testing.T) {
	p := sample()
	bw, fl := 51.2, 777.0
	q := p.With(&bw, nil)
	if g, f, i := q.At(2); *g != bw || *f != 200 || *i != 600 {
		t.Errorf("bandwidth given: %v %v %v", *g, *f, *i)
	}
	if p.GivenGBps != nil {
		t.Error("With changed what it was called on")
	}
	q = p.With(nil, &fl)
	if g, f, i := q.At(1); *g != 20 || *f != fl || i != nil {
		t.Errorf("compute given: %v %v %v", *g, *f, i)
	}
	if p.GivenGBps != nil || p.GivenGFlops != nil {
		t.Error("With changed what it was called on")
	}
	var none *Peaks
	if none.With(nil, nil) != nil {
		t.Error("nothing given to nothing is something")
	}
	if g, f, i := none.With(&bw, &fl).At(9); *g != bw || *f != fl || i != nil {
		t.Error("given alone")
	}
}

func TestMadeOn(t *testing.T) {
	p := sample()
	p.Machine.Memory = 16 << 30
	for _, c := range []struct {
		arch, cpu string
		memory    int64
		want      bool
	}{
		{p.Machine.Arch, "An EPYC", 16 << 30, true}, {"", "", 0, true}, {p.Machine.Arch, "An EPYC", 17 << 30,
			true},
		{p.Machine.Arch, "An EPYC", 32 << 30, false}, {p.Machine.Arch, "Another", 16 << 30, false}, {"s390x",
			"An EPYC", 16 << 30, false},
	} {
		if got := p.MadeOn(c.arch, c.cpu, c.memory); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	var none *Peaks
	bw := 1.0
	if none.MadeOn("", "", 0) || !none.With(&bw, nil).MadeOn("s390x", "any", 5) {
		t.Error("no peaks, or given ones")
	}
}

func TestReplaces(t *testing.T) {
	sound, apart, cut := sample(), sample(), sample()
	apart.Points[2].Int8.Agree = false
	low, high := 0.9, 0.98
	cut.Points[0].Read.CPU = &low
	sound.Points[0].Read.CPU = &high
	if !sound.Sound() || apart.Sound() || cut.Sound() {
		t.Error("sound or not")
	}
	few := sample()
	few.Points = few.Points[:2]
	for i, c := range []struct {
		p, old *Peaks
		want   bool
	}{{few, sound, false}, {few, apart, false}, {sound, few, true}, {apart, few, false}, {few, few,
		true}, {few, &Peaks{}, true}, {&Peaks{}, few, false}, {apart, nil, true}, {sound, sound, true},
		{sound, apart, true}, {apart, cut, true}, {cut, sound, false}, {apart, sound, false}} {
		if ok, why := c.p.Replaces(c.old); ok != c.want || ok != (why == "") {
			t.Errorf("case %d: %v, %q", i, ok, why)
		}
	}
}

func TestGiven(t *testing.T) {
	for s, want := range map[string]float64{"51.2": 51.2, "51.2GB/s": 51.2, " 51.2 gb/s ": 51.2,
		"900 MB/s": 0.9, "1.2TB/s": 1200, "1GiB/s": 1.073741824,
		"8g": 8, "2e1": -1, "1000000B/s": 0.001, "20GBps": 20, "0": -1, "-3": -1, "": -1, "GB/s": -1,
		"1e400": -1, "nan": -1, "inf": -1, "5 GFLOP/s": -1,
		"5 GB/h": -1, "5 XB/s": -1, "1.2.3": -1, "1000000PB/s": -1, "0x10": -1, "5ib": -1} {
		got, err := ParseBandwidth(s)
		if (err != nil) != (want < 0) || err == nil && abs(got-want) > 1e-12 {
			t.Errorf("bandwidth %q: %v, %v", s, got, err)
		}
	}
	for s, want := range map[string]float64{"250": 250, "250GFLOP/s": 250, "1.2T": 1200, "1.2TFLOPS": 1200,
		"3 gflops": 3, "500MFLOPs/s": 0.5, "7GB/s": -1, "1GiFLOP/s": -1, "": -1,
		"flop": -1, "4Tflop": 4000} {
		got, err := ParseFlops(s)
		if (err != nil) != (want < 0) || err == nil && abs(got-want) > 1e-12 {
			t.Errorf("flops %q: %v, %v", s, got, err)
		}
	}
}

func abs(v float64) float64 { return max(v, -v) }
