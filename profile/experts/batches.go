// SPDX-License-Identifier: Apache-2.0

package experts

import (
	"slices"

	"github.com/profinfer/profinfer/profile"
)

// maxRecent bounds the number of contexts' layers whose latest choices are kept.
const maxRecent = 1 << 14

// layerOf is a layer of an engine context.
type layerOf struct {
	pid   int32
	ctx   uint64
	layer int
}

// Batches determines which experts of a batch are new: not chosen by the previous batch of the same context,
// layer and phase. The zero value is ready to use.
type Batches struct{ last map[layerOf]batch }

type batch struct {
	set   []int32
	phase profile.Phase
}

// New takes what a batch chose, each expert once. It returns how many of these are new, and how many experts
// the previous batch chose: -1 where no batch is known to have come directly before.
func (b *Batches) New(s *profile.Step, layer int, set []int32) (fresh, before int) {
	k := layerOf{s.PID, s.Ctx, layer}
	last, ok := b.last[k]
	if !ok && (b.last == nil || len(b.last) >= maxRecent) {
		b.last = map[layerOf]batch{}
	}
	b.last[k] = batch{set, s.Phase}
	if last.set == nil || last.phase != s.Phase {
		return -1, -1
	}
	for _, x := range set {
		if !slices.Contains(last.set, x) {
			fresh++
		}
	}
	return fresh, len(last.set)
}

// Forget drops what a context's latest batches chose, after an incomplete step.
func (b *Batches) Forget(s *profile.Step) { forgetContext(b.last, s) }

// ForgetLayer drops what the latest batch of one layer chose.
func (b *Batches) ForgetLayer(s *profile.Step, layer int) {
	delete(b.last, layerOf{s.PID, s.Ctx, layer})
}

// Kept returns how many layers' latest batches are kept.
func (b *Batches) Kept() int { return len(b.last) }

// forgetContext drops what is kept for a step's context.
func forgetContext[T any](m map[layerOf]T, s *profile.Step) {
	for k := range m {
		if k.pid == s.PID && k.ctx == s.Ctx {
			delete(m, k)
		}
	}
}
