// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"strconv"

	"github.com/profinfer/profinfer/profile"
)

// By selects what operators are grouped by.
type By string

const (
	ByWeight By = "weight" // the weight, over all layers; operators without a weight by their op
	ByOp     By = "op"
	ByLayer  By = "layer"
	ByBlock  By = "block"
	ByThread By = "thread"
	ByStep   By = "step"
	// no rows of operators: summary.Phase.Experts, the tokens' choices, is shown by layer
	ByExpert By = "expert"
)

// ParseBy returns the grouping of that name.
func ParseBy(s string) (By, error) {
	switch b := By(s); b {
	case ByWeight, ByOp, ByLayer, ByBlock, ByThread, ByStep, ByExpert:
		return b, nil
	}
	return "", fmt.Errorf("cannot group by %q: it is one of weight, op, layer, block, thread, step, expert",
		s)
}

// RowKey returns the name of an operator's row, and whether that is a weight's name.
func RowKey(by By, d *Derived, op string) (key string, weight bool) {
	switch by {
	case ByOp:
		return op, false
	case ByBlock:
		return string(d.Block), false
	case ByLayer:
		if d.Layer == nil {
			return "none", false
		}
		return strconv.Itoa(*d.Layer), false
	}
	if d.row != "" {
		return d.row, d.Stem != ""
	}
	return op, false
}

// PhaseKey identifies a phase of one model; nil: unknown model.
type PhaseKey struct {
	Phase profile.Phase
	Model *ModelWeights
}

// ModelKey identifies a phase of one model; -1: unknown model.
type ModelKey struct {
	Phase profile.Phase
	Model int
}
