// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/profinfer/profinfer/internal/beside"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// forgetful encodes each operator as if none was encoded before, and lets the reader's state end often.
type forgetful struct {
	*exporter
	keep bool // what is encoded
	n    int
}

func (f *forgetful) Op(o *profile.Op) error {
	if !f.keep {
		f.texts, f.fixed, f.p.notes, f.t.recent = nil, fixedNames{}, [hotNotes]handle{}, [64]recentThread{}
	}
	if f.n++; f.n%97 == 0 {
		f.p.n = maxInterned + 1 // ends in the middle of this operator, after its first packet
	}
	return f.exporter.Op(o)
}

// What is kept encoded makes no difference to what is written, nor where a reader's strings are forgotten.
func TestKeptTexts(t *testing.T) {
	raw := func(keep bool) []byte {
		var b bytes.Buffer
		w := beside.New(&b, 1<<12)
		e := &forgetful{exporter: newExporter(w), keep: keep}
		e.Meta(&trace.Meta{Counters: counted})
		p := &profiletest.Player{Sink: e}
		for _, r := range []profiletest.Run{run, {Model: profiletest.Small, PID: 77, Threads: 2, Decode: 30,
			Start: 9_000_000_000}} {
			if err := p.Play(r); err != nil {
				t.Fatal(err)
			}
		}
		err := e.finish(p.Header("op"))
		if e := w.Close(); e != nil || err != nil {
			t.Fatal(err, e)
		}
		return b.Bytes()
	}
	kept, again := raw(true), raw(false)
	if !bytes.Equal(kept, again) {
		t.Errorf("%d and %d bytes, which differ", len(kept), len(again))
	}
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	g.Write(kept)
	g.Close()
	if n := len(check(t, z.Bytes()).named("decode")); n != 70 {
		t.Errorf("%d decode steps", n)
	}
}

type full struct{ room int }

var errFull = errors.New("no space left on device")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// An export that cannot be written, or whose recording cannot be read, ends with that error, and its goroutine
// with it.
func TestExportFails(t *testing.T) {
	errRead := errors.New("the recording is damaged")
	for _, c := range []struct {
		room int // for output, bytes
		read error
		want error
	}{{0, nil, errFull}, {100_000, nil, errFull}, {1 << 30, errRead, errRead}, {0, errRead, errFull}} {
		synctest.Test(t, func(t *testing.T) {
			ops := 0
			err := Export(&full{c.room}, func(s profile.Sink) (*profile.Header, error) {
				p := &profiletest.Player{Sink: s}
				long := run
				long.Decode = 600
				if err := p.Play(long); err != nil {
					return nil, err
				}
				ops++
				return p.Header("op"), c.read
			})
			if err != c.want {
				t.Errorf("room for %d: %v, want %v", c.room, err, c.want)
			}
			if c.room == 0 && ops != 0 {
				t.Error("it went on to the end")
			}
		})
	}
}

// A packet is the same whether its head was written at once or field by field.
func TestPacketHeads(t *testing.T) {
	for _, at := range []int64{-1, 0, 127, 128, 1 << 40, 1<<63 - 1} {
		for _, notes := range []int{0, 1, 60, 200, 20_000} {
			w := beside.New(io.Discard, 1<<20)
			p := newPackets(w)
			p.state(0, 0) // what is first is over
			from := len(p.out)
			body := message(nil).uint(eventCategory, 1<<30).uint(eventType, typeBegin).
				uint(eventTrack, 1<<62).uint(eventName, 300)
			body = append(body, make([]byte, notes)...)
			want := message(nil).sub(tracePacket, message(nil).uint(packetTimestamp, uint64(max(0, at))).
				uint(packetSequence, eventSequence).uint(packetSequenceFlags, flagNeedState).
				sub(packetTrackEvent, body))
			p.begin(at, 1<<62, 1<<30, 300, make([]byte, notes))
			if !bytes.Equal(p.out[from:], want) {
				t.Errorf("at %d with %d bytes of notes:\n%x, want\n%x", at, notes, p.out[from:][:64], want[:64])
			}
			w.Close()
		}
	}
}
