// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/summary"
)

// expertsOf is what a phase's tokens chose. Names are meant to do harm; the load of expert i in layer l is
// known without a file.
func expertsOf() *experts.Stat {
	share := func(v float64) *float64 { return &v }
	e := &experts.Stat{Bytes: share(446 << 20), BytesAll: share(6.5 * (1 << 30)), Again: share(0.344),
		ByChance: share(0.0667),
		Cache: []experts.Cache{{Experts: 1, Hits: 0.107}, {Experts: 32, Hits: 0.87},
			{Experts: 60, Hits: 0.92}},
		NotSeen: 3, Slots: 1, Dropped: 1200,
		Products: []experts.Product{
			{Weight: "ffn_up_exps", Type: "q4_0", PerNew: share(2_010_000),
				New: []experts.NewCalls{{New: 0, Calls: 40, Median: 514_000},
					{New: 4, Calls: 100, Median: 7_650_000}}},
			{Weight: "ffn_\x1b[31mgate\nexps", Type: "q4_0", PerNew: share(0.4),
				New: []experts.NewCalls{{New: 1, Calls: 40, Median: 500_000},
					{New: 2, Calls: 40, Median: 500_000}}},
			{Weight: "ffn_down_exps", Type: "q\u202e4", PerNew: share(-7_000),
				New: []experts.NewCalls{{New: 0, Calls: 40, Median: 514_000},
					{New: 1, Calls: 100, Median: 507_000}}},
			{Weight: "other", Type: "f16", New: []experts.NewCalls{{New: 3, Calls: 1, Median: 90_000}}},
		}}
	for l := range 3 {
		x := experts.Layer{Layer: &l, Experts: 60, Used: 4, Batches: 129, Tokens: 129, Distinct: 4,
			Imbalance: float64(l) * 2.5, Again: share(0.1 * float64(l)), Load: make([]int64, 60)}
		if l == 2 {
			x.Layer, x.Again = nil, nil
		}
		for i := range x.Load {
			x.Load[i] = int64(i*(l+1)) % 11
			if x.Load[i] == 0 {
				x.Unused++
			}
		}
		e.Layers = append(e.Layers, x)
	}
	return e
}

func TestExpertsGolden(t *testing.T) {
	uneven, none, slots := expertsOf(), &summary.Phase{Phase: "decode"}, &experts.Stat{Slots: 7}
	uneven.Layers[1].Used, uneven.Layers[1].Experts, uneven.Layers[1].Load = 8, 128, make([]int64, 128)
	uneven.Again, uneven.ByChance, uneven.Bytes, uneven.Cache, uneven.Products = nil, nil, nil, nil, nil
	for _, c := range []struct {
		name string
		f    *summary.Phase
		o    Options
	}{
		{"usual", &summary.Phase{Phase: "decode", Experts: expertsOf()}, Options{Width: 120, Unicode: true}},
		{"40", &summary.Phase{Phase: "decode", Experts: expertsOf()}, Options{Width: 40}},
		{"uneven", &summary.Phase{Phase: "prefill", Experts: uneven}, Options{Width: 160}},
		{"slots", &summary.Phase{Phase: "decode", Experts: slots}, Options{Width: 80}},
		{"none", none, Options{Width: 80}},
	} {
		s := &summary.Stat{Phases: []summary.Phase{*c.f}}
		p := &page{o: c.o}
		p.experts(s, c.f)
		var b bytes.Buffer
		b.WriteString(p.b.String())
		golden(t, "experts-"+c.name+".txt", b.Bytes())
		checkPrintable(t, b.String(), c.o)
	}
}

// Times by new experts are drawn only where there is something to compare, and a slope of nothing is called
// so.
func TestExpertsProducts(t *testing.T) {
	e := expertsOf()
	s := &summary.Stat{Phases: []summary.Phase{{Phase: "decode", Experts: e}}}
	draw := func() string {
		p := &page{o: Options{Width: 200}}
		p.expertProducts(s, &s.Phases[0])
		return p.b.String()
	}
	out := draw()
	for weight, want := range map[string]string{"ffn_up_exps": "2.01 ms", "gate": "nothing",
		"ffn_down_exps": "nothing", "other": "-"} {
		found := false
		for line := range strings.Lines(out) {
			found = found || strings.Contains(line, weight) &&
				strings.HasSuffix(strings.TrimSpace(line), want)
		}
		if !found {
			t.Errorf("no line of %s ends with %s:\n%s", weight, want, out)
		}
	}
	for i := range e.Products {
		e.Products[i].PerNew = nil
	}
	if out := draw(); out != "" {
		t.Errorf("drawn though the number of new ones is the same everywhere:\n%s", out)
	}
	e.Products = nil
	if out := draw(); out != "" {
		t.Errorf("%q is drawn of no products", out)
	}
}
