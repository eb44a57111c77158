// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/trace"
)

// expertRun plays steps whose fifth operator is a product with eight of 256 experts: 100 µs, and each new one
// of them costs more.
type expertRun struct {
	*slowRun
	shape *profile.Shape
	set   []int32
	next  int32
}

const newCosts = 50_000

func newExpertRun() *expertRun {
	nodes := []trace.Node{
		{Name: "ffn_moe_down-3", Op: "MUL_MAT_ID", Src: []int32{1, 2, 3}, ViewSrc: -1, Executes: true},
		{Name: "blk.3.ffn_down_exps.weight", Op: "NONE", Leaf: true, Type: "q4_0", ViewSrc: -1},
		{Name: "ffn_moe_swiglu-3", Op: "NONE", Leaf: true, ViewSrc: -1},
		{Name: "ffn_moe_topk-3", Op: "NONE", Leaf: true, ViewSrc: -1},
	}
	return &expertRun{slowRun: newSlowRun(Options{}),
		shape: &profile.Shape{Shape: &trace.Shape{Nodes: nodes, NNodes: 1}}}
}

// step plays one with so many new experts, each of which costs so much; then changes the product further.
func (r *expertRun) step(fresh int, costs int64, further func(o *profile.Op)) {
	if r.set == nil {
		r.next = 8
		r.set = []int32{0, 1, 2, 3, 4, 5, 6, 7}
	}
	set := append([]int32{}, r.set[fresh:]...)
	for range fresh {
		set = append(set, r.next%256)
		r.next++
	}
	r.set = set
	r.change = func(k int, o *profile.Op) {
		if k != 4 {
			return
		}
		o.Op, o.Node, o.Shape = "MUL_MAT_ID", 0, r.shape
		o.Choice = &profile.Choice{Layer: 3, Tokens: 1, Seen: 1, Used: 8, Total: 256, Chosen: set}
		for i := range o.Threads {
			o.Threads[i].Busy += int64(fresh) * costs
		}
		r.settle(o)
		if further != nil {
			further(o)
		}
	}
	r.play(1)
}

// usual plays steps of which every other has one new expert and two.
func (r *expertRun) usual(n int, costs int64) {
	for i := range n {
		r.step(1+i%2, costs, nil)
	}
}

// A step with eight new experts among steps with 1.5: the difference is 6.5 times what one costs.
func TestSlowExperts(t *testing.T) {
	longer := func(d int64) func(r *slowRun, o *profile.Op) {
		return func(r *slowRun, o *profile.Op) {
			o.Threads[0].Busy += d
			o.Threads[1].Busy += d
			r.settle(o)
		}
	}
	for _, c := range []struct {
		name        string
		costs, odd  int64 // of a new expert, and in the slow step
		fresh       int
		further     func(r *slowRun, o *profile.Op)
		want, other int64
		cause       Cause // of the other part
	}{
		{"new experts", newCosts, newCosts, 8, nil, 6.5 * newCosts, 0, SlowUnexplained},
		{"fewer than they usually cost", newCosts, newCosts, 8, longer(-1e5), 6.5*newCosts - 1e5, 0,
			SlowUnexplained},
		{"and longer for another reason", newCosts, newCosts, 8, longer(4e5), 6.5 * newCosts, 4e5,
			SlowUnexplained},
		{"no more new ones than usual", newCosts, newCosts, 2, longer(4e5), newCosts / 2, 4e5,
			SlowUnexplained},
		{"fewer new ones", newCosts, newCosts, 0, longer(1e6), 0, 1e6 - 1.5*newCosts, SlowUnexplained},
		{"new ones that cost nothing", 0, newCosts, 8, nil, 0, 8 * newCosts, SlowUnexplained},
		{"new ones that are read from disk", newCosts, newCosts, 8, func(r *slowRun, o *profile.Op) {
			r.b.faultSpan(30, 30, o.Start, o.Start+45e4, true)
			r.b.faultSpan(30, 31, o.Start, o.Start+45e4, true)
		}, 0, 45e4, SlowDisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newExpertRun()
			r.usual(40, c.costs)
			r.step(c.fresh, c.odd, func(o *profile.Op) {
				if c.further != nil {
					c.further(r.slowRun, o)
				}
			})
			r.usual(40, c.costs)
			s := r.finish(t)
			if s.Slow != 1 || s.Listed[0].Step != 41 {
				t.Fatalf("%d steps are slow: %+v", s.Slow, s.Listed)
			}
			x := &s.Listed[0]
			got := map[Cause]int64{}
			for _, p := range x.Parts {
				got[p.Cause] = p.Ns
			}
			// Medians are as exact as a histogram: the price lies within twice 1 % of 200 µs.
			slack := int64(float64(c.want) * 0.08)
			if d := got[SlowExperts] - c.want; d < -slack || d > slack {
				t.Errorf("new experts cost %d ns, want %d: %+v", got[SlowExperts], c.want, x.Parts)
			}
			if d := got[c.cause] - c.other; c.other > 0 && (d < -slack-x.Excess/8 || d > slack+x.Excess/8) {
				t.Errorf("%s is %d ns, want %d: %+v", c.cause, got[c.cause], c.other, x.Parts)
			}
			if x.NewExperts == nil || *x.NewExperts != int64(c.fresh) || x.UsualNewExperts == nil ||
				*x.UsualNewExperts < 1 || *x.UsualNewExperts > 2 {
				t.Errorf("%v new experts, %v usually", x.NewExperts, x.UsualNewExperts)
			}
		})
	}
}

