// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// errCut says that a log lacks its end.
var errCut = errors.New("llama-eval-callback's log ends before result_output, every time")

var (
	// common_debug_cb_eval:  NAME = (f32)   MUL_MAT(SRC{256, 5, 1, 1}, SRC{1, 1, 1, 1}}) = {256, 5, 1, 1}
	evalLine = regexp.MustCompile(`^common_debug_cb_eval: *(.*?) = \((\w+)\) +([A-Z0-9_]+)\((.*)\}\) = \{([-0-9, ]+)\}$`)
	// the same line with no second source ends in ", })"; the first source keeps its brace
	source = regexp.MustCompile(`^(.*)\{([-0-9, ]+)\}?$`)
	// node #  4 (  RMS_NORM):               norm-0 (   1K) [  CPU         ] use=1,c=1: ...
	schedLine = regexp.MustCompile(`node # *(\d+) \( *([A-Z0-9_]+)\): .*?\] use=\d+,c=([01]):`)
	tokens    = regexp.MustCompile(`number of input tokens = (\d+)`)
)

// maxNodes bounds what is believed of a log.
const maxNodes = 1 << 20

// mark is what the scheduler lists of a node.
type mark struct {
	op      string // its first 10 characters
	compute bool
}

// parse reads the log of llama-eval-callback -v run with GGML_SCHED_DEBUG=2. The
// scheduler lists many graphs before, made to reserve memory; the last one listed
// before the nodes are printed is the one that is computed.
func parse(log string) (Graph, error) {
	var g Graph
	marks := map[int]mark{}
	last := -1 // number in the listing
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		if m := tokens.FindStringSubmatch(line); m != nil {
			g.Tokens, _ = strconv.Atoi(m[1])
			continue
		}
		if m := schedLine.FindStringSubmatch(line); m != nil {
			i, err := strconv.Atoi(m[1])
			if err != nil || i > maxNodes {
				return g, fmt.Errorf("the scheduler lists a node with the number %s", m[1])
			}
			if i <= last {
				clear(marks)
			}
			if len(g.Nodes) > 0 {
				return g, errors.New("the prompt was computed in more than one graph: give a shorter one, or larger -b and -ub")
			}
			last = i
			marks[i] = mark{op: m[2], compute: m[3] == "1"}
			continue
		}
		if !strings.HasPrefix(line, "common_debug_cb_eval:") {
			continue
		}
		n, err := parseNode(line)
		if err != nil {
			if strings.Contains(line, "}) = {") && strings.HasSuffix(line, "}") {
				return g, err
			}
			continue // the log ends within the line
		}
		n.Index = len(g.Nodes)
		m, listed := marks[n.Index]
		if listed && !strings.HasPrefix(n.Op, m.op) {
			return g, fmt.Errorf("node %d is %s %s as it is computed, but %s in the scheduler's listing", n.Index, n.Op, n.Name, m.op)
		}
		n.Marked = listed && m.compute
		if len(g.Nodes) == maxNodes {
			return g, fmt.Errorf("more than %d nodes", maxNodes)
		}
		g.Nodes = append(g.Nodes, n)
	}
	if len(g.Nodes) == 0 || g.Nodes[len(g.Nodes)-1].Name != "result_output" {
		return g, errCut
	}
	if len(marks) == 0 {
		return g, errors.New("the log has no listing of the scheduler's")
	}
	if last >= len(g.Nodes) {
		return g, fmt.Errorf("the scheduler lists node %d, but only %d are computed", last, len(g.Nodes))
	}
	return g, nil
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
