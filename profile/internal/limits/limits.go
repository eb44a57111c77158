// SPDX-License-Identifier: Apache-2.0

// Package limits bounds what an analysis keeps of each kind, so that a recording cannot exhaust memory.
package limits

// Upper limits on what collectors keep of each kind, so that a recording cannot exhaust memory.
const (
	// Pending bounds the operators kept for steps in progress. Beyond it, they count as if their steps were
	// complete, or are dropped.
	Pending = 1 << 16
	// Models bounds the models whose steps are kept separately.
	Models = 64
	// Sequences bounds the sequences followed at a time.
	Sequences = 1 << 16
	// Points bounds the points of a phase's steps: beyond it, each stands for 2, 4, 8 ... consecutive steps.
	Points = 4096
	// Copies bounds copies of one step that wait for its end.
	Copies = 1 << 14
	// OpDefs bounds the distinct operators of a run.
	OpDefs = 1 << 16
)
