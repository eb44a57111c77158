// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// log is a shortened log of llama-eval-callback: an earlier listing of the scheduler's,
// that of the graph which is computed, the nodes with some values.
const log = `number of input tokens = 5
node #  0 (  GET_ROWS):                 embd (   1K) [  CPU         ] use=2,c=0:    token_embd.weight (  72K) [  CPU         ]
node #  9 (      ROPE):                 gone (   1K) [  CPU         ] use=2,c=1:
## SPLIT #0: CPU # 0 inputs
node #  0 (  GET_ROWS):                 embd (   1K) [  CPU         ] use=2,c=1:    token_embd.weight (  72K) [  CPU         ]           inp_tokens (   0K) [  CPU         ]
node #  1 (  GET_ROWS):               node_1 (   1K) [  CPU         ] use=1,c=0:    token_embd.weight (  72K) [  CPU         ]     inp_mixed_tokens (   0K) [  CPU         ]
node #  3 (FLASH_ATTN):               node_3 (   1K) [  CPU         ] use=1,c=1:       inp_mixed_embd (   1K) [  CPU         ]
node #  4 (     SCALE):                state (   0K) [  CPU         ] use=1,c=1:       inp_mixed_embd (   1K) [  CPU         ]
node #  5 (   MUL_MAT):        result_output (   0K) [  CPU         ] use=0,c=1:       inp_mixed_embd (   1K) [  CPU         ]
common_debug_cb_eval:                     embd = (f32)   GET_ROWS(token_embd.weight{256, 512, 1, 1}, inp_tokens{5, 1, 1, 1}}) = {256, 5, 1, 1}
    [
        [
            [      0.4783,      -0.7174,       0.7174,    ...,      -0.4783,      -1.6740,      -0.9565  ],
    ]
    sum = -25.826660
common_debug_cb_eval:                   node_1 = (f32)   GET_ROWS(token_embd.weight{256, 512, 1, 1}, inp_mixed_tokens{5, 1, 1, 1}}) = {256, 5, 1, 1}
common_debug_cb_eval:  cache_k_l0 (view) (permuted) = (f16)    PERMUTE(cache_k_l0 (view){64, 4, 256, 1}, }) = {64, 256, 4, 1}
common_debug_cb_eval:                   node_3 = (f32) FLASH_ATTN_EXT(Qcur-0 (view) (permuted){64, 5, 4, 1},  (view){64, 256, 4, 1}}) = {64, 4, 5, 1}
common_debug_cb_eval:                    state = (f32)      SCALE(cache_r_l0 (reshaped){768, 1, 1, 1}, }) = {768, 0, 1, 1}
common_debug_cb_eval:            result_output = (f32)    MUL_MAT(output.weight{256, 512, 1, 1}, result_norm{256, 1, 1, 1}}) = {512, 1, 1, 1}
    [
        [  1.0`

func TestParse(t *testing.T) {
	g, err := parse(log)
	if err != nil {
		t.Fatal(err)
	}
	if g.Tokens != 5 || len(g.Nodes) != 6 {
		t.Fatalf("%d tokens, %d nodes", g.Tokens, len(g.Nodes))
	}
	want := []Node{
		{Index: 0, Name: "embd", Op: "GET_ROWS", Type: "f32", Ne: [4]int64{256, 5, 1, 1}, Marked: true,
			Src: []Source{{"token_embd.weight", [4]int64{256, 512, 1, 1}},
				{"inp_tokens", [4]int64{5, 1, 1, 1}}}},
		{Index: 2, Name: "cache_k_l0 (view) (permuted)", Op: "PERMUTE", Type: "f16",
			Ne:  [4]int64{64, 256, 4, 1},
			Src: []Source{{"cache_k_l0 (view)", [4]int64{64, 4, 256, 1}}}},
		{Index: 3, Name: "node_3", Op: "FLASH_ATTN_EXT", Type: "f32", Ne: [4]int64{64, 4, 5, 1}, Marked: true,
			Src: []Source{{"Qcur-0 (view) (permuted)", [4]int64{64, 5, 4, 1}},
				{"(view)", [4]int64{64, 256, 4, 1}}}},
	}
	for _, w := range want {
		if !reflect.DeepEqual(g.Nodes[w.Index], w) {
			t.Errorf("node %d is %+v\nwant %+v", w.Index, g.Nodes[w.Index], w)
		}
	}
	var ran []string
	for _, n := range Executed(g.Nodes) {
		ran = append(ran, n.Name)
	}
	if got := strings.Join(ran, " "); got != "embd node_3 result_output" {
		t.Errorf("executed: %s", got)
	}
}

func TestParseErrors(t *testing.T) {
	result := strings.Index(log, "common_debug_cb_eval:            result_output")
	for _, n := range []int{0, 100, result, result + 20, result + 90} {
		if _, err := parse(log[:n]); !errors.Is(err, ErrCut) {
			t.Errorf("cut after %d: %v", n, err)
		}
	}
	nodes := log[strings.Index(log, "common_debug"):]
	listing := log[:strings.Index(log, "common_debug")]
	for want, text := range map[string]string{
		"no listing":    nodes,
		"one graph":     listing + nodes + "\n" + listing,
		"are computed":  strings.Replace(listing, "node #  5", "node #  6", 1) + nodes,
		"as it is":      strings.Replace(listing, "(FLASH_ATTN)", "(      ROPE)", 1) + nodes,
		"cannot read":   strings.Replace(log, "= {256, 5, 1, 1}", "= {256, 5, 1, -1}", 1),
		"cannot read t": strings.Replace(log, "inp_tokens{5, 1, 1, 1}", "inp_tokens{5, 1}", 1),
		"the number":    strings.Replace(log, "node #  5", "node #999999999", 1),
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// A prompt that is computed in several graphs: one that is used again is not listed again.
func TestGraphs(t *testing.T) {
	whole := log + "\n"
	nodes := whole[strings.Index(whole, "common_debug"):]
	listing := whole[:strings.Index(whole, "common_debug")]
	gs, err := Graphs(whole + nodes + strings.ReplaceAll(listing, "c=1", "c=0") + nodes)
	if err != nil || len(gs) != 3 {
		t.Fatalf("%d graphs, %v", len(gs), err)
	}
	for i, want := range []int{3, 3, 0} {
		if n := len(Executed(gs[i].Nodes)); len(gs[i].Nodes) != 6 || n != want || gs[i].Nodes[5].Index != 5 {
			t.Errorf("graph %d: %d nodes, %d of them run, want %d", i, len(gs[i].Nodes), n, want)
		}
	}
	for what, cut := range map[string]string{"within a graph": whole + nodes[:len(nodes)/2],
		"before one": whole + listing} {
		if gs, err := Graphs(cut); len(gs) != 1 || !errors.Is(err, ErrCut) {
			t.Errorf("cut %s: %d graphs, %v", what, len(gs), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(log)
	f.Add("common_debug_cb_eval: a = (f32) X(}) = {1, 1, 1, 1}\n")
	f.Fuzz(func(t *testing.T, s string) {
		g, err := parse(s)
		if err != nil {
			return
		}
		for i, n := range g.Nodes {
			if n.Index != i || len(n.Src) > 2 && !strings.Contains(s, "}, ") {
				t.Errorf("node %d: %+v", i, n)
			}
		}
	})
}
