// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/peaks"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/terminal"
)

func figure(v float64) *peaks.Figure {
	return &peaks.Figure{Best: v, Median: v, Worst: v, Trials: 5, Agree: true}
}

// machine is one with peaks of one and two threads.
func machine() *peaks.Peaks {
	point := func(n int, k float64) peaks.Point {
		return peaks.Point{Threads: n, Read: figure(20 * k), Stream: figure(15 * k), F32: figure(150 * k),
			BF16: figure(90 * k), Int8: figure(750 * k), Int8Matrix: figure(4000 * k),
			BF16Matrix: figure(2000 * k)}
	}
	return &peaks.Peaks{SchemaVersion: peaks.SchemaVersion,
		Measured: time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC),
		Machine: peaks.Machine{Arch: "amd64", Model: "A CPU",
			Memory: 8 << 30}, Points: []peaks.Point{point(1, 1), point(2, 2)}}
}

// other is another machine.
func other() *peaks.Peaks {
	p := machine()
	p.Machine.Model = "Another"
	return p
}

// later were measured a day later.
func later(p *peaks.Peaks) *peaks.Peaks {
	p.Measured = p.Measured.AddDate(0, 0, 1)
	return p
}

// disturbed have a best trial that stands alone.
func disturbed(p *peaks.Peaks) *peaks.Peaks {
	p.Points[0].Read.Agree = false
	return p
}

// withPeaks is m with peaks as a recording keeps them.
func withPeaks(m *trace.Meta, p *peaks.Peaks) *trace.Meta {
	b, err := p.Compact()
	if err != nil {
		panic(err)
	}
	q := *m
	q.Extra = map[string]string{"peaks": string(b)}
	return &q
}

func TestRoofFlags(t *testing.T) {
	for _, c := range []struct {
		flags roofFlags
		err   string
	}{
		{roofFlags{bandwidth: "51.2", flops: "1.2T"}, ""},
		{roofFlags{none: true}, ""},
		{roofFlags{bandwidth: "much"}, "--peak-bandwidth"},
		{roofFlags{bandwidth: "0"}, "--peak-bandwidth"},
		{roofFlags{flops: "-3"}, "--peak-flops"},
		{roofFlags{none: true, flops: "3"}, "--no-peaks takes no peaks"},
	} {
		_, err := c.flags.roof()
		if (err == nil) != (c.err == "") || err != nil &&
			(!strings.Contains(err.Error(), c.err) || statusOf(err) != statusUsage) {
			t.Errorf("%+v: %v, want %q with the status of a wrong use", c.flags, err, c.err)
		}
	}
}

func TestRoofOf(t *testing.T) {
	here := &trace.Meta{Arch: "amd64", CPU: "A CPU", MemBytes: 8 << 30}
	f := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name    string
		roof    machineRoof
		meta    *trace.Meta
		source  string
		missing string
		gbps    float64 // of two threads with q4_0; 0: not known
		gflops  float64
	}{
		{"measured here", machineRoof{kept: machine()}, here, "measured 2026-11-19", "", 40, 1500},
		{"of another CPU", machineRoof{kept: machine()}, &trace.Meta{Arch: "amd64", CPU: "Another"}, "",
			"another machine", 0, 0},
		{"of another memory", machineRoof{kept: machine()},
			&trace.Meta{Arch: "amd64", CPU: "A CPU", MemBytes: 16 << 30}, "", "another machine", 0, 0},
		{"not measured", machineRoof{why: "not measured"}, here, "", "not measured", 0, 0},
		{"given", machineRoof{gbps: f(50), gflops: f(200), given: true}, here, "given by hand", "", 50, 200},
		{"one given", machineRoof{kept: machine(), gbps: f(50), given: true}, here,
			"measured 2026-11-19, and given by hand", "", 50, 1500},
		{"kept in the recording", machineRoof{why: "not measured"}, withPeaks(here, machine()),
			"measured 2026-11-19", "", 40, 1500},
		{"kept in the recording of another machine", machineRoof{kept: other()}, withPeaks(here, machine()),
			"measured 2026-11-19", "", 40, 1500},
		{"later in the recording", machineRoof{kept: machine()}, withPeaks(here, later(machine())),
			"measured 2026-11-20", "", 40, 1500},
		{"later here", machineRoof{kept: later(machine())}, withPeaks(here, machine()), "measured 2026-11-20",
			"", 40, 1500},
		{"later in the recording, and disturbed", machineRoof{kept: machine()},
			withPeaks(here, disturbed(later(machine()))), "measured 2026-11-19", "", 40, 1500},
		{"later here, and disturbed", machineRoof{kept: disturbed(later(machine()))},
			withPeaks(here, machine()), "measured 2026-11-19", "", 40, 1500},
		{"the recording's, but not wanted", machineRoof{none: true, why: "left out"},
			withPeaks(here, machine()), "", "left out", 0, 0},
		{"the recording's are of another machine", machineRoof{why: "not measured"}, withPeaks(here, other()),
			"", "not measured", 0, 0},
		{"the recording's are no peaks", machineRoof{why: "not measured"},
			&trace.Meta{Extra: map[string]string{"peaks": `{"points":[`}}, "", "not measured", 0, 0},
		{"one given, of another", machineRoof{kept: machine(), gbps: f(50), given: true},
			&trace.Meta{CPU: "Another"}, "given by hand", "", 50, 0},
	} {
		p := c.roof.of(c.meta)
		if p.Source != c.source || !strings.Contains(p.Missing, c.missing) ||
			(p.Missing == "") != (c.missing == "") {
			t.Errorf("%s: source %q, missing %q", c.name, p.Source, p.Missing)
		}
		var gbps, gflops float64
		if p.At != nil {
			r := p.At(2, "q4_0")
			if r.GBps != nil {
				gbps = *r.GBps
			}
			if r.GFlops != nil {
				gflops = *r.GFlops
			}
		}
		if gbps != c.gbps || gflops != c.gflops {
			t.Errorf("%s: %g GB/s, %g GFLOP/s; want %g, %g", c.name, gbps, gflops, c.gbps, c.gflops)
		}
	}
}

