// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/demo"
)

// Choice is what llama-eval-callback prints of which experts a layer's tokens chose (ffn_moe_topk-N).
type Choice struct {
	Layer        int
	Used, Tokens int
	// Of more than six tokens it prints the first and the last three; the sum is of all.
	First, Last [][]int32
	Sum         float64
}

// Choices returns what the tokens of a prompt chose, in the order in which it was computed: one for each
// layer of each graph. With "-ub", "1" each token is a graph of its own; then, and with up to 6, everything
// is printed. A layer in which no token is left (the last one's output is asked for of the last token only)
// has no tokens.
func Choices(ctx context.Context, e demo.Engine, model string, args ...string) ([]Choice, error) {
	argv := e.Command("llama-eval-callback", append([]string{"-m", model, "-t", "1", "-v",
		"--log-colors", "off", "--no-log-prefix", "--no-log-timestamps"}, args...)...)
	var err error
	for range attempts {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		var out []byte
		out, err = cmd.CombinedOutput()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, tail(string(out), 5))
		}
		var cs []Choice
		if cs, err = parseChoices(string(out)); err == nil {
			return cs, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
}

var (
	topkLine  = regexp.MustCompile(`^common_debug_cb_eval: *ffn_moe_topk-(\d+) = \(i32\) .* = \{([-0-9, ]+)\}$`)
	embedLine = regexp.MustCompile(`^common_debug_cb_eval: *(?:inp_)?embd = .* GET_ROWS\(.*\) = \{\d+, (\d+), 1, 1\}$`)
	nodeLine  = regexp.MustCompile(`^common_debug_cb_eval: *(\S+) = `)
	valueLine = regexp.MustCompile(`^ *\[ *(-?\d+\.\d+(?:, +-?\d+\.\d+)*) *\],?$`)
	sumLine   = regexp.MustCompile(`^ *sum = (\S+)$`)
	inputLine = regexp.MustCompile(`^number of input tokens = (\d+)`)
)

// parseChoices reads the log of llama-eval-callback -v. A log that lacks its end is told by its last node, or
// by the number of its input tokens.
func parseChoices(log string) (cs []Choice, err error) {
	var c *Choice
	last, tokens, want := "", 0, -1
	dots := false
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		if m := inputLine.FindStringSubmatch(line); m != nil {
			want, _ = strconv.Atoi(m[1])
		}
		if m := nodeLine.FindStringSubmatch(line); m != nil {
			last = m[1]
		}
		if m := embedLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			tokens += n
		}
		if m := topkLine.FindStringSubmatch(line); m != nil {
			ne, ok := parseNe(m[2])
			layer, err := strconv.Atoi(m[1])
			if !ok || err != nil || ne[0] > 1<<16 || ne[1] > 1<<20 || ne[2] != 1 || ne[3] != 1 {
				return nil, fmt.Errorf("cannot read the line %.200q", line)
			}
			cs = append(cs, Choice{Layer: layer, Used: int(ne[0]), Tokens: int(ne[1]), Sum: math.NaN()})
			c, dots = &cs[len(cs)-1], false
			continue
		}
		if c == nil {
			continue
		}
		switch m := valueLine.FindStringSubmatch(line); {
		case m != nil:
			var row []int32
			for f := range strings.SplitSeq(m[1], ",") {
				v, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
				if err != nil {
					return nil, fmt.Errorf("cannot read the line %.200q", line)
				}
				row = append(row, int32(v))
			}
			if len(row) != c.Used {
				return nil, fmt.Errorf("%d of %d experts are printed: a row is cut", len(row), c.Used)
			}
			if dots {
				c.Last = append(c.Last, row)
			} else {
				c.First = append(c.First, row)
			}
		case strings.Contains(line, "..."):
			dots = true
		}
		if m := sumLine.FindStringSubmatch(line); m != nil {
			if c.Sum, err = strconv.ParseFloat(m[1], 64); err != nil {
				return nil, err
			}
			c = nil
		}
	}
	if last != "result_output" || c != nil || want >= 0 && tokens != want || len(cs) == 0 {
		return nil, ErrCut
	}
	return cs, nil
}
