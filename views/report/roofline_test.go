// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/series"
)

// The roofline has the peaks that the page was given, and a page without counters has nothing of them.
func TestRooflineSection(t *testing.T) {
	gbps, gflops := 10.0, 100.0
	r, err := Load("run.pinf", func(s profile.Sink) (*profile.Header, error) {
		p := &profiletest.Player{Sink: s}
		if err := p.Play(profiletest.Run{Model: profiletest.Small, PID: 1, Ctx: 2, Threads: 2, Prefill: 8,
			Decode: 4, Start: 1}); err != nil {
			return nil, err
		}
		return p.Header("op"), nil
	}, Peaks(func(*profile.Header) *roof.Peaks { return roof.Fixed("by hand", &gbps, &gflops) }))
	if err != nil {
		t.Fatal(err)
	}
	var v series.Roofline
	if err := json.Unmarshal(section(t, r, "roofline"), &v); err != nil {
		t.Fatal(err)
	}
	if v.Peaks.Source != "by hand" || len(v.Groups) != 2 || len(v.Peaks.Roofs) == 0 ||
		*v.Peaks.Roofs[0].Ridge() != 10 || v.Groups[0].ByWeight[0].OfRoof == nil {
		t.Errorf("%+v", v)
	}
	for _, name := range []string{"roofline", "dag", "time"} {
		if b := section(t, r, name); bytes.Contains(b, []byte(`"counters"`)) ||
			bytes.Contains(b, []byte(`"counts"`)) {
			t.Errorf("section %s speaks of counters", name)
		}
	}
}
