// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"cmp"
	"slices"

	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/profile/sched"
)

// Rate is what a phase achieved of a resource over its steps' whole time, time outside operators included,
// and the machine's measured peak of it for the phase's threads.
type Rate struct {
	Achieved float64  `json:"achieved"` // GB/s or GFLOP/s
	Unit     string   `json:"unit"`
	Peak     *float64 `json:"peak"`          // nil: not measured
	OfPeak   *float64 `json:"share_of_peak"` // Achieved / Peak
}

// Disturbed sums up the steps of a phase that lost much of their time to something outside the engine's own
// work: their operators lasted longer, by at least a quarter of what the step takes otherwise, because a
// thread had lost its CPU or waited for the disk.
type Disturbed struct {
	Steps int64    `json:"steps"`
	Dur   int64    `json:"dur_ns"` // their time
	Share *float64 `json:"share"`  // of the phase's time in steps
	// Lost is by how much longer their operators lasted; Disk is the part of it that threads were blocked.
	Lost int64 `json:"lost_ns"`
	Disk int64 `json:"disk_ns"`
	// LeftOut: there are few of them, and figures of operators, shares, rates and the verdict are of the
	// other steps. Otherwise they are in all figures.
	LeftOut bool `json:"left_out"`
	// Ranges are the numbers of these steps, the first ones where there are many.
	Ranges []StepRange `json:"ranges"`
	// Who ran meanwhile on CPUs for which threads were runnable, longest first.
	Instead []sched.Culprit `json:"preempted_by"`
}

// Judged returns the number and the time of the steps that the phase's figures of operators stand for: all but
// disturbed ones that are left out.
func (ps *Phase) Judged() (steps, dur int64) {
	if d := ps.Disturbed; d != nil && d.LeftOut {
		return ps.Steps - d.Steps, ps.Dur - d.Dur
	}
	return ps.Steps, ps.Dur
}

// LeavesOut reports whether figures of operators of a phase of a model (-1: unknown) are without its disturbed
// steps.
func (s *Stat) LeavesOut(k facts.ModelKey) bool {
	phase := cmp.Or(string(k.Phase), "unknown")
	return slices.ContainsFunc(s.Phases, func(ps Phase) bool {
		return ps.Phase == phase && ps.Disturbed != nil && ps.Disturbed.LeftOut &&
			(ps.Model == nil && k.Model < 0 || ps.Model != nil && *ps.Model == k.Model)
	})
}

// StepRange is a range of step numbers in the run: First, First+1, ... Last.
type StepRange struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// CPUUse is how much of the CPUs the engine's threads used during steps. A thread that spins at a barrier uses
// its CPU.
type CPUUse struct {
	Dur     int64 `json:"dur_ns"`  // of the steps with operators
	Threads int   `json:"threads"` // of the largest team
	CPUs    int   `json:"cpus"`    // that the threads may use; 0: unknown
	Machine int   `json:"machine_cpus"`
	// Busy is how many CPUs the threads used on average, Utilisation that divided by CPUs, or by those of the
	// machine where CPUs is unknown.
	Busy        float64  `json:"busy_cpus"`
	Utilisation *float64 `json:"utilisation"`
	Each        []CPU    `json:"each"` // by number; CPUs on which no thread of the engine computed are absent
}

// CPU is the use of one CPU during steps.
type CPU struct {
	CPU    int     `json:"cpu"`
	Engine float64 `json:"engine_share"` // share of the steps' time that it ran the engine's operators
	// Others is the share in which other processes were seen there: at least that. nil: scheduling was not
	// recorded.
	Others *float64 `json:"others_share"`
}

// Batches describes the steps' batches, for servers: over time, and by size.
type Batches struct {
	OverTime []BatchTime `json:"over_time"` // in order, spans of equal length; those without a step are absent
	Width    int64       `json:"width_ns"`  // of these spans
	BySize   []BatchSize `json:"by_size"`   // decode and prefill steps by their tokens
}

// BatchTime sums up the steps that began in one span.
type BatchTime struct {
	Start     int64   `json:"start_ns"` // boottime
	Steps     int64   `json:"steps"`
	Dur       int64   `json:"dur_ns"` // of the steps
	Tokens    float64 `json:"mean_tokens"`
	MaxTokens int64   `json:"max_tokens"`
	Sequences float64 `json:"mean_sequences"`
	MaxSeqs   int64   `json:"max_sequences"`
}

// Merge adds the steps of another span, while means are sums.
func (t *BatchTime) Merge(o *BatchTime) {
	t.Steps += o.Steps
	t.Dur += o.Dur
	t.Tokens += o.Tokens
	t.Sequences += o.Sequences
	t.MaxTokens, t.MaxSeqs = max(t.MaxTokens, o.MaxTokens), max(t.MaxSeqs, o.MaxSeqs)
}

// BatchSize sums up the steps of one phase whose batches have From to To tokens.
type BatchSize struct {
	Phase      string           `json:"phase"`
	From       int64            `json:"from_tokens"`
	To         int64            `json:"to_tokens"`
	Sequences  float64          `json:"mean_sequences"`
	StepTime   *requests.Spread `json:"step_time"`
	TokensPerS *float64         `json:"tokens_per_s"`
}