// Each type of weights has the roof of what it is multiplied as.
func TestRoofByType(t *testing.T) {
	m := machine()
	for _, c := range []struct {
		weight         string
		units          string
		gflops, matrix float64
	}{
		{"q4_0", "int8", 750, 4000}, {"q8_0", "int8", 750, 4000}, {"q4_K", "int8", 750, 4000}, {"iq2_xxs",
			"int8", 750, 4000}, {"mxfp4", "int8", 750, 4000},
		{"f32", "f32", 150, 0}, {"f16", "f32", 150, 0}, {"bf16", "f32", 150, 2000}, {"", "f32", 150, 0},
	} {
		r := roofAt(m, 1, c.weight)
		matrix := 0.0
		if r.MatrixGFlops != nil {
			matrix = *r.MatrixGFlops
		}
		if r.Units != c.units || *r.GFlops != c.gflops || matrix != c.matrix || *r.GBps != 20 ||
			*r.StreamGBps != 15 {
			t.Errorf("%q: %+v of %s, %g", c.weight, *r.GFlops, r.Units, matrix)
		}
	}
	for i := range m.Points { // a CPU without 8-bit dot products
		m.Points[i].Int8, m.Points[i].Int8Matrix = nil, nil
	}
	if r := roofAt(m, 1, "q4_0"); r.Units != "f32" || *r.GFlops != 150 || r.MatrixGFlops != nil {
		t.Errorf("without 8-bit dot products: %+v", r)
	}
	if r := roofAt(&peaks.Peaks{}, 1, "q4_0"); r.GBps != nil || r.GFlops != nil {
		t.Errorf("of nothing: %+v", r)
	}
}

// stat and the page take the same roof of a recording, if it is of this machine.
func TestRoofOfRecording(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.pinf")
	meta := func(r *profiletest.Recorder) {
		r.Head = func(m *trace.Meta) { m.Arch, m.CPU, m.MemBytes = "amd64", "A CPU", 8<<30 }
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run := profiletest.Run{Model: profiletest.Small, PID: 100, Ctx: 5, Threads: 2, Prefill: 16, Decode: 4,
		Start: 1e9, Sched: true}
	if err := profiletest.Record(f, meta, func(_ *profiletest.Recorder, p *profiletest.Player) error {
		return p.Play(run)
	}); err != nil {
		t.Fatal(err)
	}
	other := machine()
	other.Machine.Model = "Another CPU"
	for _, c := range []struct {
		name   string
		roof   *machineRoof
		source string
		roofs  int
	}{
		{"of this machine", &machineRoof{kept: machine()}, "measured 2026-11-19", 2},
		{"of another", &machineRoof{kept: other}, "", 0},
	} {
		var s summary.Stat
		if err := json.Unmarshal(output(t, func() error {
			return doStat(file, stat.Options{}, c.roof, true, terminal.Options{})
		}), &s); err != nil {
			t.Fatal(err)
		}
		if s.Peaks == nil || s.Peaks.Source != c.source || len(s.Peaks.Roofs) != c.roofs ||
			(s.Peaks.Missing == "") != (c.source != "") {
			t.Errorf("%s: stat has %+v", c.name, s.Peaks)
		}
		if c.roofs > 0 && (s.Peaks.Roofs[1].Weight != "q4_0" || *s.Peaks.Roofs[1].GFlops != 1500 ||
			s.Phases[0].Rows[0].Bound.OfPeakGBps == nil) {
			t.Errorf("%s: %+v, %+v", c.name, s.Peaks.Roofs[1], s.Phases[0].Rows[0].Bound)
		}
		page := filepath.Join(t.TempDir(), "run.html")
		if err := doReport([]string{file}, page, true, c.roof, profile.Part{}); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(page); err != nil || st.Size() == 0 {
			t.Error(err)
		}
	}
}

// output is what f writes to standard output.
func output(t *testing.T, f func() error) []byte {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = file
	err = f()
	os.Stdout = stdout
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}
