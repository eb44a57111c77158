// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

func byThreads() *summary.Stat {
	f := func(v float64) *float64 { return &v }
	row := func(phase string, n int, ipc float64) summary.ByThreads {
		return summary.ByThreads{Phase: phase, Threads: n, Steps: 8, TokensPerS: f(20),
			Counts: []summary.Count{},
			CountRatios: summary.CountRatios{IPC: f(ipc), StallShare: f(0.25),
				StallOf: "stall_backend\x1b[31m", Misses: f(0.001), MissesOf: "ll_cache_miss_rd"}}
	}
	return &summary.Stat{ByThreads: []summary.ByThreads{row("prefill", 2, 1.5), row("decode", 1, 1.25),
		row("decode", 16, 0.625)}}
}

func TestByThreads(t *testing.T) {
	p := &page{o: Options{Unicode: true}}
	p.byThreads(byThreads())
	want := `
by threads  threads  steps   t/s   IPC  stalled  misses/1000 instr
decode            1      8  20.0  1.25   25.0 %              <0.01
decode           16      8  20.0  0.62   25.0 %              <0.01
stalled: stall_backend\x1b[31m
misses: ll_cache_miss_rd
`
	if got := p.b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// one number of threads alone is no comparison
	s := byThreads()
	s.ByThreads = s.ByThreads[:2]
	p = &page{}
	if p.byThreads(s); p.b.Len() != 0 {
		t.Errorf("of one number of threads a phase: %s", p.b.String())
	}
	// models are not mixed
	one, two := 0, 1
	s = byThreads()
	s.ByThreads[1].Model, s.ByThreads[2].Model = &one, &two
	if p.byThreads(s); p.b.Len() != 0 {
		t.Errorf("of two models: %s", p.b.String())
	}
}

func TestCompareCounters(t *testing.T) {
	rs := []Recording{{"a.pinf", byThreads()}, {"b\x1b.pinf", byThreads()}, {"none.pinf", &summary.Stat{}}}
	rs[1].Stat.ByThreads = rs[1].Stat.ByThreads[1:2]
	var b bytes.Buffer
	if err := Compare(&b, rs, Options{Unicode: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"recording   by threads", "a.pinf      prefill           2",
		"b\\x1b.pinf  decode            1", "none.pinf: no counters that give a ratio"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), "decode") != 3 || strings.ContainsRune(b.String(), 0x1b) {
		t.Error(b.String())
	}
	b.Reset()
	if err := CompareJSON(&b, rs); err != nil {
		t.Fatal(err)
	}
	var got struct {
		SchemaVersion int `json:"schema_version"`
		Recordings    []struct {
			File     string
			Counters []any
			By       []struct {
				Threads int
				IPC     *float64
			} `json:"counts_by_threads"`
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.SchemaVersion != summary.Schema ||
		len(got.Recordings) != 3 || len(got.Recordings[0].By) != 3 ||
		*got.Recordings[0].By[2].IPC != 0.625 || got.Recordings[2].By == nil {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Recordings without counters are compared by their phases.
func TestCompare(t *testing.T) {
	four := run
	four.Threads, four.Preempt = 4, 0
	a, b := play(t, stat.Options{}, nil, "op", run), play(t, stat.Options{}, nil, "op", four)
	rs := []Recording{{"two.pinf", a}, {"a/folder/four.pinf", b}}
	for _, width := range []int{60, 80, 100, 200} {
		var out bytes.Buffer
		if err := Compare(&out, rs, Options{Width: width, Unicode: true}); err != nil {
			t.Fatal(err)
		}
		checkPrintable(t, out.String(), Options{Width: width, Unicode: true})
		if width == 100 {
			golden(t, "compare.txt", out.Bytes())
		}
	}
	// one that has a phase alone, and one that has none
	only := *a
	only.Phases, only.Verdicts = a.Phases[:1], nil
	var out bytes.Buffer
	rs = []Recording{{"all.pinf", a}, {"none.pinf", &summary.Stat{}}, {"\x1bprefill.pinf", &only}}
	if err := Compare(&out, rs, Options{Unicode: true}); err != nil {
		t.Fatal(err)
	}
	checkPrintable(t, out.String(), Options{Unicode: true})
	if !strings.Contains(out.String(), "\nprefill") || !strings.Contains(out.String(), "\ndecode") {
		t.Error(out.String())
	}
	// ten times and half
	x, y, z := 2.0, 20.0, 1.0
	for got, want := range map[string]string{change(&x, &y, false): "10x", change(&x, &z, false): "-50.0 %",
		change(&x, nil, false): "-", change(&x, &x, false): "+0.0 %", change(&x, &y, true): "+1800.0 points"} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
