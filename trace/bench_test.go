// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// benchHits looks like what two workers do in decode: rounds over the same operators.
func benchHits(n int) []Hit {
	r := rand.New(rand.NewPCG(7, 7))
	var hs []Hit
	t := int64(1e12)
	for len(hs) < n {
		for op := 0; op < 300 && len(hs) < n; op++ {
			t += 20_000 + r.Int64N(200_000)
			for th := range uint16(2) {
				hs = append(hs, Hit{Time: t + r.Int64N(2000), Arg: 0x7f12_3456_7000 + uint64(op)*336*3,
					PID: 1000, TID: 1000 + int32(th),
					CPU: th, Ith: th, Nth: 2, Kind: HitOpBegin},
					Hit{Time: t + 15_000 + r.Int64N(2000), Arg: 0x55550000, PID: 1000, TID: 1000 + int32(th),
						CPU: th, Kind: HitOpEnd})
			}
		}
	}
	return hs[:n]
}

func BenchmarkWriteHits(b *testing.B) {
	hs := benchHits(100_000)
	w := NewWriter(discard{})
	b.ReportAllocs()
	for b.Loop() {
		for i := 0; i < len(hs); i += 2000 {
			if err := w.Hits(hs[i : i+2000]); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := float64(b.N) * float64(len(hs))
	b.ReportMetric(n/b.Elapsed().Seconds()/1e6, "Mhits/s")
	b.ReportMetric(float64(w.Size())/n, "B/hit")
}

func BenchmarkReadHits(b *testing.B) {
	hs := benchHits(100_000)
	var buf bytes.Buffer
	w := NewWriter(&buf)
	if err := w.Hits(hs); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(End{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(buf.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			}
		}
		r.Close()
	}
	b.ReportMetric(float64(b.N)*float64(len(hs))/b.Elapsed().Seconds()/1e6, "Mhits/s")
}
