// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// Peaks that become known with the recording's header are those of every table of the page.
func TestPeaks(t *testing.T) {
	tr, _ := profiletest.TrialNamed("plain")
	var b bytes.Buffer
	if err := tr.Write(&b); err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	gbps := 25.0
	run, err := Load("a.pinf", func(s profile.Sink) (*profile.Header, error) {
		return profile.Replay(r, s)
	}, Peaks(func(*profile.Header) *roof.Peaks { return roof.Fixed("given by hand", &gbps, nil) }))
	if err != nil {
		t.Fatal(err)
	}
	var got map[facts.By]*summary.Stat
	if err := json.Unmarshal(unpack(t, run.sections["stat"]), &got); err != nil {
		t.Fatal(err)
	}
	for _, by := range groupings {
		if p := got[by].Peaks; p == nil || p.Source != "given by hand" || len(p.Roofs) == 0 ||
			*p.Roofs[0].GBps != gbps {
			t.Errorf("by %s: %+v", by, p)
		}
	}
}
