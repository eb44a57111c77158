// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/overhead/drive"
)

// The states that are measured by default exist, and those that ask for more than operators have to show it.
func TestStates(t *testing.T) {
	of := map[string]drive.State{}
	for _, s := range table {
		if of[s.key].Name != "" {
			t.Errorf("%s is there twice", s.key)
		}
		of[s.key] = s.State
	}
	for k := range strings.SplitSeq(usual, ",") {
		if of[k].Name == "" {
			t.Errorf("there is no state %q", k)
		}
	}
	for k, s := range of {
		if got, want := s.Faults, slices.Contains(s.Flags, "--faults"); got != want {
			t.Errorf("%s: faults have to be there: %t, are recorded: %t", k, got, want)
		}
		if got, want := s.Counts != "", slices.Contains(s.Flags, "--counters"); got != want {
			t.Errorf("%s: counters have to be there: %t, are recorded: %t", k, got, want)
		}
		if s.Experts {
			t.Errorf("%s asks for experts of any model", k)
		}
		x := withExperts([]drive.State{s})[0].Experts
		if want := !slices.Contains([]string{"graph", "no-experts", "bpftrace"}, k); x != want {
			t.Errorf("%s of a model with experts: they have to be there: %t, want %t", k, x, want)
		}
	}
}
