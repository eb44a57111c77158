// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"os"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/dag"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

func dags(t *testing.T, opts dag.Options, runs ...profiletest.Run) (*dag.List, *summary.Stat) {
	t.Helper()
	b, s := dag.New(opts), stat.New(stat.Options{})
	p := &profiletest.Player{Sink: profile.Tee(b, s)}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	st := s.Finish(p.Header("op"))
	b.LeaveOut(st.LeavesOut)
	return b.Finish(p.Header("op")), st
}

// agree checks that the DAGs' nodes hold all of the statistics' time.
func agree(t *testing.T, d *dag.List, s *summary.Stat) {
	t.Helper()
	type sums struct{ net, ops, busy, wait, off int64 }
	same := func(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	seen := 0
	for i := range s.Phases {
		f := &s.Phases[i]
		var want, got sums
		want.ops = f.Ops
		if f.OpsDur != nil {
			want.net = *f.OpsDur - *f.Probe
		}
		for _, r := range f.Rows {
			want.busy += r.Busy
			want.wait += r.Wait
			want.off += r.OffCPU
		}
		for j := range d.DAGs {
			g := &d.DAGs[j]
			if g.Phase != f.Phase || !same(g.Model, f.Model) {
				continue
			}
			seen++
			if g.Traced != f.Traced || g.TracedDur != f.TracedDur {
				t.Errorf("%s: %d traced steps in %d ns, Stat has %d in %d", f.Phase, g.Traced, g.TracedDur,
					f.Traced, f.TracedDur)
			}
			var net int64
			for k := range g.Nodes {
				if r := g.Nodes[k].Run; r != nil {
					net += r.Dur - r.Probe
					got.ops += r.Calls
					got.busy += r.Busy
					got.wait += r.Wait
					got.off += r.OffCPU
				}
			}
			if net+g.Unplaced != g.OpsDur-g.Probe {
				t.Errorf("%s: nodes sum up to %d, the DAG says %d", f.Phase, net, g.OpsDur-g.Probe)
			}
			got.net += net
		}
		for _, r := range d.Rest {
			if r.Phase == f.Phase && same(r.Model, f.Model) {
				got.net += r.OpsDur - r.Probe
				got.ops += r.Ops
			}
		}
		if got.net != want.net || got.ops != want.ops {
			t.Errorf("%s: nodes sum up to %d ns in %d operators, Stat has %d in %d", f.Phase, got.net,
				got.ops, want.net, want.ops)
		}
		if len(d.Rest) == 0 && (got.busy != want.busy || got.wait != want.wait || got.off != want.off) {
			t.Errorf("%s: busy, wait, off-CPU %v, Stat has %v", f.Phase, got, want)
		}
	}
	if seen != len(d.DAGs) {
		t.Errorf("%d DAGs are of no phase", len(d.DAGs)-seen)
	}
}

func TestDAGSumsAreStat(t *testing.T) {
	partial := run
	partial.Partial = 7
	only := run
	only.Prefill, only.Decode, only.Partial = 0, 1, 1
	other := run
	other.PID, other.Ctx, other.Model = 99, 0xdef,
		profiletest.Model{Layers: 3, Width: 32, FF: 64, Vocab: 64, Heads: 2, HeadsKV: 1, HeadDim: 16,
			Base: 0x9000000}
	again := run // a second context of the same weights
	again.Ctx, again.Decode = 0x123, 5
	noOps := run
	noOps.NoOps = true
	for name, c := range map[string]struct {
		runs []profiletest.Run
		want int
	}{
		"one":             {[]profiletest.Run{run}, 2},
		"partial steps":   {[]profiletest.Run{partial}, 2},
		"only partial":    {[]profiletest.Run{only}, 1},
		"two models":      {[]profiletest.Run{run, other}, 4},
		"two contexts":    {[]profiletest.Run{run, again}, 2},
		"without":         {[]profiletest.Run{noOps}, 0},
		"with and before": {[]profiletest.Run{noOps, run, partial, other}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := dags(t, dag.Options{}, c.runs...)
			if len(d.DAGs) != c.want {
				t.Errorf("%d DAGs, want %d", len(d.DAGs), c.want)
			}
			agree(t, d, s)
			for i := range d.DAGs {
				if d.DAGs[i].Unplaced != 0 {
					t.Errorf("%d ns are of no node", d.DAGs[i].Unplaced)
				}
			}
		})
	}
}

// TestDAGRecorded checks the same on recordings of a real engine: PROFINFER_RECORDING names one.
func TestDAGRecorded(t *testing.T) {
	name := os.Getenv("PROFINFER_RECORDING")
	if name == "" {
		t.Skip("PROFINFER_RECORDING names no recording")
	}
	r, err := trace.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, s := dag.New(dag.Options{}), stat.New(stat.Options{})
	h, err := profile.Replay(r, profile.Tee(b, s))
	if err != nil {
		t.Fatal(err)
	}
	st := s.Finish(h)
	b.LeaveOut(st.LeavesOut)
	d := b.Finish(h)
	agree(t, d, st)
	for i := range d.DAGs {
		g := &d.DAGs[i]
		layers := 0
		for _, k := range g.Kinds {
			layers += len(k.Layers)
			t.Logf("%s: layers %v, %d roles, %+v", g.Phase, k.Layers, len(k.Roles), k.Spread)
		}
		if g.Ops > 0 && layers == 0 {
			t.Errorf("%s: no layers in %d nodes", g.Phase, len(g.Nodes))
		}
	}
}
