// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
)

func TestParse(t *testing.T) {
	const text = `18696 12024.881228123: 
	ffffffff821f5b65 irqentry_exit_to_user_mode ([kernel.kallsyms])
	           20793 ggml_graph_compute_thread.isra.0 (/a b/libggml-cpu (2).so)

  77     0.5: 
	    7f3200000000 (anonymous namespace)::tinyBLAS<16, float __vector(16)>::gemm<4, 1, 1>(long, long) (/x/libggml.so)
	    7f3200000001 [unknown] ([unknown])

5 3.000000001: 

6 4.000000001: 
	12 f (x)
`
	var got []sample
	err := parse(strings.NewReader(text), func(s *sample) {
		c := *s
		c.chain = append([]frame(nil), s.chain...)
		got = append(got, c)
	})
	want := []sample{
		{18696, 12024881228123, []frame{{"irqentry_exit_to_user_mode", "[kernel.kallsyms]", true},
			{"ggml_graph_compute_thread.isra.0", "/a b/libggml-cpu (2).so", false}}},
		{77, 5e8, []frame{{"(anonymous namespace)::tinyBLAS<16, float __vector(16)>::gemm<4, 1, 1>(long, long)", "/x/libggml.so", false}, {"[unknown]", "[unknown]", false}}},
		{6, 4000000001, []frame{{"f", "x", false}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
	for _, bad := range []string{"x 1.0:\n", "1 -1.0:\n", "1 1.0000000000:\n", "1 99999999999999999999.0:\n",
		"1 1.0:\n\tzz f (x)\n", "99999999999 1.0:\n", "1\n", "1 1.x:\n"} {
		if err := parse(strings.NewReader(bad), func(*sample) {}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestGraphAt(t *testing.T) {
	c := &recording{graphs: []window{{10, 20, profile.Prefill}, {20, 30, profile.Decode},
		{40, 50, profile.Decode}}}
	for _, x := range []struct {
		t    int64
		want int64 // begin; 0: none
	}{{9, 0}, {10, 10}, {19, 10}, {20, 20}, {29, 20}, {30, 0}, {39, 0}, {40, 40}, {50, 0}} {
		if w, ok := c.at(x.t); ok != (x.want != 0) || w.from != x.want {
			t.Errorf("%d: %+v %v", x.t, w, ok)
		}
	}
}

func TestShares(t *testing.T) {
	got, sum := shares([classes]int64{products: 60, attention: 30, rest: 10, waiting: 500, probes: 7})
	if got != [3]float64{.6, .3, .1} || sum != 100 {
		t.Error(got, sum)
	}
	if _, sum := shares([classes]int64{waiting: 5}); sum != 0 {
		t.Error(sum)
	}
	s := &sampled{}
	s.n = [classes]int64{products: 600, attention: 300, rest: 100}
	for _, c := range []struct {
		time [classes]int64
		want bool
	}{
		{[classes]int64{products: 619, attention: 281, rest: 100}, true},
		{[classes]int64{products: 621, attention: 279, rest: 100}, false},
		{[classes]int64{products: 600, attention: 275, rest: 125}, false},
		{[classes]int64{}, false},
	} {
		var b strings.Builder
		if got := compare(&b, profile.Decode, s, &phaseTime{steps: 1, time: c.time}, 2); got != c.want {
			t.Errorf("%v: %v\n%s", c.time, got, b.String())
		}
		if got := compareBudget(&b, profile.Decode, &phaseTime{ops: 1, time: s.n}, &phaseTime{time: c.time},
			2); got != c.want {
			t.Errorf("%v: %v\n%s", c.time, got, b.String())
		}
	}
	if compare(&strings.Builder{}, profile.Decode, nil, nil, 2) ||
		compareBudget(&strings.Builder{}, profile.Decode, nil, nil, 2) {
		t.Error("nothing is no agreement")
	}
	if m := margin(.5, 10000); m < .0097 || m > .0099 {
		t.Error(m)
	}
}
