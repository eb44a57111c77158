// SPDX-License-Identifier: Apache-2.0

// Package limits says what an analysis keeps of one kind at most, so that no recording takes more memory than
// it may.
package limits

// What whoever collects keeps of one kind at most, so that no recording takes more memory than it may.
const (
	// Pending bounds the operators kept of steps under way. Beyond, a step's operators count
	// as if the step were seen wholly.
	Pending = 1 << 16
	// Models bounds the models whose steps are told apart.
	Models = 64
	// Sequences bounds the sequences followed at a time.
	Sequences = 1 << 16
	// Points bounds the points of a phase's steps: beyond, each stands for 2, 4, 8 ... steps in
	// succession.
	Points = 4096
	// Copies bounds copies of one step that wait for its end.
	Copies = 1 << 14
	// OpDefs bounds the different operators of a run.
	OpDefs = 1 << 16
)
