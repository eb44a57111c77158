// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
)

// expertFigures are those that the page shows of experts, with the colours of its maps: by row and column.
type expertFigures struct {
	Figures []expertFigure                `json:"figures"`
	Rows    map[string][]string           `json:"rows"`
	Load    map[string][][]rgb            `json:"load"`
	Tokens  map[string]map[string][][]rgb `json:"tokens"`
	Picked  map[string][]expertPick       `json:"picked"`
	Reads   []expertFigure                `json:"reads"`

	Difference [][]rgb   `json:"difference"`
	Own        [][][]rgb `json:"own"`
}

type expertFigure struct{ Name, V, Text string }

type expertPick struct {
	Layer  string `json:"layer"`
	Tok    int    `json:"tok"`
	Step   string `json:"step"`
	Token  string `json:"token"`
	Chosen string `json:"chosen"`
}

type rgb [3]int

// The colours of the light theme.
var (
	blank = rgb{0xf6, 0xf7, 0xf9}
	again = rgb{0x00, 0x72, 0xb2}
	fresh = rgb{0xd5, 0x5e, 0x00}
	first = rgb{0x8a, 0x8f, 0x98}
)

// suits tells whether a colour is that of a load of so many times the mean: nothing, blue below it, red
// above.
func (c rgb) suits(factor float64) bool {
	warm := c[0] - c[2]
	switch {
	case factor == 0:
		return c == blank
	case factor > 1.3:
		return warm > 15
	case factor < 0.7:
		return warm < -15
	}
	return c != blank
}

// choice is what a token chose, by rank.
type choice struct {
	step, token int
	experts     []int
}

// choicesOf returns what tokens chose in steps of a phase, by layer, from the exported tables.
func choicesOf(t *testing.T, file, phase string) map[string][]choice {
	t.Helper()
	steps := map[any]bool{}
	for _, s := range exported(t, file, "steps") {
		steps[s["step"]] = s["phase"] == phase
	}
	out := map[string][]choice{}
	for _, e := range exported(t, file, "experts") {
		if !steps[e["step"]] {
			continue
		}
		layer := fmt.Sprint(e["layer"])
		step, token := int(e["step"].(float64)), int(e["token"].(float64))
		l := out[layer]
		if len(l) == 0 || l[len(l)-1].step != step || l[len(l)-1].token != token {
			l = append(l, choice{step: step, token: token})
		}
		l[len(l)-1].experts = append(l[len(l)-1].experts, int(e["expert"].(float64)))
		out[layer] = l
	}
	return out
}

// compareExperts compares what the page shows of experts with stat --json and the exported table.
func compareExperts(t *testing.T, file string, f expertFigures) {
	t.Helper()
	stat := statJSON(t, file, "weight")
	named := 0
	for _, g := range f.Figures {
		want, ok := at(stat, g.Name)
		if !ok || !same(g.V, want) {
			t.Errorf("%s is %q (%s), stat --json says %v", g.Name, g.V, g.Text, want)
		}
		named++
	}
	for _, phase := range []string{"prefill", "decode"} {
		var experts map[string]any
		for _, p := range list(stat["phases"]) {
			if o := object(p); o["phase"] == phase {
				experts = object(o["experts"])
			}
		}
		layers := list(experts["layers"])
		if len(layers) == 0 || len(f.Rows[phase]) != len(layers) || len(f.Load[phase]) != len(layers) {
			t.Fatalf("%s: %d rows, a map of %d; stat --json has %d layers", phase, len(f.Rows[phase]),
				len(f.Load[phase]), len(layers))
		}
		if named < 8*len(layers) {
			t.Errorf("only %d figures for %d layers", named, len(layers))
		}
		chosen := choicesOf(t, file, phase)
		for i, x := range layers {
			l := object(x)
			id := fmt.Sprint(l["layer"])
			loads := list(l["load"])
			sum := 0.0
			for _, n := range loads {
				sum += n.(float64)
			}
			if len(f.Load[phase][i]) < len(loads) {
				t.Fatalf("%s, layer %s: a map of %d experts, not %d", phase, id, len(f.Load[phase][i]),
					len(loads))
			}
			for e, n := range loads {
				if c, factor := f.Load[phase][i][e], n.(float64)*float64(len(loads))/sum; !c.suits(factor) {
					t.Errorf("%s, layer %s, expert %d: the colour %v for %.2f times the mean", phase, id, e,
						c, factor)
				}
			}
			compareTokens(t, phase+", layer "+id, f.Tokens[phase][id], chosen[id], len(loads))
			for _, p := range f.Picked[phase] {
				if p.Layer != id || p.Tok >= len(chosen[id]) {
					continue
				}
				c := chosen[id][p.Tok]
				if p.Step != strconv.Itoa(c.step) || p.Chosen != strings.Trim(fmt.Sprint(c.experts), "[]") ||
					p.Token != strconv.Itoa(c.token) {
					t.Errorf("%s, layer %s, token %d: %+v, the table says %+v", phase, id, p.Tok, p, c)
				}
			}
		}
	}
}

