// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"fmt"
)

// maxObjects bounds the contents of a definition, and so what unpacking it may allocate.
const maxObjects = 1 << 17

// decode reads a block's payload into b.
func (r *Reader) decode(h *blockHeader, stored []byte, b *Block) error {
	p, err := r.unpack(h, stored)
	if err != nil {
		return err
	}
	n := int(h.Count)
	switch h.Type {
	case TypeHits:
		b.Hits, err = r.hits.decode(p, n)
	case TypeMarks:
		b.Marks, err = r.mark.decode(p, n)
	case TypeStepSeqs:
		b.StepSeqs, err = r.seqs.decode(p, n)
	case TypeSched:
		b.Sched, err = r.sch.decode(p, n)
	case TypeSamples:
		b.Samples, err = decodeSamples(p, n)
	case TypeFaults:
		b.Faults, err = decodeFaults(p, n)
	case TypeMemory:
		b.Memory, err = definitionOf[Memory](p)
	case TypeExperts:
		b.Experts, err = decodeExperts(p, n)
	case TypeMeta:
		b.Meta, err = definitionOf[Meta](p)
	case TypeProcess:
		b.Process, err = definitionOf[Process](p)
	case TypeShape:
		if b.Shape, err = definitionOf[Shape](p); err == nil {
			err = b.Shape.check()
		}
	case TypeThreads:
		var ts *[]Thread
		if ts, err = definitionOf[[]Thread](p); err == nil {
			b.Threads = *ts
		}
	case TypeLoss:
		b.Loss, err = definitionOf[Loss](p)
	case TypeExit:
		b.Exit, err = definitionOf[Exit](p)
	case TypeWatch:
		b.Watch, err = definitionOf[Watch](p)
	case TypeCPU:
		b.CPU, err = definitionOf[CPUState](p)
	case TypeEnd:
		b.End, err = definitionOf[End](p)
	case TypeDrain:
		var d *drain
		if d, err = definitionOf[drain](p); err == nil {
			b.Watermark = d.Watermark
		}
	}
	return err
}

func definitionOf[T any](p []byte) (*T, error) {
	if objects(p) > maxObjects {
		return nil, fmt.Errorf("it has more than %d parts", maxObjects)
	}
	v := new(T)
	if err := json.Unmarshal(p, v); err != nil {
		return nil, err
	}
	return v, nil
}

// objects counts potential elements of lists or maps, and objects: a few bytes of JSON can cost a few hundred
// bytes of memory. The lists of numbers inside a shape's nodes are nested deeper and not counted: they take
// no more memory than JSON.
func objects(p []byte) (n int) {
	level := 0
	inString, escaped := false, false
	for _, c := range p {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			n++
			level++
		case c == '[':
			level++
		case c == '}' || c == ']':
			level--
		case c == ',' && level <= 2:
			n++
		}
	}
	return n
}
