// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ErrCut says that a log lacks its end: the program does not wait for it.
var ErrCut = errors.New("llama-eval-callback's log ends before result_output, every time")

var (
	// common_debug_cb_eval:  NAME = (f32)   MUL_MAT(SRC{256, 5, 1, 1}, SRC{1, 1, 1, 1}}) = {256, 5, 1, 1}
	evalLine = regexp.MustCompile(`^common_debug_cb_eval: *(.*?) = \((\w+)\) +([A-Z0-9_]+)\((.*)\}\) = \{([-0-9, ]+)\}$`)
	// the same line with no second source ends in ", })"; the first source keeps its brace
	source = regexp.MustCompile(`^(.*)\{([-0-9, ]+)\}?$`)
	// node #  4 (  RMS_NORM):               norm-0 (   1K) [  CPU         ] use=1,c=1: ...
	schedLine = regexp.MustCompile(`node # *(\d+) \( *([A-Z0-9_]+)\): .*?\] use=\d+,c=([01]):`)
	prompted  = regexp.MustCompile(`number of input tokens = (\d+)`)
)

// lastNode is the last one of every graph.
const lastNode = "result_output"

// maxNodes bounds what is believed of a log.
const maxNodes = 1 << 20

// mark is what the scheduler lists of a node.
type mark struct {
	op      string // its first 10 characters
	compute bool
}

// parse reads the log of llama-eval-callback -v run with GGML_SCHED_DEBUG=2, of a prompt that was computed in
// one graph.
func parse(log string) (Graph, error) {
	gs, err := Graphs(log)
	if len(gs) > 1 || len(gs) == 1 && err != nil {
		return gs[0], errors.New("the prompt was computed in more than one graph: give a shorter one, or larger -b and -ub")
	}
	if err != nil {
		return Graph{}, err
	}
	return gs[0], nil
}

// Graphs reads the log of a program that prints each node it computes (llama-eval-callback -v, llama-debug
// -v), run with GGML_SCHED_DEBUG=2, and returns the graphs in the order in which they were computed. The
// scheduler lists many graphs before, made to reserve memory; the last one listed before the nodes are
// printed is the one that is computed. One that is used again is not listed again. Tokens are those of the
// whole prompt. Of a log that lacks its end the graphs before are returned, and [ErrCut].
func Graphs(log string) ([]Graph, error) {
	var gs []Graph
	var g Graph
	tokens := 0
	marks := map[int]mark{}
	last := -1     // number in the listing
	waits := false // a graph was listed, and not computed yet
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		if m := prompted.FindStringSubmatch(line); m != nil {
			tokens, _ = strconv.Atoi(m[1])
			continue
		}
		if m := schedLine.FindStringSubmatch(line); m != nil {
			i, err := strconv.Atoi(m[1])
			if err != nil || i > maxNodes {
				return nil, fmt.Errorf("the scheduler lists a node with the number %s", m[1])
			}
			if i <= last {
				clear(marks)
			}
			if len(g.Nodes) > 0 {
				return nil, errors.New("the log lists a graph while another one is computed")
			}
			last, waits = i, true
			marks[i] = mark{op: m[2], compute: m[3] == "1"}
			continue
		}
		if !strings.HasPrefix(line, "common_debug_cb_eval:") {
			continue
		}
		n, err := parseNode(line)
		if err != nil {
			if strings.Contains(line, "}) = {") && strings.HasSuffix(line, "}") {
				return nil, err
			}
			continue // the log ends within the line
		}
		n.Index = len(g.Nodes)
		m, listed := marks[n.Index]
		if listed && !strings.HasPrefix(n.Op, m.op) {
			return nil, fmt.Errorf("node %d is %s %s as it is computed, but %s in the scheduler's listing",
				n.Index, n.Op, n.Name, m.op)
		}
		n.Marked = listed && m.compute
		if len(g.Nodes) == maxNodes {
			return nil, fmt.Errorf("more than %d nodes", maxNodes)
		}
		g.Nodes = append(g.Nodes, n)
		if n.Name != lastNode {
			continue
		}
		if len(marks) == 0 {
			return nil, errors.New("the log has no listing of the scheduler's")
		}
		if last >= len(g.Nodes) {
			return nil, fmt.Errorf("the scheduler lists node %d, but only %d are computed", last,
				len(g.Nodes))
		}
		g.Tokens = tokens
		gs, g, waits = append(gs, g), Graph{}, false
	}
	if len(gs) == 0 || len(g.Nodes) > 0 || waits {
		return gs, ErrCut
	}
	return gs, nil
}

func parseNode(line string) (Node, error) {
	bad := fmt.Errorf("cannot read the line %.200q of llama-eval-callback", line)
	m := evalLine.FindStringSubmatch(line)
	if m == nil {
		return Node{}, bad
	}
	n := Node{Name: strings.TrimSpace(m[1]), Type: m[2], Op: m[3]}
	var ok bool
	if n.Ne, ok = parseNe(m[5]); !ok {
		return Node{}, bad
	}
	// a{1, 2, 3, 4}, b{1, 2, 3, 4} or a{1, 2, 3, 4}, (nothing)
	for s := range strings.SplitSeq(m[4], "}, ") {
		if s == "" {
			continue
		}
		sm := source.FindStringSubmatch(s)
		if sm == nil {
			return Node{}, bad
		}
		src := Source{Name: strings.TrimSpace(sm[1])}
		if src.Ne, ok = parseNe(sm[2]); !ok {
			return Node{}, bad
		}
		n.Src = append(n.Src, src)
	}
	return n, nil
}

func parseNe(s string) (ne [4]int64, ok bool) {
	f := strings.Split(s, ", ")
	if len(f) != 4 {
		return ne, false
	}
	for i, x := range f {
		v, err := strconv.ParseInt(x, 10, 64)
		if err != nil || v < 0 {
			return ne, false
		}
		ne[i] = v
	}
	return ne, true
}
