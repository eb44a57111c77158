// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"math"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

// blockedOps makes threads sleep for a time that they were off their CPUs, or a part of it.
type blockedOps struct {
	*stat.Builder
	part float64
}

func (b *blockedOps) Op(o *profile.Op) error {
	for i := range o.Threads {
		t := &o.Threads[i]
		t.Blocked = int64(float64(t.OffCPU) * b.part)
	}
	return b.Builder.Op(o)
}

func blockedStat(t *testing.T, part float64, r profiletest.Run, change func(*profile.Header)) *summary.Stat {
	t.Helper()
	b := &blockedOps{stat.New(stat.Options{}), part}
	p := &profiletest.Player{Sink: b}
	if err := p.Play(r); err != nil {
		t.Fatal(err)
	}
	h := p.Header("op")
	if change != nil {
		change(h)
	}
	return b.Finish(h)
}

// In each of 8 decode steps ffn_gate of layer 0 takes 5 ms more, in which a thread cannot be interrupted:
// that is the disk, not whoever ran there. What it sleeps otherwise is not.
func TestVerdictBlocked(t *testing.T) {
	r := made()
	r.Model.Vocab, r.Model.FF = 1024, 1024
	r.Preempts = true
	dur := func(s *summary.Stat) (ns float64) {
		for _, p := range s.Phases {
			if p.Phase == "decode" {
				ns = float64(p.TracedDur)
			}
		}
		return ns
	}
	s := blockedStat(t, 1, r, nil)
	v := verdictOf(t, s, "decode")
	is(t, v, summary.BoundDisk, summary.SureMedium)
	if x := causeOf(v, "disk"); math.Abs(x-40e6/dur(s)) > 0.001 || causeOf(v, "contention") != 0 ||
		evidenceOf(v, "disk") != x {
		t.Errorf("the disk takes %g (evidence %g), interference %g; want %g and none", x,
			evidenceOf(v, "disk"), causeOf(v, "contention"), 40e6/dur(s))
	}
	if !strings.Contains(v.Text, "a thread in uninterruptible sleep") || !strings.Contains(v.Why, "record --faults") {
		t.Errorf("%q, %q", v.Text, v.Why)
	}
	if f := s.Findings[0]; f.Kind != "disk" || math.Abs(*f.Gain-5e6) > 1e4 ||
		!strings.Contains(f.Text, "uninterruptible sleep") || f.Target.Params["sel"] != "ffn_gate" {
		t.Errorf("the first finding is %+v", f)
	}
	for _, p := range s.Phases {
		for _, row := range p.Rows {
			is := row.Bound.Bound == summary.BoundDisk
			if is != (p.Phase == "decode" && row.Key == "ffn_gate") {
				t.Errorf("%s in %s: %+v", row.Key, p.Phase, row.Bound)
			} else if is && (row.Bound.Sure != summary.SureMedium ||
				!strings.Contains(row.Bound.Why, "uninterruptible sleep")) {
				t.Errorf("%+v", row.Bound)
			}
		}
	}
	if x := s.RunVerdict; x == nil || !strings.Contains(x.Text, "mostly disk reads") {
		t.Errorf("the run: %+v", x)
	}

	// Half of the time it was woken, and another ran: each has its half, and neither more than the other.
	s = blockedStat(t, 0.5, r, nil)
	v = verdictOf(t, s, "decode")
	if a, b := causeOf(v, "disk"), causeOf(v, "contention"); math.Abs(a-20e6/dur(s)) > 0.001 ||
		math.Abs(b-20e6/dur(s)) > 0.001 {
		t.Errorf("the disk takes %g, interference %g, want %g each", a, b, 20e6/dur(s))
	}

	// Slept otherwise.
	v = verdictOf(t, blockedStat(t, 0, r, nil), "decode")
	if causeOf(v, "disk") != 0 || causeOf(v, "contention") == 0 {
		t.Errorf("not blocked: %+v", v.Causes)
	}
}
