// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
)

// Operators follow one another inside their graph, graphs inside their step; on each thread
// begin, busy, off-CPU and wait account for the operator.
func TestSums(t *testing.T) { sums(t, math.Inf(1)) }

// Steps account for llama-bench's own figure.
func TestQuietSums(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	sums(t, 0.03)
}

func sums(t *testing.T, within float64) {
	e := engines.Debian(t)
	const steps = 64
	_, inside := engines.Model(t, e, "llama-small")
	for _, threads := range []string{"1", "2"} {
		t.Run(threads+" threads", func(t *testing.T) {
			needBPF(t)
			path := filepath.Join(t.TempDir(), "run.pinf")
			argv := append([]string{"record", "-o", path, "--"},
				e.Command("llama-bench", "-m", inside, "-t", threads, "-p", "0", "-n", fmt.Sprint(steps),
					"-r", "1", "-o", "json")...)
			out, err := exec.Command(program, argv...).Output()
			if err != nil {
				t.Fatal(err)
			}
			var bench []struct {
				AvgTS float64 `json:"avg_ts"`
			}
			if err := json.Unmarshal(out[strings.IndexByte(string(out), '['):], &bench); err != nil ||
				len(bench) != 1 {
				t.Fatalf("llama-bench's output: %v\n%s", err, out)
			}
			r := load(t, path)
			r.lossless(t)
			var decode []*profile.Step
			for _, s := range r.steps {
				if s.Phase == profile.Decode {
					decode = append(decode, s)
				}
			}
			decode = decode[len(decode)-steps:] // the warm-up comes first
			var sum, gaps, ops int64
			for _, s := range decode {
				sum += s.Dur
				gaps += accounts(t, r, s)
				ops += s.OpsDur
			}
			tps := float64(steps) / (float64(sum) / 1e9)
			off := tps/bench[0].AvgTS - 1
			t.Logf("%d steps, %.1f t/s, llama-bench says %.1f (%+.2f %%); operators %.1f %%, gaps %.1f %%",
				steps, tps, bench[0].AvgTS,
				off*100, 100*float64(ops)/float64(sum), 100*float64(gaps)/float64(sum))
			if math.Abs(off) > within {
				t.Errorf("%.2f t/s, llama-bench says %.2f", tps, bench[0].AvgTS)
			}
		})
	}
}

// accounts checks that the parts of a step add up, and returns what lies between operators.
func accounts(t testing.TB, r *run, s *profile.Step) (gaps int64) {
	t.Helper()
	at := s.Start
	for _, g := range r.graphsOf(s) {
		if g.Start < at || g.Start+g.Dur > s.Start+s.Dur {
			t.Errorf("step %d: graph %d lies outside of it", s.ID, g.ID)
		}
		gaps += g.Start - at
		at = g.Start
		for _, o := range r.ops {
			if o.Graph != g {
				continue
			}
			if o.Start < at {
				t.Errorf("step %d: %s begins %d ns before the one before it ended", s.ID, o.NodeDef().Name,
					at-o.Start)
			}
			gaps += o.Start - at
			at = o.Start + o.Dur
			var busy, wait, off int64
			for _, th := range o.Threads {
				if th.Start-o.Start+th.Busy+th.OffCPU+th.Wait != o.Dur || th.Busy < 0 || th.OffCPU < 0 ||
					th.Wait < 0 {
					t.Errorf("step %d: %s on thread %d: begin +%d, busy %d, off %d, wait %d, of %d", s.ID,
						o.NodeDef().Name, th.TID,
						th.Start-o.Start, th.Busy, th.OffCPU, th.Wait, o.Dur)
				}
				busy, wait, off = busy+th.Busy, wait+th.Wait, off+th.OffCPU
			}
			if busy != o.Busy || wait != o.Wait || off != o.OffCPU {
				t.Errorf("step %d: %s: sums over its threads are wrong", s.ID, o.NodeDef().Name)
			}
		}
		if at > g.Start+g.Dur {
			t.Errorf("step %d: an operator ends after its graph", s.ID)
		}
		gaps += g.Start + g.Dur - at
		at = g.Start + g.Dur
	}
	gaps += s.Start + s.Dur - at
	if gaps+s.OpsDur != s.Dur {
		t.Errorf("step %d: operators %d + gaps %d are not %d", s.ID, s.OpsDur, gaps, s.Dur)
	}
	return gaps
}

// Whatever does not fit is counted: the same work with rings that are far too small.
func TestLossesAreCounted(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	const steps = 2000
	command := e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", fmt.Sprint(steps), "-r",
		"1", "--no-warmup")
	all := load(t, record(t, []string{"--two-hits"}, command...))
	all.lossless(t)
	if len(all.steps) != steps {
		t.Fatalf("%d steps", len(all.steps))
	}
	few := load(t, record(t, []string{"--ring-size", "16", "--two-hits"}, command...))
	if few.header.End.Lost == 0 {
		t.Fatal("nothing was lost in rings of 16 KiB")
	}
	if got, want := few.header.End.Hits+few.header.End.Lost, all.header.End.Hits; got != want {
		t.Errorf("recorded %d + lost %d = %d, executed %d", few.header.End.Hits, few.header.End.Lost, got,
			want)
	}
	var told uint64
	for _, l := range few.header.Losses {
		if l.Why == "lost" && l.What == "hits" {
			told += l.Events
		}
	}
	if told != few.header.End.Lost {
		t.Errorf("%d losses are told, %d counted", told, few.header.End.Lost)
	}
	whole := 0
	for _, s := range few.steps {
		if s.Incomplete == "" {
			whole++
			if s.Ops != all.steps[0].Ops {
				t.Errorf("step %d is said to be whole with %d operators of %d", s.ID, s.Ops, all.steps[0].Ops)
			}
		}
	}
	t.Logf("%d hits; with small rings %d recorded, %d lost, %d steps of %d whole", all.header.End.Hits,
		few.header.End.Hits,
		few.header.End.Lost, whole, len(few.steps))
}
