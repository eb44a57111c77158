// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"os"
	"strings"

	"github.com/profinfer/profinfer/profile"
)

// Log reads a file with the output of llama-eval-callback -v --log-colors off --no-log-prefix
// --no-log-timestamps, run elsewhere with GGML_SCHED_DEBUG=2. An error is returned too where the log was cut
// at its end.
func Log(file string) (Graph, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Graph{}, err
	}
	g, err := parse(string(b))
	if err != nil {
		return g, fmt.Errorf("%s: %w", file, err)
	}
	return g, nil
}

// Differ compares what was seen of a step of one graph, its operators in order and the graph's shape, with
// the nodes that the engine says are there. It returns what is wrong, nothing if they agree. Of a step of
// several graphs, shape is nil: its operators alone are compared.
func Differ(ops []*profile.Op, shape *profile.Shape, want []Node) (wrong []string) {
	complain := func(format string, a ...any) {
		if len(wrong) < 8 {
			wrong = append(wrong, fmt.Sprintf(format, a...))
		}
	}
	var got []string
	for _, o := range ops {
		for _, n := range append([]int32{o.Node}, o.Fused...) { // a fused one as its nodes
			d := &o.Shape.Nodes[n]
			got = append(got, line(d.Name, d.Op, d.Ne))
		}
		if o.Incomplete {
			complain("%s (%s) was not seen on all of its threads", o.NodeDef().Name, o.Op)
		}
	}
	runs := Executed(want)
	if len(got) != len(runs) {
		complain("%d operators were seen, %d run", len(got), len(runs))
	}
	for i := range min(len(got), len(runs)) {
		if w := line(runs[i].Name, runs[i].Op, runs[i].Ne); got[i] != w {
			complain("operator %d is %q, want %q", i, got[i], w)
		}
	}
	if shape == nil {
		return wrong
	}
	// the shape holds the views, too
	if shape.NNodes != len(want) {
		complain("the graph has %d nodes, want %d", shape.NNodes, len(want))
	}
	for i := range min(shape.NNodes, len(want)) {
		n := &shape.Nodes[i]
		if g, w := line(n.Name, n.Op, n.Ne), line(want[i].Name, want[i].Op, want[i].Ne); g != w {
			complain("node %d is %q, want %q", i, g, w)
		}
	}
	if shape.Incomplete != "" {
		complain("shape: %s", shape.Incomplete)
	}
	return wrong
}

// line drops the leading spaces of a name, which the engine's log does not keep.
func line(name, op string, ne [4]int64) string {
	return fmt.Sprintf("%s %s %v", strings.TrimLeft(name, " "), op, ne)
}
