// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
	"reflect"
	"testing"
)

func TestSamples(t *testing.T) {
	want := []Sample{
		{Time: 100, PID: 7, TID: 8, CPU: 0, Kind: SampleBegin, Values: []uint64{1 << 63, 5, 0}},
		{Time: 90, PID: 7, TID: 9, CPU: 1, Kind: SampleEnd, Torn: true, Values: []uint64{3, NoValue, 1}},
		{Time: 120, PID: 7, TID: 8, CPU: 0, Kind: SampleOff, Values: []uint64{4}},
		{Time: 130, PID: 7, TID: 8, CPU: 65535, Kind: SampleOn, Values: []uint64{}},
		{Time: 140, PID: -1, TID: 8, CPU: 0, Kind: SampleEnd, Values: []uint64{9, 8, 7, 6}},
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, s := range want { // predictions hold from block to block
		if err := w.Samples([]Sample{s}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var got []Sample
	for {
		blk, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, blk.Samples...)
	}
	if !reflect.DeepEqual(got, want) || len(r.Problems()) > 0 {
		t.Errorf("%v\n%+v\nwant\n%+v", r.Problems(), got, want)
	}
}

// What a block claims is held against what it has.
func TestSamplesClaims(t *testing.T) {
	e := newSampleEncoder()
	e.add([]Sample{{Kind: SampleBegin, Values: []uint64{1, 2, 3}}})
	p := e.appendTo(nil)
	if _, err := decodeSamples(p, 1); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 2, maxCount + 1} {
		if _, err := decodeSamples(p, n); err == nil {
			t.Errorf("a block of one sample was read as %d", n)
		}
	}
	for i := range p {
		q := bytes.Clone(p)
		q[i] ^= 0x55
		_, _ = decodeSamples(q, 1) // an error or not, but no panic
	}
}
