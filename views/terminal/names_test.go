// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// inMiddle is a name that goes on behind its mark. A mark stands at a name's end: behind it come the next
// column, the figure of an item, or what closes a word. At a path's beginning it stands for folders.
var inMiddle = regexp.MustCompile(`…[^ ,)\n/:]|[^ \n]…/`)

// TestNoNameCutInItsMiddle draws every recording of the trials at many widths, in every view of it.
func TestNoNameCutInItsMiddle(t *testing.T) {
	marks, lists := 0, 0
	for _, trial := range profiletest.Trials() {
		if trial.Large {
			continue // as the others, but for their size
		}
		t.Run(trial.Name, func(t *testing.T) {
			var file bytes.Buffer
			if err := trial.Write(&file); err != nil {
				t.Fatal(err)
			}
			r, err := trace.NewReader(bytes.NewReader(file.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			bys := []facts.By{facts.ByWeight, facts.ByOp, facts.ByLayer, facts.ByBlock, facts.ByThread,
				facts.ByStep, facts.ByExpert}
			slow := slow.New(slow.Options{})
			sinks := []profile.Sink{slow}
			var builders []*stat.Builder
			for _, by := range bys {
				builders = append(builders, stat.New(stat.Options{By: by}))
				sinks = append(sinks, builders[len(builders)-1])
			}
			h, err := profile.Replay(r, profile.Tee(sinks...))
			if err != nil {
				t.Fatal(err)
			}
			s := slow.Finish(h)
			var stats []*summary.Stat
			for _, b := range builders {
				stats = append(stats, b.Finish(h))
			}
			for width := 60; width <= 200; width += 10 {
				for _, verbose := range []bool{false, true} {
					o := Options{File: "a/recording/of/a/long/path/to/show/that/it/is/cut/where/it/begins/" +
						trial.Name + ".pinf", Width: width, Unicode: true, Verbose: verbose}
					check := func(view string, draw func(*bytes.Buffer) error) {
						var b bytes.Buffer
						if err := draw(&b); err != nil {
							t.Fatal(err)
						}
						text := strings.ReplaceAll(b.String(), "\\u2026", "") // a name's own
						if at := inMiddle.FindStringIndex(text); at != nil {
							t.Errorf("%s at %d columns cuts a name in its middle: %q", view, width,
								text[max(0, at[0]-30):min(len(text), at[1]+30)])
						}
						for l := range strings.Lines(text) {
							if n := textWidth(strings.TrimSuffix(l, "\n")); n > width {
								t.Errorf("%s at %d columns has a line of %d: %s", view, width, n, l)
							}
						}
						marks += strings.Count(text, "…")
						lists += strings.Count(text, " more")
					}
					for i, stat := range stats {
						check("stat --by "+string(bys[i]), func(b *bytes.Buffer) error {
							return Stat(b, stat, o)
						})
						full := o
						full.Full = true
						check("stat --full --by "+string(bys[i]), func(b *bytes.Buffer) error {
							return Stat(b, stat, full)
						})
					}
					check("stat --slow", func(b *bytes.Buffer) error { return Slow(b, stats[0], s, o) })
					check("stat of two", func(b *bytes.Buffer) error {
						return Compare(b, []Recording{{File: o.File, Stat: stats[0]},
							{File: "b.pinf", Stat: stats[0]}}, o)
					})
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	if marks == 0 || lists == 0 {
		t.Errorf("%d names and %d lists were cut: the trials try nothing", marks, lists)
	}
}

// Who took a thread's CPU is what a reader looks for: at 80 columns the name stands there whole, behind its
// own team's.
func TestCulpritAt80(t *testing.T) {
	names := []string{"compile", "kworker/u8:4-ev", "a_name_of_15_by"} // the kernel keeps 15 bytes
	for _, name := range names {
		stat := play(t, stat.Options{By: facts.ByThread}, nil, "op", run)
		long := int64(1234)
		for i := range stat.Threads {
			h := &stat.Threads[i]
			h.Comm, h.TID, h.Runnable, h.Preempted = "llama-server-ab", 4_194_303-int32(i), &long, &long
			h.Instead = []sched.Culprit{{Own: true, Comm: h.Comm, Dur: 5_230_000_000, Count: 9},
				{Comm: name, Dur: 629_000_000, Count: 7},
				{Comm: "git", Dur: 61_000_000, Count: 3}, {Comm: "sh", Dur: 60_000_000,
					Count: 2}, {Comm: "cc1plus", Dur: 6_000_000, Count: 1}}
			h.WokenBy = []sched.Culprit{{Own: true, Count: 2}, {Comm: "ksoftirqd/0", Count: 1}}
		}
		parts := []slow.Part{{Cause: slow.SlowOther, Ns: 700_000_000, Share: 0.9,
			Who: []slow.Who{{Comm: name, PID: 77, Ns: 600_000_000}, {Comm: "another_of_15_b", Ns: 90_000_000},
				{Comm: "git", Ns: 10_000_000}}},
			{Cause: slow.SlowUnexplained, Ns: 77_000_000, Share: 0.1}, {Cause: slow.SlowImbalance,
				Ns: -15_000_000, Share: -0.02}}
		slow := &slow.Slow{Steps: 64, Slow: 1, HasSched: true, HasOps: true, Dur: 5e9, Excess: 777_000_000,
			Causes: parts,
			Listed: []slow.Step{{Step: 1234, Phase: "decode", Dur: 1_240_000_000, Baseline: 206_000_000,
				Excess: 777_000_000, Parts: parts, Ops: []slow.Op{{Name: "attn_output", Dur: 9e6}}}},
			Interference: slow.Interference{By: []slow.Interferer{{Comm: name, PID: 4_194_303,
				Ran: 600_000_000, Times: 12_345, CPUs: []int{0, 2, 4, 6, 8, 10, 12, 14}, Cost: 500_000_000,
				Ops: []slow.PaidBy{{Name: "ffn_down", Ns: 9e6},
					{Name: "ffn_up", Ns: 8e6}}, Waited: []slow.PaidBy{{Name: "4242", Ns: 9e6}}}}}}
		for _, width := range []int{80, 100, 120, 160, 200} {
			for _, unicode := range []bool{false, true} {
				o := Options{File: "run.pinf", Width: width, Unicode: unicode, Full: true}
				var a, b bytes.Buffer
				if err := Stat(&a, stat, o); err != nil {
					t.Fatal(err)
				}
				if err := Slow(&b, stat, slow, o); err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(a.String(), name+" 629 ms"); n != 2 {
					t.Errorf("at %d columns %s stands %d times in the table of 2 threads:\n%s", width, name,
						n, a.String())
				}
				for _, part := range []string{name + " 600 ms", name + "+another_of_15_b+1 90 %",
					name + " 4194303"} {
					if !strings.Contains(b.String(), part) {
						t.Errorf("at %d columns there is no %q:\n%s", width, part, b.String())
					}
				}
				checkPrintable(t, a.String()+b.String(), o)
			}
		}
	}
}

// TestTableCells makes tables of every kind of column: whatever the width, a cell is whole, or cut as its
// column says.
func TestTableCells(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string { return strings.Repeat("abcdefghij", 9)[:1+rnd.IntN(most)] }
	for range 3000 {
		var tab table
		rows := 1 + rnd.IntN(4)
		var was []column
		for c := range 1 + rnd.IntN(6) {
			col := column{title: word(12), left: rnd.IntN(2) > 0, keep: rnd.IntN(9)}
			kind := rnd.IntN(5)
			switch kind {
			case 0:
				col.min = 1 + rnd.IntN(20)
			case 1:
				col.path = true
			case 2:
				col.whole, col.most = rnd.IntN(3), rnd.IntN(5)
			}
			for range rows {
				switch kind {
				case 1:
					col.add("/" + word(20) + "/" + word(20) + "/" + word(9))
				case 2:
					var items []string
					for range rnd.IntN(6) {
						items = append(items, word(14))
					}
					col.addList(items)
				case 3:
					col.addOr(word(40), word(8))
				default:
					col.add(word(30))
				}
			}
			col.title = fmt.Sprint(c) + col.title
			was = append(was, col)
			tab.col(col)
		}
		limit := 10 + rnd.IntN(140)
		tab.fit(limit, "…")
		// the first stays
		if first := &was[0]; tab.width() > limit && (len(tab.cols) > 1 || first.min > 0 || first.path) {
			t.Fatalf("%d wide, the terminal %d: %+v", tab.width(), limit, was)
		}
		for _, c := range tab.cols {
			i := slices.IndexFunc(was, func(w column) bool { return w.title == c.title })
			if i < 0 {
				continue // a title of its own that did not fit
			}
			w := &was[i]
			for r, cell := range c.cells {
				from := w.cells[r]
				switch {
				case cell == from || len(w.brief) > 0 && cell == w.brief[r]:
				case w.path && strings.HasPrefix(cell, "…/") && strings.HasSuffix(from, cell[len("…"):]):
				case w.path && (strings.HasSuffix(cell, "…") || strings.HasSuffix(from, "/"+cell)):
				case w.min > 0 && strings.HasSuffix(cell, "…") &&
					strings.HasPrefix(from, strings.TrimSuffix(cell, "…")):
				case w.lists != nil && wholeItems(w, w.lists[r], cell):
				default:
					t.Fatalf("%q became %q", from, cell)
				}
			}
		}
	}
}

func wholeItems(c *column, list []string, cell string) bool {
	for n := 1; n < len(list); n++ {
		if cell == c.items(list, n) && strings.HasSuffix(cell, fmt.Sprintf(", +%d more", len(list)-n)) {
			return true
		}
	}
	return false
}
