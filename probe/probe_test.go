// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"slices"
	"testing"
	"time"
)

// needBPF skips where probes cannot be had, unless they have to work.
func needBPF(t *testing.T) {
	t.Helper()
	if err := Check(); err != nil {
		if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestOpen(t *testing.T) {
	needBPF(t)
	s, err := Open(Config{Sched: true})
	if err != nil {
		t.Fatal(err, VerifierLog(err))
	}
	if s.SchedError != nil {
		t.Error(s.SchedError)
	}
	var e Events
	s.Drain(&e)
	if l := s.Lost(); l != (Lost{}) {
		t.Errorf("lost %+v", l)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCost(t *testing.T) {
	needBPF(t)
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Cost()
	if err != nil {
		t.Fatal(err)
	}
	// not a measurement: only that a probe was hit at all, and none was left
	if d.Loop <= 0 || d.Cold <= 0 {
		t.Errorf("a hit costs %v", d)
	}
	t.Log("a hit costs", d)
	var e Events
	_ = measure(100)
	s.Drain(&e)
	if len(e.Hits) != 0 {
		t.Errorf("%d hits after detaching", len(e.Hits))
	}
	free := s.numbers.free
	s.CostOver()
	for range 1000 {
		if s.Drain(&e); s.measured == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if s.measured != nil || len(s.numbers.free) != len(free)+1 || slices.Index(s.numbers.pids[:], 0) != 0 {
		t.Error("its probe is not gone, or its numbers are not free")
	}
}
