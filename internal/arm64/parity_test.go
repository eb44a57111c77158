// SPDX-License-Identifier: Apache-2.0

package arm64

import (
	"os"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/oracle"
	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

type parityModel struct {
	name, file string
	prompt     func(tokens int) string
}

// parityModels: the first is of a shape of its own, the others of other architectures.
func parityModels() []parityModel {
	out := []parityModel{
		{"dense", "llama-tiny-vocab-q4_0.gguf", oracle.BytePrompt},
		{"experts", "moe-tiny-vocab-q4_0.gguf", oracle.BytePrompt},
	}
	for _, name := range tiny {
		out = append(out, parityModel{name, name + ".gguf", oracle.TinyPrompt})
	}
	return out
}

// parity compares each step's operators with those that the engine says it computes.
func parity(r *recording.Run, prefill, decode oracle.Graph) (wrong []string) {
	for i, s := range r.Steps {
		want, phase := decode.Nodes, profile.Decode
		if i == 0 {
			want, phase = prefill.Nodes, profile.Prefill
		}
		if s.Phase != phase {
			wrong = append(wrong, "a step is "+string(s.Phase)+", want "+string(phase))
		}
		graphs := r.GraphsOf(s)
		if len(graphs) != 1 || graphs[0].Shape == nil {
			wrong = append(wrong, "a step is not of one graph")
			continue
		}
		wrong = append(wrong, oracle.Differ(r.OpsOf(s), graphs[0].Shape, want)...)
	}
	if len(r.Steps) < 4 {
		wrong = append(wrong, "steps are missing")
	}
	return wrong
}

func load(t testing.TB, m *machine, name string) *recording.Run {
	t.Helper()
	r, err := recording.Load(m.file(name + ".pinf"))
	if err != nil {
		t.Fatal(err)
	}
	lossless(t, r)
	return r
}

func lossless(t testing.TB, r *recording.Run) {
	t.Helper()
	for _, l := range recording.Losses(r.Header) {
		t.Errorf("loss: %+v", l)
	}
	if r.Header.Torn != "" {
		t.Errorf("torn: %s", r.Header.Torn)
	}
	for _, s := range r.Steps {
		if s.Incomplete != "" {
			t.Errorf("step %d: %s", s.ID, s.Incomplete)
		}
	}
}

// The operators of a step are those that the engine says it computes, in order, with their dimensions.
func TestParity(t *testing.T) {
	for _, m := range []*machine{trixie, sid} {
		t.Run(m.kernel, func(t *testing.T) {
			m.boot(t)
			for _, model := range parityModels()[:m.models] {
				t.Run(model.name, func(t *testing.T) {
					if _, err := os.Stat(guestFile(model.file)); err != nil {
						t.Skipf("this machine's llama.cpp, which writes the model, is not installed: go run ./internal/engines/fetch (%v)", err)
					}
					prefill, decode := evaluated(t, m, model.name)
					m.well(t, model.name)
					r := load(t, m, model.name)
					for _, w := range parity(r, prefill, decode) {
						t.Error(w)
					}
					if n := len(r.Ops); n < 100 {
						t.Errorf("%d operators", n)
					}
				})
			}
		})
	}
}

func evaluated(t testing.TB, m *machine, model string) (prefill, decode oracle.Graph) {
	t.Helper()
	m.well(t, model+".prefill")
	m.well(t, model+".decode")
	var err error
	if prefill, err = oracle.Log(m.file(model + ".prefill.log")); err != nil {
		t.Fatal(err)
	}
	if decode, err = oracle.Log(m.file(model + ".decode.log")); err != nil {
		t.Fatal(err)
	}
	if prefill.Tokens != 5 || decode.Tokens != 1 {
		t.Fatalf("the engine was asked for %d and %d tokens", prefill.Tokens, decode.Tokens)
	}
	return prefill, decode
}

// The check fails when it should.
func TestParityNoticesMutations(t *testing.T) {
	trixie.boot(t)
	prefill, decode := evaluated(t, trixie, "dense")
	var first *trace.Shape
	for name, change := range map[string]func(*trace.Block){
		"a shape shifted by one": func(b *trace.Block) {
			if s := b.Shape; s != nil {
				for i := s.NNodes - 1; i > 0; i-- {
					s.Nodes[i].Addr = s.Nodes[i-1].Addr
				}
			}
		},
		"dimensions frozen": func(b *trace.Block) {
			s := b.Shape
			if s == nil {
				return
			}
			if first == nil || len(first.Nodes) != len(s.Nodes) {
				first = s
				return
			}
			for i := range s.Nodes {
				s.Nodes[i].Ne = first.Nodes[i].Ne
			}
		},
		"names of another layer": func(b *trace.Block) {
			if s := b.Shape; s != nil {
				for i := range s.Nodes {
					s.Nodes[i].Name = strings.Replace(s.Nodes[i].Name, "-0", "-1", 1)
				}
			}
		},
	} {
		r, err := recording.Changed(trixie.file("dense.pinf"), change)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := parity(r, prefill, decode); len(wrong) == 0 {
			t.Errorf("%s: nobody noticed", name)
		} else {
			t.Logf("%s: %s", name, wrong[0])
		}
	}
}
