// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"testing"

	"github.com/profinfer/profinfer/profile/sched"
	"github.com/profinfer/profinfer/profile/summary"
)

func TestRanThere(t *testing.T) {
	own := func(ms int64) *sched.Culprit {
		return &sched.Culprit{Comm: "llama-bench", Own: true, Dur: ms * 1e6, Count: 1}
	}
	other := func(comm string, ms int64) *sched.Culprit {
		return &sched.Culprit{Comm: comm, Dur: ms * 1e6, Count: 1}
	}
	for _, c := range []struct {
		what    string
		instead []*sched.Culprit
		want    string
		names   int
	}{
		{"nobody", nil, "", 0},
		{"another", []*sched.Culprit{other("yes", 300), own(100)}, "yes held a CPU for 300 ms while engine threads were runnable there", 1},
		{"the team alone", []*sched.Culprit{own(300)}, "engine threads shared CPUs",
			0},
		// Who takes a core makes the team share the others: it is named although the team ran longer.
		{"another and the team", []*sched.Culprit{own(300), other("yes", 100), other("sshd", 1)},
			"yes held a CPU for 100 ms while engine threads were runnable there; other engine threads for 300 ms", 1},
		{"another for a moment", []*sched.Culprit{own(300), other("sshd", 1)},
			"engine threads shared CPUs", 0},
	} {
		m := map[sched.CulpritKey]*sched.Culprit{}
		for _, x := range c.instead {
			m[sched.CulpritKey{Comm: x.Comm, Own: x.Own}] = x
		}
		text, names := ranThere(sched.TopCulprits(m, len(m)), crowd{}, 0)
		if text != c.want || len(names) != c.names {
			t.Errorf("%s: %q %v, want %q", c.what, text, names, c.want)
		}
	}
}

// What others do to a team of more threads than CPUs is no disturbance while these take more from each other.
func TestFromOutside(t *testing.T) {
	own, sh := sched.Culprit{Comm: "llama", Own: true, Dur: 300}, sched.Culprit{Comm: "sh", Dur: 100}
	for _, c := range []struct {
		threads, cpus int
		disk          int64
		instead       []sched.Culprit
		want          bool
	}{
		{2, 2, 0, []sched.Culprit{own, sh}, true},
		{4, 2, 0, []sched.Culprit{own, sh}, false},
		{4, 0, 0, []sched.Culprit{own, sh}, true},
		{4, 2, 0, []sched.Culprit{sh}, true},
		{2, 2, 0, []sched.Culprit{own}, false},
		{2, 2, 0, nil, false},
		{2, 2, 60, nil, true},
		{2, 2, 40, nil, false},
	} {
		d := &summary.Disturbed{Lost: 100, Disk: c.disk, Instead: c.instead}
		if got := FromOutside(d, c.threads, c.cpus); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
