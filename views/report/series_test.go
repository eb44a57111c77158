// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/series"
)

// The page's series go with its statistics: the same phases, and lists where the page expects lists.
func TestSeriesSection(t *testing.T) {
	r, err := Load("run.pinf", func(s profile.Sink) (*profile.Header, error) {
		p := &profiletest.Player{Sink: s}
		if err := p.Play(profiletest.Run{Model: profiletest.Small, PID: 1, Ctx: 2, Threads: 2, Prefill: 8,
			Decode: 4, Start: 1}); err != nil {
			return nil, err
		}
		return p.Header("op"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(r.sections["series"]))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.NewDecoder(z).Decode(&v); err != nil {
		t.Fatal(err)
	}
	phases := v["phases"].([]any)
	if len(phases) != 2 || phases[0].(map[string]any)["phase"] != "prefill" ||
		phases[1].(map[string]any)["phase"] != "decode" {
		t.Fatalf("%v", phases)
	}
	for _, p := range phases {
		for _, list := range []string{"steps", "partial", "slowest", "weight", "op", "layer", "block",
			"threads", "products"} {
			if _, ok := p.(map[string]any)[list].([]any); !ok {
				t.Errorf("%s is %v", list, p.(map[string]any)[list])
			}
		}
	}
	if r, _ := v["requests"].(map[string]any); r == nil || r["tpot"] == nil || r["itl"] == nil {
		t.Errorf("requests are %v", r)
	} else if _, ok := r["speculation"].([]any); !ok {
		t.Error("what speculates is no list")
	}
}

// A run of which nothing is known has lists too.
func TestSeriesOfNothing(t *testing.T) {
	b := series.New(nil)
	if err := b.Step(&profile.Step{ID: 1}); err != nil {
		t.Fatal(err)
	}
	j, err := json.Marshal(b.Finish(&profile.Header{}))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(j, []byte(`"weight":null`)) || bytes.Contains(j, []byte(`"products":null`)) ||
		bytes.Contains(j, []byte(`"threads":null`)) {
		t.Errorf("%s", j)
	}
}
