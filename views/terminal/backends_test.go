// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

// A step that computed on a backend with a hostile name beside the CPU, and one that did not.
func TestBackends(t *testing.T) {
	b := stat.New(stat.Options{})
	for i, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		id := int64(i + 1)
		st := &profile.Step{ID: id, PID: 1, Phase: phase, Start: id * 1e9, Dur: 1e8, NTokens: 1, NSeqs: 1}
		if err := b.Op(&profile.Op{Step: st, Op: "GET_ROWS", Start: st.Start, Dur: 1e7, Busy: 1e7,
			Threads: []profile.OpThread{{TID: 1, Start: st.Start, Busy: 1e7}}}); err != nil {
			t.Fatal(err)
		}
		if phase == profile.Prefill {
			if err := b.Graph(&profile.Graph{PID: 1, Step: id, Backend: "V\x1b[2Jk", Start: st.Start + 2e7,
				Dur: 7e7}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Step(st); err != nil {
			t.Fatal(err)
		}
	}
	s := b.Finish(&profile.Header{})
	var out bytes.Buffer
	if err := Stat(&out, s, Options{Unicode: true, Full: true}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{`The bottleneck of prefill is unknown: in 70 % of its time graphs ran on V\x1b[2Jk`,
		`(graphs on V\x1b[2Jk)`, "device time is not known"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("a backend's name steers the terminal:\n%q", text)
	}
	for l := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(l)
		switch {
		case len(f) > 3 && f[0] == "prefill" && f[1] == "100" && f[2] == "ms":
			if got := strings.Join(strings.Fields(l), " "); !strings.Contains(got, "70 % 20 %") {
				t.Errorf("backend 70 %% and gaps 20 %% are not in %q", l)
			}
		case len(f) > 2 && f[0] == "decode" && f[1] == "100" && strings.Contains(l, "70 %"):
			t.Errorf("decode had no other backend: %q", l)
		}
	}
	// two of them share a column
	s.Phases[0].Backends = append(s.Phases[0].Backends, summary.Backend{Backend: "RPC", Graphs: 1, Dur: 1})
	if got := backendTitle(s); got != "backends" {
		t.Errorf("two backends stand under %q", got)
	}
}
