// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// groups gives the decode steps from..to to groups in turn, one layer of 16 experts of which a token uses 4.
func groups(n, from, to, cells int) []*expertGroup {
	budget := &cellBudget{most: cells}
	out := make([]*expertGroup, n)
	for i := range out {
		out[i] = &expertGroup{each: 1}
		out[i].sums.tokens = &tokenMaps{budget: budget}
		budget.maps = append(budget.maps, out[i].sums.tokens)
	}
	var state Collector
	for i := from; i < to; i++ {
		g := out[i%n]
		s := &profile.Step{ID: int64(i), NTokens: 1, Phase: profile.Decode, Ctx: uint64(i % n),
			Seqs: []trace.StepSeq{{NTokens: 1, Pos: int32(i)}}}
		c := &profile.Choice{Layer: 0, Total: 16, Tokens: 1, Used: 4, Seen: 1}
		for r := range 4 {
			c.Chosen = append(c.Chosen, int32((i*3+r)%16))
		}
		state.batch(&g.sums, s, c)
		g.steps++
		g.point(Step{ID: s.ID, N: 1, Tokens: 1})
	}
	return out
}

// Two contexts that turn out to be of one model give what one gives, in the order of steps.
func TestExpertMapMerged(t *testing.T) {
	for _, cells := range []int{1 << 20, 1000} {
		one := groups(1, 0, 1000, cells)[0].finish()
		two := groups(2, 0, 1000, cells)
		merged := two[0]
		merged.merge(two[1])
		got := merged.finish()
		if !reflect.DeepEqual(got.Steps, one.Steps) {
			t.Errorf("%d cells: steps differ", cells)
		}
		a := got.Axes[0]
		for i := 1; i < len(a.Step); i++ {
			if a.Step[i] < a.Step[i-1] {
				t.Fatalf("%d cells: steps %v", cells, a.Step)
			}
		}
		if cells == 1<<20 {
			if !reflect.DeepEqual(got.Axes, one.Axes) || !reflect.DeepEqual(got.Data, one.Data) {
				t.Errorf("what tokens chose differs")
			}
		} else if tokens := got.Layers[0].TokensPerColumn; tokens < 2 ||
			len(got.Data) != got.Layers[0].Columns*16*got.Layers[0].Width {
			t.Errorf("%d tokens a column, %d bytes", tokens, len(got.Data))
		}
		if uses := merged.sums.layers[layerKey{0, 16, 4}]; sumOfCounts(uses.distances)+uses.first != 4000 ||
			len(got.Layers[0].Cache) == 0 {
			t.Errorf("%d cells: %d uses", cells, sumOfCounts(uses.distances)+uses.first)
		}
	}
	// a layer that only one of them has, and columns of unlike width
	a, b := groups(1, 0, 400, 200)[0], groups(1, 400, 420, 1<<20)[0]
	a.merge(b)
	if l := a.finish().Layers[0]; l.TokensPerColumn < 2 {
		t.Errorf("%+v", l)
	}
	c, d := &expertGroup{each: 1}, groups(1, 0, 10, 1<<20)[0]
	c.sums.tokens = &tokenMaps{}
	c.merge(d)
	if l := c.finish().Layers[0]; l.Columns != 10 {
		t.Errorf("%+v", l)
	}
}

func sumOfCounts(v []int64) (n int64) {
	for _, x := range v {
		n += x
	}
	return n
}

// Numbers take as many bytes as the largest of them needs.
func TestExpertMapPacked(t *testing.T) {
	for _, c := range []struct {
		most  uint32
		bytes int
	}{{255, 1}, {256, 2}, {65535, 2}, {65536, 4}} {
		m := &tokenMap{experts: 2, used: 1, wide: 1 << 17, counts: []uint32{0, c.most}}
		data, width := m.pack([]byte{9})
		want := fmt.Sprint(map[int][]byte{1: {9, 0, byte(c.most)},
			2: {9, 0, 0, byte(c.most), byte(c.most >> 8)}, 4: {9, 0, 0, 0, 0, byte(c.most), byte(c.most >> 8),
				byte(c.most >> 16), 0}}[c.bytes])
		if width != c.bytes || fmt.Sprint(data) != want {
			t.Errorf("%d: %v of %d bytes", c.most, data, width)
		}
	}
	for _, c := range []struct{ experts, bytes int }{{256, 1}, {257, 2}} {
		m := &tokenMap{experts: c.experts, used: 1, wide: 1, chosen: []uint16{uint16(c.experts - 1)}}
		if data, width := m.pack(nil); width != c.bytes || len(data) != width ||
			int(data[0])|int(data[len(data)-1])*(width-1)<<8 != c.experts-1 {
			t.Errorf("%d experts: %v", c.experts, data)
		}
	}
}