// compareTokens compares the map of tokens, a column each, with what they chose.
func compareTokens(t *testing.T, what string, cells [][]rgb, chosen []choice, experts int) {
	t.Helper()
	if len(cells) != experts || len(cells[0]) != len(chosen) {
		t.Errorf("%s: a map of %d experts, want %d for %d tokens", what, len(cells), experts, len(chosen))
		return
	}
	for col, c := range chosen {
		for e := range experts {
			want := blank
			if slices.Contains(c.experts, e) {
				switch {
				case col == 0:
					want = first
				case slices.Contains(chosen[col-1].experts, e):
					want = again
				default:
					want = fresh
				}
			}
			if got := cells[e][col]; got != want {
				t.Errorf("%s, token %d, expert %d has the colour %v, want %v", what, col, e, got, want)
				return
			}
		}
	}
}

// loadsIn returns the loads of experts by layer in decode, against the means of their layers.
func loadsIn(t *testing.T, file string) (out [][]float64) {
	t.Helper()
	for _, p := range list(statJSON(t, file, "weight")["phases"]) {
		if object(p)["phase"] != "decode" {
			continue
		}
		for _, l := range list(object(object(p)["experts"])["layers"]) {
			var loads []float64
			sum := 0.0
			for _, n := range list(object(l)["load"]) {
				loads = append(loads, n.(float64))
				sum += n.(float64)
			}
			for i := range loads {
				loads[i] *= float64(len(loads)) / sum
			}
			out = append(out, loads)
		}
	}
	return out
}

// compareDifference checks the maps of two runs, and that of the second against the first.
func compareDifference(t *testing.T, files [2]string, f expertFigures) {
	t.Helper()
	a, b := loadsIn(t, files[0]), loadsIn(t, files[1])
	if len(f.Own) != 2 || len(f.Difference) != len(a) || len(a) == 0 {
		t.Fatalf("%d maps, a difference of %d layers", len(f.Own), len(f.Difference))
	}
	for i := range a {
		for e := range a[i] {
			ratio := b[i][e] / a[i][e] // of two zeros NaN: nothing
			if a[i][e] == 0 && b[i][e] == 0 {
				ratio = 0
			} else if b[i][e] == 0 {
				ratio = 1e-9
			}
			for what, c := range map[string]struct {
				got  rgb
				want float64
			}{"first": {f.Own[0][i][e], a[i][e]}, "second": {f.Own[1][i][e],
				b[i][e]}, "difference": {f.Difference[i][e], ratio}} {
				if !c.got.suits(c.want) {
					t.Errorf("%s, layer %d, expert %d: the colour %v for %.2f", what, i, e, c.got, c.want)
				}
			}
		}
	}
}

// Experts in the page: every look, figures against stat --json and the exported table, the maps' colours cell
// by cell, keys and links.
func TestExperts(t *testing.T) {
	tools(t)
	looks := [][3]int{light, smdrk}
	experts, names := recorded(t, "experts"), recorded(t, "experts-names")
	other := filepath.Join(t.TempDir(), "other.pinf")
	out, err := os.Create(other)
	if err != nil {
		t.Fatal(err)
	}
	run := profiletest.Run{Model: profiletest.MoE, PID: 100, Ctx: 0x5, Threads: 1, Decode: 20,
		Start: 1_000_000_000, Gap: 300,
		Choose: func(layer, pos, rank int64) int32 { return int32(rank*4 + (layer+pos*rank+pos)%5%4) }}
	run.Model.Layers = 3
	err = profiletest.Record(out, nil, func(_ *profiletest.Recorder, p *profiletest.Player) error {
		return p.Play(run)
	})
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	a, b, plain := load(t, "a.pinf", experts), load(t, "b.pinf", names),
		load(t, "plain.pinf", recorded(t, "plain"))
	tables := []tableOf{{}}
	p := plan{Pages: []page{
		{Name: "experts", URL: write(t, "experts", a), Looks: [][3]int{small, dark}, Tables: tables},
		{Name: "compared", URL: write(t, "compared", a, load(t, "other.pinf", other)), Looks: looks},
		{Name: "compared-plain", URL: write(t, "compared-plain", plain, b), Looks: [][3]int{small},
			Long: true},
		{Name: "plain", URL: write(t, "plain", plain), Looks: [][3]int{small}, Brief: true},
		{Name: "level-step", URL: write(t, "level-step", load(t, "s.pinf", recorded(t, "level-step"))),
			Looks: [][3]int{small}, Brief: true},
		{Name: "empty", URL: write(t, "empty", load(t, "e.pinf", recorded(t, "empty"))), Brief: true},
	}}
	for name, o := range suite(t, "experts", p) {
		var f expertFigures
		if err := json.Unmarshal(o.Data, &f); len(o.Data) > 0 && err != nil {
			t.Fatal(err)
		}
		switch name {
		case "experts/figures":
			t.Run("figures compared", func(t *testing.T) { compareExperts(t, experts, f) })
		case "compared/difference":
			t.Run("difference compared", func(t *testing.T) {
				compareDifference(t, [2]string{experts, other}, f)
			})
		case "experts/keys":
			stat := statJSON(t, experts, "weight")
			for _, g := range f.Reads {
				if want, ok := at(stat, g.Name); !ok || !same(g.V, want) {
					t.Errorf("a cell reads %s %q, stat --json says %v", g.Name, g.V, want)
				}
			}
			if len(f.Reads) != 3 {
				t.Errorf("%d cells were read", len(f.Reads))
			}
		}
	}
}
