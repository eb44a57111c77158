// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"runtime"
	"testing"
)

// Hits that tell of 65,535 threads each do not reserve room for them: a trace of a few bytes an operator
// would ask for gigabytes.
func TestTeamIsNotBelieved(t *testing.T) {
	s := NewScene(t)
	for i := range 200 {
		s.Decode(int64(2000 + 1000*i))
	}
	for i := range s.B.Hits {
		if s.B.Hits[i].Nth > 0 {
			s.B.Hits[i].Nth = 0xffff
		}
	}
	n := len(s.B.Hits)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.Done()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 || n < 500 {
		t.Errorf("%d hits: %d KiB were allocated", n, got>>10)
	}
	if len(s.c.ops) == 0 {
		t.Error("no operators")
	}
}
