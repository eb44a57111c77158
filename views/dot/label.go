// SPDX-License-Identifier: Apache-2.0

package dot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/dag"
)

// width is the line width for a tensor of that size.
func width(bytes int64) float64 {
	if bytes <= 0 {
		return 0.7
	}
	return min(4, max(0.7, math.Log2(float64(bytes))/6-0.7))
}

// shade returns the fill colour for a value from 0 to 1, and a readable text colour.
func shade(v float64, by Color) (fill, ink string) {
	low, high := [3]float64{250, 250, 251}, [3]float64{200, 80, 10}
	if by == ByBandwidth {
		high = [3]float64{16, 96, 170}
	}
	v = min(1, max(0, v))
	var c [3]int
	for i := range c {
		c[i] = int(math.Round(low[i] + (high[i]-low[i])*v))
	}
	ink = "#14171b"
	if v > 0.6 {
		ink = "#ffffff"
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]), ink
}

// dims formats dimensions as ggml does, without trailing ones; a range where they grew.
func dims(n *dag.Node) string {
	a, b := n.Ne, n.Ne
	if n.NeMax != nil {
		b = *n.NeMax
	}
	last := 3
	for last > 0 && a[last] == 1 && b[last] == 1 {
		last--
	}
	var out []string
	for i := range last + 1 {
		s := strconv.FormatInt(a[i], 10)
		if a[i] != b[i] {
			s += "–" + strconv.FormatInt(b[i], 10)
		}
		out = append(out, s)
	}
	return strings.Join(out, "×")
}

func size(bytes *int64) string {
	if bytes == nil {
		return "?"
	}
	return format.Label.Bytes(float64(*bytes))
}

// ranges formats 0 1 2 3 5 as 0–3, 5; long lists end with the number of omitted ones.
func ranges(v []int) string {
	var out []string
	for i := 0; i < len(v); {
		k := i
		for k+1 < len(v) && v[k+1] == v[k]+1 {
			k++
		}
		s := strconv.Itoa(v[i])
		if k > i {
			s += "–" + strconv.Itoa(v[k])
		}
		out = append(out, s)
		i = k + 1
	}
	if more := len(out) - 5; more > 1 {
		out = append(slices.Clone(out[:5]), fmt.Sprintf("+%d more", more))
	}
	return strings.Join(out, ", ")
}

// quote writes a DOT string. Names can neither end the string nor be interpreted as Graphviz's escapes (\N,
// \G, \l) or as an HTML entity (&lt;), which Graphviz replaces in every label.
func quote(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "&", "&amp;", "\n", `\n`).Replace(s) + `"`
}
