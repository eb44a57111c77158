// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/profinfer/profinfer/trace"
)

// repeat writes a recording that is as long as n of another, one after the other: what happened in it happens
// again and again, later each time. The definitions stay those of the first. All of the original is in memory
// meanwhile.
func repeat(from, to string, n int) (err error) {
	blocks, period, err := load(from)
	if err != nil {
		return err
	}
	w, err := trace.Create(to, trace.Force())
	if err != nil {
		return err
	}
	var end *trace.End
	for k := range n {
		for i := range blocks {
			b := &blocks[i]
			if b.End != nil {
				end = b.End
			} else if err := again(w, b, k == 0); err != nil {
				return errors.Join(err, w.Close(trace.End{}))
			}
			later(b, period)
		}
	}
	if end == nil { // it was cut, and so is its repetition
		end = &trace.End{}
	}
	end.Hits *= uint64(n)
	return w.Close(*end)
}

// load reads all of a recording, and how long it took, ns.
func load(path string) (blocks []trace.Block, period int64, err error) {
	r, err := trace.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	first, last := int64(math.MaxInt64), int64(0)
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, 0, err
		}
		b.Hits, b.Marks, b.Sched = slices.Clone(b.Hits), slices.Clone(b.Marks), slices.Clone(b.Sched)
		b.StepSeqs = slices.Clone(b.StepSeqs)
		blocks = append(blocks, b)
		switch b.Type {
		case trace.TypeHits, trace.TypeMarks, trace.TypeSched, trace.TypeSamples, trace.TypeFaults,
			trace.TypeExperts:
			first = min(first, b.First)
		}
		last = max(last, b.Last, b.Watermark)
	}
	if first > last {
		return nil, 0, fmt.Errorf("%s holds no events to repeat", path)
	}
	return blocks, last - first + 1e6, nil
}

// again writes a block; definitions only the first time.
func again(w *trace.Writer, b *trace.Block, first bool) error {
	switch b.Type {
	case trace.TypeMeta, trace.TypeProcess, trace.TypeThreads, trace.TypeShape, trace.TypeMemory:
		if !first {
			return nil
		}
	}
	switch b.Type {
	case trace.TypeMeta:
		return w.Meta(*b.Meta)
	case trace.TypeProcess:
		return w.Process(*b.Process)
	case trace.TypeThreads:
		return w.Threads(b.Threads)
	case trace.TypeShape:
		return w.Shape(b.Shape)
	case trace.TypeMemory:
		return w.Memory(*b.Memory)
	case trace.TypeHits:
		return w.Hits(b.Hits)
	case trace.TypeMarks:
		return w.Marks(b.Marks)
	case trace.TypeStepSeqs:
		return w.StepSeqs(b.StepSeqs)
	case trace.TypeSched:
		return w.Sched(b.Sched)
	case trace.TypeSamples:
		return w.Samples(b.Samples)
	case trace.TypeFaults:
		return w.Faults(b.Faults)
	case trace.TypeExperts:
		return w.Experts(b.Experts)
	case trace.TypeLoss:
		return w.Loss(*b.Loss)
	case trace.TypeWatch:
		return w.Watch(*b.Watch)
	case trace.TypeCPU:
		return w.CPU(*b.CPU)
	case trace.TypeDrain:
		return w.Drain(b.Watermark)
	}
	return nil // an exit: the process is there again
}

// later adds by, in ns, to the times of a block.
func later(b *trace.Block, by int64) {
	for i := range b.Hits {
		b.Hits[i].Time += by
	}
	for i := range b.Marks {
		b.Marks[i].Time += by
	}
	for i := range b.StepSeqs {
		b.StepSeqs[i].Time += by
	}
	for i := range b.Sched {
		b.Sched[i].Time += by
	}
	for i := range b.Samples {
		b.Samples[i].Time += by
	}
	for i := range b.Faults {
		b.Faults[i].Time += by
	}
	for i := range b.Experts {
		b.Experts[i].Time += by
	}
	if b.Loss != nil {
		b.Loss.Start += by
		b.Loss.End += by
	}
	if b.Watch != nil {
		b.Watch.Time += by
	}
	if b.CPU != nil {
		b.CPU.Time += by
	}
	if b.Watermark != 0 {
		b.Watermark += by
	}
	if b.End != nil {
		b.End.Time += by
	}
}
