// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// Small returns short recordings of all that a recording can have, for fuzzing: each replays in milliseconds.
func Small() (all [][]byte, err error) {
	model := profiletest.Small
	model.Layers = 1
	run := profiletest.Run{Model: model, PID: 100, Ctx: 5, Threads: 2, Prefill: 2, Decode: 2, Start: 1e9,
		Gap: 300, Preempt: 2, Sched: true}
	play := func(r profiletest.Run, change func(*profiletest.Recorder)) func(io.Writer) error {
		return func(w io.Writer) error {
			return profiletest.Record(w, change, func(_ *profiletest.Recorder, p *profiletest.Player) error {
				return p.Play(r)
			})
		}
	}
	mixture, faulty := run, run
	mixture.Model, mixture.Preempt = profiletest.MoE, 0
	mixture.Model.Layers = 1
	faulty.Preempt = 0
	for _, write := range []func(io.Writer) error{
		play(run, nil),
		play(mixture, nil),
		play(faulty, func(r *profiletest.Recorder) {
			profiletest.Faulty(r, faulty.Model, faulty.PID, false)
		}),
		func(w io.Writer) error { return profiletest.Offload(w, 2, nil) },
		profiletest.Remote{Steps: 2}.Record,
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return nil, err
		}
		all = append(all, b.Bytes())
	}
	return all, nil
}

// Alter returns a recording with changes that a fuzzer chooses by bytes: blocks and what they hold, any
// field, left out, doubled, exchanged, set to other numbers and words. Its checksums fit. It fails where the
// writer refuses what it is given.
func Alter(file, edits []byte) ([]byte, error) {
	blocks, end, err := blocksOf(file)
	if err != nil {
		return nil, err
	}
	e := &editor{b: edits}
	for i := 0; len(e.b) > 0 && len(blocks) > 0 && i < 64; i++ {
		what, at := e.next(), int(e.next16())%len(blocks)
		switch what % 8 {
		case 0:
			blocks = slices.Delete(blocks, at, at+1)
		case 1:
			if len(blocks) < 1000 {
				blocks = slices.Insert(blocks, at, blocks[int(e.next16())%len(blocks)])
			}
		case 2:
			other := int(e.next16()) % len(blocks)
			blocks[at], blocks[other] = blocks[other], blocks[at]
		default:
			e.change(reflect.ValueOf(&blocks[at]).Elem(), 0)
		}
	}
	var out bytes.Buffer
	w := trace.NewWriter(&out)
	for i := range blocks {
		if err := write(w, &blocks[i]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(end); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// blocksOf reads a recording's blocks, each with memory of its own.
func blocksOf(file []byte) (blocks []trace.Block, end trace.End, err error) {
	r, err := trace.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, end, err
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if err == io.EOF {
			return blocks, end, nil
		}
		if err != nil {
			return nil, end, err
		}
		if b.End != nil {
			end = *b.End
		}
		b.Hits, b.Marks, b.StepSeqs, b.Sched = slices.Clone(b.Hits), slices.Clone(b.Marks),
			slices.Clone(b.StepSeqs), slices.Clone(b.Sched)
		blocks = append(blocks, b)
	}
}

// editor takes its decisions from bytes; behind their end all are 0.
type editor struct{ b []byte }

func (e *editor) next() (v byte) {
	if len(e.b) > 0 {
		v, e.b = e.b[0], e.b[1:]
	}
	return v
}

func (e *editor) next16() uint16 { return binary.LittleEndian.Uint16([]byte{e.next(), e.next()}) }

// What numbers and words become.
var (
	numbers = []int64{0, 1, -1, 2, 3, 7, 63, 64, 255, 1 << 15, 1 << 16, 1 << 20, 1e9, math.MaxInt32,
		math.MinInt32, 1 << 40, 1 << 62, math.MaxInt64, math.MinInt64}
	words = []string{"", "x", "blk.1.ffn_down.weight", "blk.2147483647.attn_q.weight", "MUL_MAT",
		"MUL_MAT_ID", "FLASH_ATTN_EXT", "CPY", "q4_K", "graph begin", "step begin",
		"llama_encode", "arrivals", "off", "both", "lost", "throttled", "hits", "0-16383,0-16383", "CPU",
		"Vulkan0", "end", "changed", "\x1b[2J\x00\xff\u202e",
		"cache_k_l0 (view)", "inp_tokens", "result_output", strings.Repeat("blk.0.", 50)}
)

// change goes down to some field and changes it.
func (e *editor) change(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case !v.IsNil():
			own := reflect.New(v.Type().Elem()) // another block can share it
			own.Elem().Set(v.Elem())
			v.Set(own)
			e.change(own.Elem(), depth+1)
		case depth > 1: // of a block it would make another type's
			v.Set(reflect.New(v.Type().Elem()))
		}
	case reflect.Struct:
		var set []int // of a block most fields are of other types
		for i := range v.NumField() {
			if f := v.Field(i); depth > 0 || f.Kind() == reflect.Pointer && !f.IsNil() ||
				f.Kind() == reflect.Slice && f.Len() > 0 || v.Type().Field(i).Name == "Watermark" &&
				!f.IsZero() {
				set = append(set, i)
			}
		}
		if len(set) > 0 {
			e.change(v.Field(set[int(e.next())%len(set)]), depth+1)
		}
	case reflect.Slice:
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		what, n := e.next(), v.Len()
		if n == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			return
		}
		at := int(e.next16()) % n
		switch {
		case what < 16:
			v.Set(reflect.AppendSlice(v.Slice(0, at), v.Slice(at+1, n)))
		case what < 32:
			v.Set(reflect.Append(v, v.Index(at)))
		case what < 36:
			v.SetLen(at)
		default:
			e.change(v.Index(at), depth+1)
		}
	case reflect.Array:
		e.change(v.Index(int(e.next())%v.Len()), depth+1)
	case reflect.Map:
		own := reflect.MakeMap(v.Type())
		for _, k := range v.MapKeys() {
			own.SetMapIndex(k, v.MapIndex(k))
		}
		k, x := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		e.change(k, depth+1)
		e.change(x, depth+1)
		own.SetMapIndex(k, x)
		v.Set(own)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(words[int(e.next())%len(words)])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(e.number(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(e.number(int64(v.Uint()))))
	}
}

// number is another one than v, or one close by.
func (e *editor) number(v int64) int64 {
	if k := int(e.next()); k < 128 {
		return numbers[k%len(numbers)]
	}
	return v + int64(int16(e.next16()))
}
