// SPDX-License-Identifier: Apache-2.0

// Package oracle tells what llama.cpp itself says it computes, to compare with what
// profinfer says it saw. It runs llama-eval-callback, which prints every node of a
// graph as it is computed, with the scheduler's listing of the same graph switched on
// (GGML_SCHED_DEBUG=2), which tells the nodes that are marked for computation.
//
// Which run to compare with. The same graph needs the same number of tokens in the
// batch, of cells in the KV cache (its length, -c, and its used part in steps of 256)
// and the same flash attention (-fa; "auto" is on in all of these programs). With
// Debian's llama.cpp 0.7.0, found by comparing the scheduler's listings (names,
// operators, sources, sizes, marks) of all of their graphs:
//
//	oracle                                       the same graph as
//	Eval(-c 256, prompt of k tokens), k > 1      the step of llama-bench -p k -n 0 --no-warmup -r 1
//	                                             the first step of llama-simple -n m, k+m <= 257, same prompt
//	                                             the first step of llama-completion -c 256 --no-warmup -no-cnv
//	Eval(-c 256, prompt of 1 token)              every step of llama-bench -p 0 -n m --no-warmup -r 1, m <= 256
//	                                             every later step of the other two, up to 256 tokens
//
// Without --no-warmup llama-bench runs the same k tokens (or 1) once more, and
// llama-completion a batch of 2 tokens. llama-simple has no warm-up. Recurrent models
// (mamba) differ: their first step clears the state with SCALE nodes that have a
// dimension of 0, and are not computed, in later steps.
//
// The callback makes the engine run one node at a time, so that nothing is fused: a
// profiled operator RMS_NORM+MUL is two nodes here, at its own number and at the next
// ones that are computed.
package oracle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/profinfer/profinfer/demo"
)

// Node is one tensor of a graph.
type Node struct {
	Index int    // its number in graph order, views included
	Name  string // without leading spaces; names are not unique
	Op    string // ggml's description of the operator: MUL_MAT, SWIGLU
	Type  string // f32
	Ne    [4]int64
	// Src are the first one or two sources: more are not printed.
	Src []Source
	// Marked is set if the scheduler lists the node as one to be computed. Views, which
	// it does not list, are not marked.
	Marked bool
}

// Source is an input of a node.
type Source struct {
	Name string
	Ne   [4]int64
}

// Graph is what one call computed.
type Graph struct {
	Tokens int // of the prompt
	Nodes  []Node
}

// attempts to get a log that is whole: the program ends without waiting for its own log,
// which then lacks its end, one time in about two.
const attempts = 40

// Eval runs llama-eval-callback of e on a model (its name inside of e's root), with
// more arguments such as "-c", "256", "-p", [BytePrompt](5). The model needs a
// vocabulary. It returns the graph of the prompt, which must fit into one batch. It computes on one thread: the
// graph is the same, and two that wait for each other at every node last long beside other work.
func Eval(ctx context.Context, e demo.Engine, model string, args ...string) (Graph, error) {
	argv := e.Command("llama-eval-callback", append([]string{"-m", model, "-t", "1", "-v",
		"--log-colors", "off", "--no-log-prefix", "--no-log-timestamps"}, args...)...)
	var err error
	for range attempts {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "GGML_SCHED_DEBUG=2", "LC_ALL=C")
		var out []byte
		out, err = cmd.CombinedOutput()
		if ctx.Err() != nil {
			return Graph{}, ctx.Err()
		}
		if err != nil {
			return Graph{}, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, tail(string(out), 5))
		}
		var g Graph
		if g, err = parse(string(out)); err == nil {
			return g, nil
		}
		if !errors.Is(err, ErrCut) {
			break
		}
	}
	return Graph{}, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
}

// Executed returns the nodes that threads compute, in order: without views, without
// those that are not marked for computation, and without those that have no elements.
func Executed(nodes []Node) []Node {
	var out []Node
	for _, n := range nodes {
		if n.Executed() {
			out = append(out, n)
		}
	}
	return out
}

// Executed reports whether threads compute the node.
func (n Node) Executed() bool {
	switch n.Op {
	case "NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE":
		return false
	}
	for _, d := range n.Ne {
		if d == 0 {
			return false
		}
	}
	return n.Marked
}

// BytePrompt returns the argument of a prompt of n tokens for the models of package
// demo, whose vocabulary has one token for each byte.
func BytePrompt(n int) string { return strings.Repeat("a", n) }

// TinyPrompt returns the argument of a prompt of n tokens for the models of
// [TinyModel], whose tokenizer makes a token of every five characters.
func TinyPrompt(n int) string { return strings.Repeat("hello", n) }

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
