// SPDX-License-Identifier: Apache-2.0

package dot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

var small = profiletest.Run{Model: profiletest.Small, PID: 4242, Ctx: 0xabc, Threads: 2, Prefill: 32,
	Decode: 8, Start: 1_000_000_000}

func player(runs ...profiletest.Run) func(profile.Sink) (*profile.Header, error) {
	return func(s profile.Sink) (*profile.Header, error) {
		p := &profiletest.Player{Sink: s}
		for _, r := range runs {
			if err := p.Play(r); err != nil {
				return nil, err
			}
		}
		return p.Header("op"), nil
	}
}

func export(t *testing.T, opt Options, runs ...profiletest.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, player(runs...), opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// graphviz is what Graphviz read: its own JSON form.
type graphviz struct {
	Objects []struct {
		ID    int    `json:"_gvid"`
		Name  string `json:"name"`
		Label string `json:"label"`
		Fill  string `json:"fillcolor"`
		Nodes []int  `json:"nodes"`
	} `json:"objects"`
	Edges []struct {
		Tail  int    `json:"tail"`
		Head  int    `json:"head"`
		Label string `json:"label"`
	} `json:"edges"`
}

// render lets Graphviz read it, where it is installed.
func render(t *testing.T, text string) *graphviz {
	t.Helper()
	dot, err := exec.LookPath("dot")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("Graphviz is not installed")
		}
		t.Skip("Graphviz is not installed")
	}
	cmd := exec.Command(dot, "-Tjson")
	cmd.Stdin = strings.NewReader(text)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("dot: %v\n%s", err, errs.String())
	}
	var g graphviz
	if err := json.Unmarshal(out.Bytes(), &g); err != nil {
		t.Fatal(err)
	}
	return &g
}

// find returns the number of the first node whose label begins with these lines.
func (g *graphviz) find(t *testing.T, lines ...string) int {
	t.Helper()
	return g.findAll(t, lines...)[0]
}

func (g *graphviz) findAll(t *testing.T, lines ...string) (ids []int) {
	t.Helper()
	for _, o := range g.Objects {
		if o.Nodes == nil && strings.HasPrefix(o.Label+`\n`, strings.Join(lines, `\n`)) {
			ids = append(ids, o.ID)
		}
	}
	if ids == nil {
		t.Fatalf("no node %q", lines)
	}
	return ids
}

func (g *graphviz) edge(t *testing.T, from, to int, label string) {
	t.Helper()
	for _, e := range g.Edges {
		if e.Tail == from && e.Head == to {
			if e.Label != label {
				t.Errorf("edge %d to %d is labelled %q, want %q", from, to, e.Label, label)
			}
			return
		}
	}
	t.Errorf("no edge %d to %d", from, to)
}

func TestFolded(t *testing.T) {
	g := render(t, export(t, Options{}, small))
	embd := g.find(t, "token_embd", `GET_ROWS 64`)
	norm := g.find(t, "attn_norm", "RMS_NORM+MUL 64")
	q := g.find(t, "attn_q", "MUL_MAT 64", "q4_0 2.25 KiB")
	fa := g.find(t, "FLASH_ATTN_EXT")
	cache := g.find(t, "cache_k", "f16 32×4096")
	set := g.find(t, "cache_k", "SET_ROWS")
	inp, out := g.find(t, "ffn_inp", "ADD 64"), g.find(t, "l_out", "ADD 64")
	g.edge(t, embd, norm, "256 B")
	g.edge(t, embd, inp, "256 B") // the residual
	g.edge(t, norm, q, "256 B")
	g.edge(t, set, cache, "")
	g.edge(t, cache, fa, "16 KiB") // of the view
	g.edge(t, inp, out, "256 B")
	g.edge(t, out, g.find(t, "output_norm"), "256 B")
	for _, e := range g.Edges {
		if e.Tail == out && (e.Head == norm || e.Head == inp) {
			t.Error("a layer leads back to itself")
		}
	}
	var clusters []string
	for _, o := range g.Objects {
		if o.Nodes != nil {
			clusters = append(clusters, o.Name)
		}
	}
	if s := strings.Join(clusters, " "); s != "cluster_kind0 cluster_kind0_attention cluster_kind0_ffn" {
		t.Errorf("clusters %s", s)
	}
	g = render(t, export(t, Options{Layers: true}, small))
	outs, norms := g.findAll(t, "l_out"), g.findAll(t, "attn_norm", "RMS_NORM+MUL 64")
	if len(outs) != 2 || len(norms) != 2 {
		t.Fatalf("%d and %d nodes of two layers", len(outs), len(norms))
	}
	g.edge(t, outs[0], norms[1], "256 B")
}