// What a new expert costs is only told where it is sound.
func TestSlowExpertPrice(t *testing.T) {
	sum := func(calls int, times ...[]int64) *experts.CostByNew {
		p := &experts.CostByNew{}
		for n, ts := range times {
			for i := range calls {
				if len(ts) > 0 {
					c := p.At(n)
					c.Calls++
					c.Hist.Add(ts[i%len(ts)])
				}
			}
		}
		return p
	}
	for _, c := range []struct {
		name string
		p    *experts.CostByNew
		want float64
	}{
		{"nothing", sum(100), 0},
		{"one number only", sum(100, []int64{1e5}), 0},
		{"two", sum(100, []int64{1e5}, []int64{15e4}), 5e4},
		{"two, one of them not counted", sum(100, []int64{1e5}, nil, []int64{2e5}), 5e4},
		{"too few calls", sum(15, []int64{1e5}, []int64{15e4}), 0},
		{"no line", sum(100, []int64{1e5}, []int64{2e5}, []int64{1e5}, []int64{2e5}), 0},
		{"less with more", sum(100, []int64{2e5}, []int64{1e5}), 0},
		{"as exact as a histogram", sum(1000, []int64{100_000}, []int64{101_500}), 0},
		{"scattered", sum(16, []int64{1e5, 2e5, 3e5, 4e5}, []int64{11e4, 21e4, 31e4, 41e4}), 0},
		{"scattered, but often", sum(20000, []int64{1e5, 2e5, 3e5}, []int64{15e4, 25e4, 35e4}), 5e4},
	} {
		if got := c.p.Price(); got < c.want*0.92 || got > c.want*1.08 {
			t.Errorf("%s: %g ns, want %g", c.name, got, c.want)
		}
	}
}

// Steps that were not wholly seen, and other phases, leave no experts that are known to be used before;
// neither are choices that were not wholly seen known.
func TestSlowExpertsUnknown(t *testing.T) {
	choice := func(set ...int32) *profile.Op {
		return &profile.Op{Choice: &profile.Choice{Layer: 1, Tokens: 1, Seen: 1, Used: len(set), Total: 16,
			Chosen: set}}
	}
	decode, prefill, other := &profile.Step{PID: 1, Ctx: 1, Phase: profile.Decode},
		&profile.Step{PID: 1, Ctx: 1, Phase: profile.Prefill}, &profile.Step{PID: 1, Ctx: 2,
			Phase: profile.Decode}
	var b expertBook
	is := func(what string, got *int64, want int64) {
		t.Helper()
		if want < 0 && got != nil || want >= 0 && (got == nil || *got != want) {
			t.Errorf("%s: %v, want %d", what, got, want)
		}
	}
	is("the first", b.step(decode, []*profile.Op{choice(1, 2)}, true), -1)
	o := choice(2, 3)
	shared := *o
	is("one is new, of products that share a choice", b.step(decode, []*profile.Op{o, &shared}, true), 1)
	is("another context", b.step(other, []*profile.Op{choice(2, 3)}, true), -1)
	is("after another phase", b.step(prefill, []*profile.Op{choice(2, 3)}, true), -1)
	is("decode after it", b.step(decode, []*profile.Op{choice(2, 3)}, true), -1)
	is("not wholly seen", b.step(decode, []*profile.Op{choice(2, 3)}, false), -1)
	is("behind it", b.step(decode, []*profile.Op{choice(4, 5)}, true), -1)
	is("and again", b.step(decode, []*profile.Op{choice(4, 5)}, true), 0)
	lost := choice(7, 8)
	lost.Choice.Seen = 0
	is("a choice that was lost", b.step(decode, []*profile.Op{lost}, true), -1)
	is("behind a choice that was lost", b.step(decode, []*profile.Op{choice(4, 5)}, true), -1)
	slots := choice(7, 8)
	slots.Choice.Slots = true
	is("slots", b.step(decode, []*profile.Op{slots}, true), -1)
	huge := choice(7, 8)
	huge.Choice.Total = experts.MaxExperts + 1
	is("more experts than are kept", b.step(decode, []*profile.Op{huge}, true), -1)
	if b.batches.Kept() != 1 {
		t.Errorf("%d layers are kept", b.batches.Kept())
	}
}
