// SPDX-License-Identifier: Apache-2.0

package profiletest

import (
	"io"

	"github.com/profinfer/profinfer/trace"
)

// batch plays one step that computes these tokens: for each sequence their number, the position of the first,
// and the number of requested logits.
func (p *Player) batch(r Run, seqs ...trace.StepSeq) error {
	r.batch = seqs
	n := 0
	for _, s := range seqs {
		n += int(s.NTokens)
	}
	return p.playStep(r, n, seqs[0].Pos, 0)
}

func seq(id, n, pos, out int32) trace.StepSeq {
	return trace.StepSeq{Seq: id, NTokens: n, Pos: pos, Outputs: out}
}

// Speculative requests: what a server's three slots do with a draft.
const (
	SpeculativeRounds = 12 // for each of the first two slots, per request
	SpeculativeSteps  = 2 + 2*(2+SpeculativeRounds*4+1)
)

// speculative plays a server whose slots speculate, with two rounds of requests: for slots 0 and 1 tokens are
// drafted and accepted in turn, while slot 2 (with an arbitrary number) decodes one by one.
func speculative(w io.Writer) error {
	return Record(w, nil, func(rec *Recorder, p *Player) error {
		target := plain()
		target.Ctx, target.Preempt = 0xabc0, 0
		draft := target
		draft.Ctx = 0xdef0
		draft.Model.Layers, draft.Model.Base = 1, 0x9000000
		const odd = 1<<30 + 7
		var err error
		play := func(r Run, seqs ...trace.StepSeq) {
			if err == nil {
				err = p.batch(r, seqs...)
			}
		}
		play(target, seq(0, 2, 0, 1)) // warm-ups
		play(draft, seq(0, 2, 0, 1))
		for request := range int32(2) {
			cached := request * 5
			pos := [3]int32{16, 12, 9}
			play(target, seq(0, 16-cached, cached, 1), seq(1, 12-cached, cached, 1),
				seq(odd, 9-cached, cached, 1))
			play(draft, seq(0, 16-cached, cached, 0), seq(1, 12-cached, cached, 0))
			for i := range int32(SpeculativeRounds) {
				for k := range int32(3) {
					play(draft, seq(0, 1, pos[0]+k, 1), seq(1, 1, pos[1]+k, 1))
				}
				play(target, seq(0, 4, pos[0], 4), seq(1, 4, pos[1], 4), seq(odd, 1, pos[2], 1))
				pos[0] += 1 + i%4
				pos[1] += 1 + (i*i+request)%4
				pos[2]++
			}
			play(target, seq(0, 1, pos[0], 1), seq(1, 1, pos[1], 1))
			// Kernel reports of two CPUs: the second has no steal time.
			steal, slow, fast := int64(request)*1_500_000, 1_200_000+int64(request)*900_000, int64(3_400_000)
			if err == nil {
				err = rec.w.CPU(trace.CPUState{Time: p.now,
					CPUs: []trace.CPUTime{{CPU: 0, Steal: &steal, KHz: &slow}, {CPU: 1, KHz: &fast}}})
			}
		}
		return err
	})
}

// ManyRequests and ManySequences are those of the trial requests-many.
const ManyRequests, ManySequences = 5000, 250

// requestsMany plays more requests than are listed, on more sequences than are drawn, one after another.
func requestsMany(w io.Writer) error {
	return Record(w, func(r *Recorder) { r.Level = "step" }, func(_ *Recorder, p *Player) error {
		r := plain()
		r.NoOps = true
		for i := range int32(ManyRequests) {
			if err := p.batch(r, seq(i%ManySequences, 3+i%5, 0, 1)); err != nil {
				return err
			}
			if err := p.batch(r, seq(i%ManySequences, 1, 3+i%5, 1)); err != nil {
				return err
			}
		}
		return nil
	})
}
