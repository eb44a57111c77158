// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/oracle"
)

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestTinyModels(t *testing.T) {
	e := engines.Debian(t)
	ctx := deadline(t)
	for _, name := range oracle.TinyModels {
		t.Run(name, func(t *testing.T) {
			_, model, err := oracle.TinyModel(ctx, e, name)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range []int{1, 7} {
				g, err := oracle.Eval(ctx, e, model, "-c", "256", "-p", oracle.TinyPrompt(k))
				if err != nil {
					t.Fatal(err)
				}
				check(t, g, k)
				var chosen int
				for _, n := range g.Nodes {
					if n.Op == "MUL_MAT_ID" {
						chosen++
					}
				}
				if moe := strings.HasSuffix(name, "-moe"); moe != (chosen > 0) {
					t.Errorf("%d products with chosen experts", chosen)
				}
			}
		})
	}
	for _, name := range []string{"", "llama", "../x-moe", "llama-moe.gguf"} {
		if _, _, err := oracle.TinyModel(ctx, e, name); err == nil {
			t.Errorf("%q names a model", name)
		}
	}
}

// check looks for what is true of every graph.
func check(t *testing.T, g oracle.Graph, tokens int) {
	t.Helper()
	if g.Tokens != tokens {
		t.Errorf("%d tokens, want %d", g.Tokens, tokens)
	}
	first := g.Nodes[0]
	if first.Op != "GET_ROWS" || first.Name != "embd" && first.Name != "inp_embd" ||
		first.Ne[1] != int64(tokens) || !first.Executed() {
		t.Errorf("the first node is %+v", first)
	}
	last := g.Nodes[len(g.Nodes)-1]
	if last.Ne[1] != 1 || !last.Executed() {
		t.Errorf("the last node is %+v", last)
	}
	for _, n := range g.Nodes {
		var mixed bool // inputs that a batch of tokens does not have: facts of llama.cpp 0.7.0
		for _, s := range n.Src {
			mixed = mixed || strings.HasPrefix(s.Name, "inp_mixed_")
		}
		if mixed && n.Executed() {
			t.Errorf("node %d %s %s is said to run, though it reads inp_mixed_", n.Index, n.Op, n.Name)
		}
		if !n.Marked && !mixed && n.Op != "VIEW" && n.Op != "RESHAPE" && n.Op != "PERMUTE" &&
			n.Op != "TRANSPOSE" {
			t.Errorf("node %d %s %s is not marked", n.Index, n.Op, n.Name)
		}
	}
	if n := len(oracle.Executed(g.Nodes)); n < 20 || n >= len(g.Nodes) {
		t.Errorf("%d of %d nodes run", n, len(g.Nodes))
	}
}

func TestModels(t *testing.T) {
	e := engines.Debian(t)
	for _, name := range []string{"llama-tiny-vocab", "moe-tiny-vocab"} {
		_, model := engines.Model(t, e, name)
		g, err := oracle.Eval(deadline(t), e, model, "-c", "256", "-p", oracle.BytePrompt(9))
		if err != nil {
			t.Fatal(err)
		}
		check(t, g, 9)
		for _, n := range g.Nodes {
			if n.Name == "result_output" && n.Ne != [4]int64{512, 1, 1, 1} {
				t.Errorf("result_output is %v", n.Ne)
			}
			if n.Name == "ffn_moe_gate-0" && n.Ne != [4]int64{128, 4, 9, 1} {
				t.Errorf("ffn_moe_gate-0 is %v, want 4 experts of width 128 for 9 tokens", n.Ne)
			}
		}
	}
	_, model := engines.Model(t, e, "llama-tiny") // no vocabulary
	if _, err := oracle.Eval(deadline(t), e, model, "-p", "a"); err == nil {
		t.Error("a model without a vocabulary is evaluated")
	}
}

var (
	listed = regexp.MustCompile(`node # *(\d+) \(.*`)
	prefix = regexp.MustCompile(`\d\.\d\d\.\d{3}\.\d{3} \w `)
)

