// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"unicode/utf8"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/summary"
)

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// maxName is the maximum length of a name in a sentence.
const maxName = 40

// shortName truncates a long name at its end, between characters.
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

// andList formats "a", "a and b", "a, b and c".
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
	return phase + " of the model of " + format.Sentence.Parameters(s.Models[*model].Params) + " parameters"
}
