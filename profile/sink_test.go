// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"reflect"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// handed is a sink that notes which of its methods were called.
type handed map[string]bool

func (s handed) note(name string) error               { s[name] = true; return nil }
func (s handed) Needs() profile.Needs                 { return profile.NeedFaults }
func (s handed) Meta(*trace.Meta)                     { s["Meta"] = true }
func (s handed) Op(*profile.Op) error                 { return s.note("Op") }
func (s handed) Graph(*profile.Graph) error           { return s.note("Graph") }
func (s handed) Step(*profile.Step) error             { return s.note("Step") }
func (s handed) Result(*profile.Step) error           { return s.note("Result") }
func (s handed) Choice(*profile.Choice) error         { return s.note("Choice") }
func (s handed) Copy(*profile.Copy) error             { return s.note("Copy") }
func (s handed) Device(*profile.DeviceSpan) error     { return s.note("Device") }
func (s handed) Submission(*profile.Submission) error { return s.note("Submission") }
func (s handed) Remote(*profile.Remote) error         { return s.note("Remote") }
func (s handed) Fault(*profile.Fault) error           { return s.note("Fault") }
func (s handed) Memory(*trace.Memory) error           { return s.note("Memory") }
func (s handed) Sched(*trace.Sched) error             { return s.note("Sched") }
func (s handed) CPU(*trace.CPUState) error            { return s.note("CPU") }
func (s handed) Thread(*trace.Thread) error           { return s.note("Thread") }

// wrapper is a sink around another, as anybody may write one.
type wrapper struct{ profile.Sink }

// Whoever wraps a sink, and whoever joins several, hands on all that a replay tells, whatever a Sink comes to
// have.
func TestSinksLoseNothing(t *testing.T) {
	of := reflect.TypeFor[profile.Sink]()
	for name, wrap := range map[string]func(profile.Sink) profile.Sink{
		"embedded": func(s profile.Sink) profile.Sink { return wrapper{s} },
		"tee":      func(s profile.Sink) profile.Sink { return profile.Tee(profile.BaseSink{}, s) },
		"both": func(s profile.Sink) profile.Sink {
			return wrapper{profile.Tee(wrapper{s}, profile.BaseSink{})}
		},
	} {
		got := handed{}
		s := reflect.ValueOf(wrap(got))
		for i := range of.NumMethod() {
			m := of.Method(i)
			call := s.MethodByName(m.Name)
			if m.Name == "Needs" {
				if n := call.Call(nil)[0].Interface(); n != profile.NeedFaults {
					t.Errorf("%s: it needs %v, want %v", name, n, profile.NeedFaults)
				}
				continue
			}
			call.Call([]reflect.Value{reflect.Zero(m.Type.In(0))})
			if !got[m.Name] {
				t.Errorf("%s: %s was lost", name, m.Name)
			}
		}
	}
	if n := profile.Tee(profile.BaseSink{}).Needs(); n != 0 {
		t.Errorf("needs %v of sinks that need nothing", n)
	}
}
