// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"os"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

func dags(t *testing.T, opts profile.DAGOptions, runs ...profiletest.Run) (*profile.DAGs, *profile.Stat) {
	t.Helper()
	b, s := profile.NewDAGs(opts), profile.NewStat(profile.StatOptions{})
	p := &profiletest.Player{Sink: profile.Tee(b, s)}
	for _, r := range runs {
		if err := p.Play(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(p.Header("op")), s.Finish(p.Header("op"))
}

// agree checks that the DAGs' nodes hold all of the statistics' time.
func agree(t *testing.T, d *profile.DAGs, s *profile.Stat) {
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
				t.Errorf("%s: %d traced steps in %d ns, Stat has %d in %d", f.Phase, g.Traced, g.TracedDur, f.Traced, f.TracedDur)
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
			t.Errorf("%s: nodes sum up to %d ns in %d operators, Stat has %d in %d", f.Phase, got.net, got.ops, want.net, want.ops)
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
	d, s := dags(t, profile.DAGOptions{}, run)
	if len(d.DAGs) != 2 {
		t.Fatalf("%d DAGs", len(d.DAGs))
	}
	agree(t, d, s)
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
	b, s := profile.NewDAGs(profile.DAGOptions{}), profile.NewStat(profile.StatOptions{})
	h, err := profile.Replay(r, profile.Tee(b, s))
	if err != nil {
		t.Fatal(err)
	}
	d := b.Finish(h)
	agree(t, d, s.Finish(h))
	for i := range d.DAGs {
		g := &d.DAGs[i]
		t.Logf("%s: %d nodes, %d edges, %d runs", g.Phase, len(g.Nodes), len(g.Edges), g.Runs)
		for _, k := range g.Kinds {
			t.Logf("  layers %v: %d roles, %+v", k.Layers, len(k.Roles), k.Spread)
			for _, r := range k.Roles {
				if r.Spread != nil {
					n := &g.Nodes[r.Nodes[0]]
					t.Logf("    %-14s %-22s %-10s %-10s %8.1f %+v", r.Name, n.Op, n.Block, n.Section, r.Spread.Mean, r.Spread.Outliers)
				}
			}
		}
	}
}
