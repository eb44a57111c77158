// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/experts"
	"github.com/profinfer/profinfer/profile/profiletest"
)

// Experts' sections: an index, and what each phase's tokens chose as far as a page in one file holds it.
func TestExpertSections(t *testing.T) {
	load := func(m profiletest.Model, decode int, opts ...Option) *Run {
		r, err := Load("run.pinf", func(s profile.Sink) (*profile.Header, error) {
			p := &profiletest.Player{Sink: s}
			if err := p.Play(profiletest.Run{Model: m, PID: 1, Ctx: 2, Threads: 1, Prefill: 8, Decode: decode,
				Start: 1}); err != nil {
				return nil, err
			}
			return p.Header("op"), nil
		}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	unpacked := func(r *Run, name string) []byte {
		z, err := gzip.NewReader(bytes.NewReader(r.sections[name]))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sections := func(r *Run) string {
		var names []string
		for _, n := range r.names {
			if strings.HasPrefix(n, "experts") {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		return fmt.Sprint(names)
	}
	if got := sections(load(profiletest.Small, 4)); got != "[]" {
		t.Errorf("a run without experts has sections %s", got)
	}
	r := load(profiletest.MoE, 4)
	if got := sections(r); got != "[experts experts/0 experts/1]" {
		t.Fatalf("sections %s", got)
	}
	var m experts.Map
	text := unpacked(r, "experts")
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(`:null,"axes"`)) || bytes.Contains(text, []byte(`"steps":null`)) ||
		bytes.Contains(text, []byte(`"products":null`)) || bytes.Contains(text, []byte(`"cache":null`)) {
		t.Errorf("a list is none: %s", text)
	}
	for i, tokens := range []int{8, 4} {
		if n := len(unpacked(r, fmt.Sprintf("experts/%d", i))); n != 2*tokens*4 ||
			m.Phases[i].Layers[1].Offset != tokens*4 {
			t.Errorf("%s: %d bytes, the second layer's at %d", m.Phases[i].Phase, n,
				m.Phases[i].Layers[1].Offset)
		}
	}
	// 100 layers of 1,400 tokens that use 16 experts each: 2.2 million numbers
	deep := profiletest.MoE
	deep.Layers, deep.Used = 100, deep.Experts
	for _, c := range []struct {
		opts []Option
		wide bool
	}{{nil, true}, {[]Option{WholeTimeline()}, false}} {
		b := newExperts(newOptions(c.opts), nil)
		if err := (&profiletest.Player{Sink: b}).Play(profiletest.Run{Model: deep, PID: 1, Ctx: 2, Threads: 1,
			Prefill: 1400, Start: 1}); err != nil {
			t.Fatal(err)
		}
		if l := b.Finish().Phases[0].Layers[0]; l.TokensPerColumn > 1 != c.wide {
			t.Errorf("served %v: columns of %d tokens", !c.wide, l.TokensPerColumn)
		}
	}
}
