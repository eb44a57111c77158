// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"testing"
	"time"

	"github.com/profinfer/profinfer/peaks"
)

func rated(best, median float64, kernel string) *peaks.Figure {
	return &peaks.Figure{Best: best, Median: median, Worst: median / 2, Trials: 5, Agree: true, CPU: f(1),
		Kernel: kernel}
}

// roof is a laptop's: two points, and what a busy machine's measurement says.
func madePeaks() *peaks.Peaks {
	return &peaks.Peaks{SchemaVersion: 1, Tool: "0.1.0",
		Measured: time.Date(2026, 11, 19, 6, 0, 0, 0, time.UTC), TookNS: 4e9, CPUs: []int{0, 1},
		Machine: peaks.Machine{Arch: "amd64", Model: "Some CPU @ 3 GHz", CPU: "a", CPUs: 2, Online: "0-1",
			Memory: 8 << 30, Cache: 12 << 20},
		Points: []peaks.Point{
			{Threads: 1, Read: rated(20, 19.8, "AVX2, four streams"), Stream: rated(15.1, 15, "AVX2"),
				F32: rated(94.4, 94, "AVX2 FMA"), Int8: rated(376.4, 376, "AVX-VNNI"), GHz: new(2.95)},
			{Threads: 2, Read: rated(37.2, 33, "AVX2, four streams"), Stream: rated(29.5, 29.4, "AVX2"),
				F32: rated(188, 187.9, "AVX2 FMA"), Int8: rated(752, 751, "AVX-VNNI"), GHz: new(2.95)},
		},
		Kernels: []peaks.KernelRate{{What: peaks.Read, Kernel: "AVX2", Rate: 15.1},
			{What: peaks.F32, Kernel: "AVX2 FMA", Rate: 94.4}, {What: peaks.Int8, Kernel: "AVX-VNNI",
				Rate: 376.4}},
		Others: new(0.01), Load: new(0.2)}
}

func TestPeaksGolden(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	wide := Options{Width: 160, Unicode: true}
	verbose := wide
	verbose.Verbose = true
	busy := madePeaks()
	busy.Points[1].Read.Agree = false
	busy.Points[1].F32.CPU = new(0.6)
	busy.Warnings = []string{"others took 37 % of these CPUs' time: measure again when the machine is quiet"}
	board := madePeaks()
	board.Machine = peaks.Machine{Arch: "arm64", Model: "evil\x1b[2Jboard\u202e", CPUs: 8,
		Kinds: []string{"Cortex-A76", "Cortex-A55"}}
	board.Points[0].F16, board.Points[0].Int8Matrix = rated(60, 59, "NEON FMLA"),
		rated(500, 499, "NEON SMMLA")
	board.Points[0].GHz, board.Points[1].Int8 = nil, nil
	board.Kinds = []peaks.Kind{
		{Name: "Cortex-A76\r", CPUs: []int{4, 5, 6, 7}, Points: board.Points[:1]},
		{Name: "Cortex-A55", CPUs: []int{0, 1, 3},
			Points: []peaks.Point{{Threads: 1, Read: rated(4, 4, "NEON")}}},
	}
	bare := &peaks.Peaks{SchemaVersion: 1, Measured: now, Points: []peaks.Point{{Threads: 1}}}
	for _, c := range []struct {
		name string
		r    *peaks.Peaks
		o    Options
	}{
		{"usual", madePeaks(), wide},
		{"verbose", madePeaks(), verbose},
		{"80", madePeaks(), Options{Width: 80}},
		{"40", madePeaks(), Options{Width: 40}},
		{"busy", busy, Options{Width: 120, Color: true, Unicode: true}},
		{"board", board, wide},
		{"bare", bare, wide},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Peaks(&b, c.r, now, c.o); err != nil {
				t.Fatal(err)
			}
			golden(t, "peaks-"+c.name+".txt", b.Bytes())
			checkPrintable(t, b.String(), c.o)
		})
	}
	var b bytes.Buffer
	if err := JSON(&b, madePeaks()); err != nil {
		t.Fatal(err)
	}
	golden(t, "peaks.json", b.Bytes())
	if p, err := peaks.Parse(b.Bytes()); err != nil || len(p.Points) != 2 {
		t.Errorf("its own JSON is not read: %v", err)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "", time.Minute: "",
		90 * time.Minute: " (1 hour ago)", 47 * time.Hour: " (47 hours ago)", 60 * time.Hour: " (2 days ago)"} {
		if got := age(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}

func TestList(t *testing.T) {
	if got := list([]int{0, 1, 2, 5, 7, 8}); got != "0-2,5,7-8" {
		t.Error(got)
	}
}
