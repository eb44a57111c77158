// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"math/bits"
	"strings"
	"testing"
)

// A thread's list of CPUs is whatever stands in the trace: reading it costs no more than it is long. What is
// in no order, which no recorder writes, is not known.
func TestCPUsOfCraftedTrace(t *testing.T) {
	if m, ok := parseCPUs("0-3,7"); !ok || len(m) != 1 || m[0] != 0x8f {
		t.Errorf("%x, %v", m, ok)
	}
	if _, ok := parseCPUs(strings.Repeat("0-16383,", 1<<17) + "0"); ok { // 2 GB of CPUs in 1 MB of text
		t.Error("CPUs that are named again are taken")
	}
	for _, s := range []string{"", "3-1", "1,1", "7,0-3", "16384", "-1", "1-", "0-16384", "1,,2"} {
		if m, ok := parseCPUs(s); ok {
			t.Errorf("%q is %x", s, m)
		}
	}
}

// FuzzCPUs reads lists of CPUs as a trace has them.
func FuzzCPUs(f *testing.F) {
	for _, s := range []string{"0-3,7,16383", "0-3", "1-", "\xff-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if m, ok := parseCPUs(s); ok {
			n := 0
			for _, w := range m {
				n += bits.OnesCount64(w)
			}
			if n == 0 || len(m) > maxCPUNumber/64 {
				t.Fatalf("%q is %x", s, m)
			}
		}
	})
}