// TestFigures checks a node's figures against the statistics.
func TestFigures(t *testing.T) {
	b := stat.New(stat.Options{Phases: []profile.Phase{profile.Prefill}})
	h, err := player(small)(b)
	if err != nil {
		t.Fatal(err)
	}
	text := export(t, Options{Phase: profile.Prefill, Color: ByBandwidth}, small)
	rows := 0
	for _, r := range b.Finish(h).Phases[0].Rows {
		if r.Key != "ffn_down" && r.Key != "attn_q" {
			continue
		}
		rows++
		want := fmt.Sprintf("%s  %.1f %%  %.1f GB/s", format.Label.Duration(r.DurPerStep), *r.Share*100,
			*r.GBps)
		if !strings.Contains(text, r.Key+`\nMUL_MAT`) || !strings.Contains(text, want) {
			t.Errorf("%s: no %q", r.Key, want)
		}
	}
	if rows != 2 || !strings.Contains(text, "prefill: 1 steps") {
		t.Errorf("%d rows", rows)
	}
}

func TestHostileNames(t *testing.T) {
	r := small
	r.Model.Suffix = "\"]; x [label=\"<b>\\N\\G\n\x00\x1b[31m\u202e&lt;&#60;" + strings.Repeat("w", 64)
	text := export(t, Options{}, r)
	if strings.ContainsAny(text, "\x00\x1b\u202e") {
		t.Error("control characters are in the file")
	}
	g := render(t, text)
	found := false
	for _, o := range g.Objects {
		if strings.Contains(o.Label, "ffn_down") {
			found = true
			if !strings.Contains(o.Label, `<b>`) || !strings.Contains(o.Label, `&amp;lt;`) {
				t.Errorf("label %q", o.Label)
			}
		}
	}
	if !found {
		t.Error("no ffn_down")
	}
	if n := len(regexp.MustCompile(`(?m)^ *n\d+ \[label="`).FindAllString(text, -1)); n != len(g.Objects)-3 {
		t.Errorf("%d nodes written, Graphviz read %d", n, len(g.Objects)-3)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{`a"b`: `"a\"b"`, `\N`: `"\\N"`, "a\nb": `"a\nb"`,
		"&lt;": `"&amp;lt;"`, `\"`: `"\\\""`} {
		if got := quote(in); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}

// graph plays one step of one graph.
func graph(s *trace.Shape) func(profile.Sink) (*profile.Header, error) {
	return func(k profile.Sink) (*profile.Header, error) {
		step := &profile.Step{ID: 1, PID: 7, Phase: profile.Decode, Dur: 1000, NTokens: 1}
		g := &profile.Graph{Step: 1, PID: 7, Backend: "CPU", Shape: &profile.Shape{Index: 1, Shape: s}}
		for _, err := range []error{k.Graph(g), k.Step(step)} {
			if err != nil {
				return nil, err
			}
		}
		return &profile.Header{}, nil
	}
}

func TestOddGraphs(t *testing.T) {
	loop := &trace.Shape{NNodes: 4}
	for i := range 4 {
		loop.Nodes = append(loop.Nodes,
			trace.Node{Op: "SET_ROWS", Src: []int32{int32(3 - i), int32((i + 1) % 4), -1, 1 << 30},
				Ne: [4]int64{math.MaxInt64, math.MaxInt64, -1, 1}, ViewSrc: int32(i), Executes: i < 2})
	}
	var b bytes.Buffer
	if err := Export(&b, graph(loop), Options{}); err != nil {
		t.Fatal(err)
	}
	render(t, b.String())
	b.Reset()
	big := &trace.Shape{NNodes: 30_000}
	for i := range big.NNodes {
		big.Nodes = append(big.Nodes, trace.Node{Op: "MUL", Src: []int32{int32(i) - 1}, ViewSrc: -1,
			Executes: true})
	}
	if err := Export(&b, graph(big), Options{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "[label="); n != maxNodes ||
		!strings.Contains(b.String(), "only the first 20000 operators") {
		t.Errorf("%d nodes", n)
	}
}

func TestNothing(t *testing.T) {
	for _, opt := range []Options{{}, {Phase: profile.Encode}} {
		r := small
		r.NoOps = opt.Phase == ""
		err := Export(&bytes.Buffer{}, player(r), opt)
		if err == nil || !strings.Contains(err.Error(), "no graph was seen") {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	if _, err := ParseColor("red"); err == nil {
		t.Error("red is a colouring")
	}
}
