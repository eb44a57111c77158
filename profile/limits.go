// SPDX-License-Identifier: Apache-2.0

package profile

// What whoever collects keeps of one kind at most, so that no recording takes more memory than it may.
const (
	// maxPending bounds the operators kept of steps under way. Beyond, a step's operators count
	// as if the step were seen wholly.
	maxPending = 1 << 16
	// maxModels bounds the models whose steps are told apart.
	maxModels = 64
	// maxSequences bounds the sequences followed at a time.
	maxSequences = 1 << 16
	// maxPoints bounds the points of a phase's steps: beyond, each stands for 2, 4, 8 ... steps in
	// succession.
	maxPoints = 4096
	// maxCopies bounds copies of one step that wait for its end.
	maxCopies = 1 << 14
	// maxOpDefs bounds the different operators of a run.
	maxOpDefs = 1 << 16
)
