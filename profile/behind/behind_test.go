// SPDX-License-Identifier: Apache-2.0

package behind_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/behind"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// order writes down what a sink gets, in which order, and fails after so many calls.
type order struct {
	profile.BaseSink
	got   []string
	limit int
}

var errFull = errors.New("it is full")

func (o *order) add(format string, args ...any) error {
	if o.limit > 0 && len(o.got) >= o.limit {
		return errFull
	}
	o.got = append(o.got, fmt.Sprintf(format, args...))
	return nil
}

func (o *order) Meta(m *trace.Meta)             { _ = o.add("meta %s", m.Level) }
func (o *order) Op(x *profile.Op) error         { return o.add("op %d %s %d", x.ID, x.Op, x.Dur) }
func (o *order) Graph(x *profile.Graph) error   { return o.add("graph %d %d", x.ID, x.Dur) }
func (o *order) Step(x *profile.Step) error     { return o.add("step %d %d", x.ID, x.Done) }
func (o *order) Result(x *profile.Step) error   { return o.add("result %d %d", x.ID, x.Done) }
func (o *order) Sched(x *trace.Sched) error     { return o.add("sched %d %d", x.Time, x.NextTID) }
func (o *order) Thread(x *trace.Thread) error   { return o.add("thread %d", x.TID) }
func (o *order) Copy(x *profile.Copy) error     { return o.add("copy %d", x.Start) }
func (o *order) Choice(x *profile.Choice) error { return o.add("choice %v", x != nil) }

// TestBehind: what is handed on is the same in the same order, and an error ends the replay.
func TestBehind(t *testing.T) {
	for _, name := range []string{"plain", "offload", "experts", "remote", "processes"} {
		var file bytes.Buffer
		trial, _ := profiletest.TrialNamed(name)
		if err := trial.Write(&file); err != nil {
			t.Fatal(err)
		}
		replay := func(s profile.Sink) error {
			r, err := trace.NewReader(bytes.NewReader(file.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			_, err = profile.Replay(r, s)
			return err
		}
		direct, later, full := &order{}, &order{}, &order{limit: 100}
		if err := replay(direct); err != nil {
			t.Fatal(err)
		}
		a := behind.New(later)
		if err := errors.Join(replay(a), a.Wait()); err != nil {
			t.Fatal(err)
		}
		if len(direct.got) < 200 || !slices.Equal(direct.got, later.got) {
			t.Errorf("%s: %d calls, behind %d", name, len(direct.got), len(later.got))
		}
		a = behind.New(full)
		if err := replay(a); err != nil && !errors.Is(err, errFull) {
			t.Error(err)
		}
		if err := a.Wait(); !errors.Is(err, errFull) || len(full.got) != 100 {
			t.Errorf("%s: %v after %d calls", name, err, len(full.got))
		}
	}
}