// graphs returns the scheduler's listings in a program's log, each as one text, without
// repeats of the one before.
func graphs(t *testing.T, argv []string) []string {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "GGML_SCHED_DEBUG=2")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%.2000s", argv, err, out)
	}
	var all []string
	last := -1
	for line := range strings.Lines(string(out)) {
		m := listed.FindStringSubmatch(prefix.ReplaceAllString(line, ""))
		if m == nil {
			continue
		}
		i, _ := strconv.Atoi(m[1])
		if i <= last || len(all) == 0 {
			all = append(all, "")
		}
		last = i
		all[len(all)-1] += strings.TrimSpace(m[0]) + "\n"
	}
	return slices.Compact(all)
}

// The programs that the package's documentation names run the very graphs that the
// oracle tells of: the scheduler lists the same nodes, with the same sources and sizes.
func TestSameGraph(t *testing.T) {
	e := engines.Debian(t)
	const k = 5
	for _, name := range []string{"llama-tiny-vocab", "moe-tiny-vocab", "deepseek2-moe", "gemma2-dense"} {
		t.Run(name, func(t *testing.T) {
			var model, prompt, one string
			if strings.HasSuffix(name, "-vocab") {
				_, model = engines.Model(t, e, name)
				prompt, one = oracle.BytePrompt(k), oracle.BytePrompt(1)
			} else {
				var err error
				if _, model, err = oracle.TinyModel(deadline(t), e, name); err != nil {
					t.Fatal(err)
				}
				prompt, one = oracle.TinyPrompt(k), oracle.TinyPrompt(1)
			}
			eval := func(p string) string {
				argv := e.Command("llama-eval-callback", "-m", model, "-v", "--no-log-prefix",
					"--no-log-timestamps", "-c", "256", "-p", p)
				var g string
				for range 20 { // its log may lack its end
					all := graphs(t, argv)
					if g = all[len(all)-1]; strings.Contains(g, "result_output") {
						break
					}
				}
				return g
			}
			prefill, decode := eval(prompt), eval(one)
			if prefill == decode {
				t.Fatal("the sizes do not tell the two graphs apart: the test cannot fail")
			}
			bench := func(p, n int) []string {
				return graphs(t, e.Command("llama-bench", "-m", model, "-v", "-p", fmt.Sprint(p), "-n",
					fmt.Sprint(n), "-r", "1", "-t", "2", "--no-warmup"))
			}
			// what keeps the last of a program's graphs from being those wanted
			differ := func(got, want []string) string {
				if len(got) < len(want) {
					return fmt.Sprintf("%d graphs", len(got))
				}
				for i, g := range got[len(got)-len(want):] {
					if g != want[i] {
						return fmt.Sprintf("graph %d differs:\n%s", i, firstDifference(want[i], g))
					}
				}
				return ""
			}
			if d := differ(bench(k, 0), []string{prefill}); d != "" {
				t.Errorf("llama-bench -p: %s", d)
			}
			if d := differ(bench(0, 3), []string{decode}); d != "" {
				t.Errorf("llama-bench -n: %s", d)
			}
			if d := differ(graphs(t, e.Command("llama-simple", "-m", model, "-n", "3", prompt)),
				[]string{prefill, decode}); d != "" {
				t.Errorf("llama-simple: %s", d)
			}
			completion := e.Command("llama-completion", "-m", model, "-v", "--no-log-prefix",
				"--no-log-timestamps",
				"-c", "256", "--no-warmup", "-no-cnv", "--no-display-prompt", "--ignore-eos", "-n", "3", "-p",
				prompt)
			var d string
			for range 20 { // its log may lack its end
				if d = differ(graphs(t, completion), []string{prefill, decode}); d == "" {
					break
				}
			}
			if d != "" {
				t.Errorf("llama-completion, every time: %s", d)
			}
		})
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "oracle:  " + x[i] + "\nprogram: " + y[i]
		}
	}
	return fmt.Sprintf("oracle has %d lines, program %d", len(x), len(y))
}
