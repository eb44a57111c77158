// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"github.com/profinfer/profinfer/profile/summary"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Figures as they stand in sentences.

func sayPercent(v float64) string {
	if v > 0 && v < 0.005 {
		return fmt.Sprintf("%.1f %%", v*100)
	}
	return fmt.Sprintf("%.0f %%", v*100)
}

// sayNumber writes three digits, without an exponent.
func sayNumber(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95 || a == 0:
		return sayCount(int64(math.Round(v)))
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.095:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func sayCount(n int64) string {
	s := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func sayDur(ns float64) string {
	switch a := math.Abs(ns); {
	case a < 999.5:
		return fmt.Sprintf("%.0f ns", ns)
	case a < 999.5e3:
		return sayNumber(ns/1e3) + " µs"
	case a < 999.5e6:
		return sayNumber(ns/1e6) + " ms"
	}
	return sayNumber(ns/1e9) + " s"
}

func sayBytes(n float64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := -1
	for n >= 1023.95 && i+1 < len(units) {
		n /= 1024
		i++
	}
	return sayNumber(n) + " " + units[i:i+1] + "iB"
}

// sayID writes a number that counts nothing.
func sayID(n int32) string { return strconv.Itoa(int(n)) }

func sayParams(n int64) string {
	for _, u := range []struct {
		at   float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if float64(n) >= u.at*0.9995 {
			return sayNumber(float64(n)/u.at) + " " + u.name
		}
	}
	return sayCount(n)
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return sayCount(n) + " " + one + "s"
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// maxName is how much of a name stands in a sentence.
const maxName = 40

// shortName cuts a long name at its end, between characters.
func shortName(s string) string {
	if len(s) <= maxName {
		return s
	}
	to := maxName - 2
	for to > 0 && !utf8.RuneStart(s[to]) {
		to--
	}
	return s[:to] + ".."
}

// andList writes "a", "a and b", "a, b and c".
func andList(s []string) string {
	if len(s) < 2 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}

// phaseName is the phase's name, with its model's size where there are several.
func phaseName(s *summary.Stat, phase string, model *int) string {
	if phase == "unknown" {
		phase = "the phase that is not known"
	}
	if len(s.Models) < 2 || model == nil || *model < 0 || *model >= len(s.Models) {
		return phase
	}
	return phase + " of the model of " + sayParams(s.Models[*model].Params) + " parameters"
}
