// SPDX-License-Identifier: Apache-2.0

package profile

import "testing"

func TestRanThere(t *testing.T) {
	own := func(ms int64) *Culprit { return &Culprit{Comm: "llama-bench", Own: true, Dur: ms * 1e6, Count: 1} }
	other := func(comm string, ms int64) *Culprit { return &Culprit{Comm: comm, Dur: ms * 1e6, Count: 1} }
	for _, c := range []struct {
		what    string
		instead []*Culprit
		want    string
		names   int
	}{
		{"nobody", nil, "", 0},
		{"another", []*Culprit{other("yes", 300), own(100)}, "yes ran there for 300 ms in all", 1},
		{"the team alone", []*Culprit{own(300)}, "threads of the same team ran there: they share CPUs", 0},
		// Who takes a core makes the team share the others: it is named although the team ran longer.
		{"another and the team", []*Culprit{own(300), other("yes", 100), other("sshd", 1)},
			"yes ran there for 100 ms in all, and threads of the same team for 300 ms, which had to share CPUs", 1},
		{"another for a moment", []*Culprit{own(300), other("sshd", 1)}, "threads of the same team ran there: they share CPUs", 0},
	} {
		m := map[name]*Culprit{}
		for _, x := range c.instead {
			m[name{x.Comm, x.Own}] = x
		}
		if text, names := ranThere(m, crowd{}); text != c.want || len(names) != c.names {
			t.Errorf("%s: %q %v, want %q", c.what, text, names, c.want)
		}
	}
}
