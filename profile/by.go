// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"strconv"
	"strings"
)

// By is what operators are grouped by.
type By string

const (
	ByWeight By = "weight" // the weight, over all layers; operators without one by their op
	ByOp     By = "op"
	ByLayer  By = "layer"
	ByBlock  By = "block"
	ByThread By = "thread"
	ByStep   By = "step"
	ByExpert By = "expert" // no rows of operators: what tokens chose, PhaseStat.Experts, is drawn layer by layer
)

// ParseBy returns the grouping of that name.
func ParseBy(s string) (By, error) {
	switch b := By(s); b {
	case ByWeight, ByOp, ByLayer, ByBlock, ByThread, ByStep, ByExpert:
		return b, nil
	}
	return "", fmt.Errorf("cannot group by %q: it is one of weight, op, layer, block, thread, step, expert", s)
}

// rowKey returns the name of an operator's row, and whether it is a weight's.
func rowKey(by By, d *Derived, op string) (key string, weight bool) {
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
	if d.Weight != "" && isWeight(op, d.Weight) {
		stem := WeightStem(d.Weight)
		if d.Block == BlockOutput && !strings.HasPrefix(stem, "output") {
			return "output (" + stem + ")", true // tied: the embedding's weight is the output's
		}
		return stem, true
	}
	// A product without a weight is told apart by what it computes: kq, kqv.
	if base, _ := splitName(d.Name); isMatMul(op) && base != "" && !isDefaultName(base) {
		return base, false
	}
	return op, false
}

// groupKey is a phase of one model; nil: not known which.
type groupKey struct {
	phase Phase
	model *modelSum
}

// modelKey is a phase of one model; -1: not known which.
type modelKey struct {
	phase Phase
	model int
}
