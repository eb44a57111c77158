// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"testing"
)

func TestExperts(t *testing.T) {
	want := []Experts{
		{Time: 100, PID: 7, TID: 8, Node: 0x7f00_0000_1000, Source: 0x7f00_0000_2000, Used: 2, Tokens: 3,
			First: 0, Chosen: []int32{5, 0, 127, 5}},
		{Time: 100, PID: 7, TID: 8, Node: 0x7f00_0000_1000, Source: 0x7f00_0000_2000, Used: 2, Tokens: 3,
			First: 2, Chosen: []int32{1, 2}},
		{Time: 90, PID: 9, TID: -1, Node: math.MaxUint64, Source: 1, Used: -1, Tokens: math.MaxInt32,
			First: math.MinInt32, Chosen: []int32{}},
		{Time: 200, PID: 7, TID: 8, Node: 1, Source: math.MaxUint64, Used: 1, Tokens: 1,
			Chosen: []int32{math.MinInt32}},
	}
	long := Experts{Time: 300, Used: 1000, Tokens: 300, Chosen: make([]int32, 300_000)} // longer than a block
	for i := range long.Chosen {
		long.Chosen[i] = int32(i)
	}
	want = append(want, long, long)
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Experts(want); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var got []Experts
	for {
		blk, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, blk.Experts...)
	}
	if !reflect.DeepEqual(got, want) || len(r.Problems()) > 0 {
		t.Errorf("%v: %d of %d", r.Problems(), len(got), len(want))
	}
}

// What a block claims is held against what it has.
func TestExpertsClaims(t *testing.T) {
	e := newExpertEncoder()
	e.add([]Experts{{Time: 5, Used: 2, Tokens: 1, Chosen: []int32{1, 2}}})
	p := e.appendTo(nil)
	if _, err := decodeExperts(p, 1); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 2, maxCount + 1} {
		if _, err := decodeExperts(p, n); err == nil {
			t.Errorf("a block of one choice was read as %d", n)
		}
	}
	for i := range p {
		q := bytes.Clone(p)
		q[i] ^= 0x55
		_, _ = decodeExperts(q, 1) // an error or not, but no panic
	}
	c := newColumns(expertColumns)
	for i := range c.c {
		c.c[i] = []byte{0}
	}
	c.c[expertCount], c.c[expertChosen] = appendUint(nil, 1<<40), []byte{1}
	if _, err := decodeExperts(c.appendTo(nil), 1); err == nil {
		t.Error("more numbers than there are bytes")
	}
}
