// SPDX-License-Identifier: Apache-2.0

package trace

// Columns of a samples block. One more column follows for each value of a sample: its difference to the
// previous value on the same CPU.
const (
	sampleHead  = iota // one byte each: kind, and whether it is torn
	sampleTime         // difference to the previous sample
	sampleCPU          // difference to the previous sample
	samplePID          // difference to the previous sample on the same CPU
	sampleTID          // difference to the previous sample on the same CPU
	sampleCount        // how many values
	sampleColumns
)

const headTorn = 0x80

// MaxValues bounds the values of a sample; further values are dropped.
const MaxValues = maxColumns - sampleColumns

// sampleContext is the last sample on a CPU.
type sampleContext struct {
	pid, tid int32
	values   [MaxValues]uint64
}

// sampleState is the state from which both sides predict.
type sampleState struct {
	time int64
	cpu  uint16
	cpus map[uint16]*sampleContext
}

func (s *sampleState) context(cpu uint16) *sampleContext {
	x := s.cpus[cpu]
	if x == nil {
		x = &sampleContext{}
		s.cpus[cpu] = x
	}
	return x
}

type sampleEncoder struct {
	columns
	s sampleState
}

func newSampleEncoder() sampleEncoder {
	return sampleEncoder{newColumns(sampleColumns), sampleState{cpus: map[uint16]*sampleContext{}}}
}

func (e *sampleEncoder) reset() {
	e.columns.reset()
	e.s.time, e.s.cpu = 0, 0
	clear(e.s.cpus)
}

func (e *sampleEncoder) add(ss []Sample) {
	for i := range ss {
		s := &ss[i]
		e.at(s.Time)
		head := byte(s.Kind) &^ headTorn
		if s.Torn {
			head |= headTorn
		}
		e.c[sampleHead] = append(e.c[sampleHead], head)
		e.c[sampleTime] = appendInt(e.c[sampleTime], s.Time-e.s.time)
		e.c[sampleCPU] = appendInt(e.c[sampleCPU], int64(s.CPU)-int64(e.s.cpu))
		e.s.time, e.s.cpu = s.Time, s.CPU
		x := e.s.context(s.CPU)
		e.c[samplePID] = appendInt(e.c[samplePID], int64(s.PID)-int64(x.pid))
		e.c[sampleTID] = appendInt(e.c[sampleTID], int64(s.TID)-int64(x.tid))
		x.pid, x.tid = s.PID, s.TID
		values := s.Values[:min(len(s.Values), MaxValues)]
		e.c[sampleCount] = appendUint(e.c[sampleCount], uint64(len(values)))
		for len(e.c) < sampleColumns+len(values) {
			e.c = append(e.c, nil)
		}
		for k, v := range values {
			e.c[sampleColumns+k] = appendInt(e.c[sampleColumns+k], int64(v-x.values[k]))
			x.values[k] = v
		}
	}
}

// Samples writes counters as threads had them. Values beyond MaxValues are dropped.
func (w *Writer) Samples(ss []Sample) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return add(w, TypeSamples, ss, &w.samples.columns, w.samples.add, w.samples.reset)
}

// decodeSamples reads a block. The caller owns the result.
func decodeSamples(p []byte, count int) ([]Sample, error) {
	var c [maxColumns]column
	if err := splitColumns(p, c[:]); err != nil {
		return nil, err
	}
	heads := c[sampleHead].b
	if len(heads) != count || count > maxCount {
		return nil, errColumn
	}
	c[sampleHead].b = nil
	// A value has at least one byte: that bounds what a block can request.
	room := 0
	for i := sampleColumns; i < maxColumns; i++ {
		room += len(c[i].b)
	}
	values := make([]uint64, 0, room)
	out := make([]Sample, count)
	s := sampleState{cpus: map[uint16]*sampleContext{}}
	for i, head := range heads {
		s.time += c[sampleTime].int()
		s.cpu += uint16(c[sampleCPU].int())
		x := s.context(s.cpu)
		x.pid += int32(c[samplePID].int())
		x.tid += int32(c[sampleTID].int())
		n := c[sampleCount].uint()
		if n > MaxValues || int(n) > cap(values)-len(values) {
			return nil, errColumn
		}
		from := len(values)
		for k := range n {
			x.values[k] += uint64(c[sampleColumns+k].int())
			values = append(values, x.values[k])
		}
		out[i] = Sample{Time: s.time, PID: x.pid, TID: x.tid, CPU: s.cpu, Kind: SampleKind(head &^ headTorn),
			Torn: head&headTorn != 0, Values: values[from:len(values):len(values)]}
	}
	return out, finish(c[:])
}
