// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// Every way by which a function is left is found: returns, those in a part that was moved away, and those of
// the function that it hands its call on to. What cannot be told is an error.
func TestExits(t *testing.T) {
	f := fakeEngine(t, target.AMD64, nil)
	l := newLib(f.open(t).ELF)
	at := func(label string, plus uint64) uint64 { return f.label[label] + plus }
	for _, c := range []struct {
		fn    string
		role  engine.Role
		want  []uint64
		fails string
	}{
		// the other side of the branch is no protector's
		{"exit_other", engine.RoleGraphEnd, []uint64{at("exit_other", 12)}, ""},
		{"exit_join", engine.RoleGraphEnd, []uint64{at("exit_join", 0x17)}, ""},
		{"exit_cold", engine.RoleGraphEnd, []uint64{at("moved_back", 5), at("moved_away", 5)}, ""},
		{"exit_tail", engine.RoleGraphEnd, []uint64{at("moved_back", 5), at("moved_away", 5)}, ""},
		{"exit_foreign", engine.RoleGraphEnd, nil, "hands its call on"},
		// what comes after a wait is no part of it
		{"exit_foreign", engine.RoleSyncEnd, []uint64{at("exit_foreign", 7)}, ""},
		{"exit_indirect", engine.RoleGraphEnd, nil, "hands its call on"},
		{"exit_indirect", engine.RoleSyncEnd, nil, "hands its call on"}, // it may be the wait itself
	} {
		ends, err := l.ends(f.label[c.fn], "", c.role)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, %v; want an error: %s", c.fn, ends, err, c.fails)
			}
			continue
		}
		var got []uint64
		for _, e := range ends {
			got = append(got, e.Addr)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s as %s: %#x, %v; want %#x", c.fn, c.role, got, err, c.want)
		}
	}
}

// No site that an exception can pass is a return probe, in made-up and in real engines.
func TestNoReturnProbes(t *testing.T) {
	check := func(name string, p *engine.Plan) {
		ends := 0
		for _, s := range append(slices.Clone(p.Sites), p.Copies...) {
			if s.Return {
				t.Errorf("%s: %s at %s is a return probe", name, s.Role, s.Where)
			}
			if s.Role == engine.RoleStepEnd || s.Role == engine.RoleGraphEnd ||
				s.Role == engine.RoleSchedEnd {
				ends++
			}
		}
		if ends < 3 {
			t.Errorf("%s: %d ends", name, ends)
		}
	}
	for _, arch := range []target.Arch{target.AMD64, target.ARM64} {
		check(string(arch), fakeEngine(t, arch, nil).plan(t))
	}
	for _, in := range installs(t) {
		var files []engine.OpenedFile
		for _, p := range []string{in.base, in.llama[0], in.cpus[0]} {
			if !slices.ContainsFunc(files, func(f engine.OpenedFile) bool { return f.Path == p }) {
				files = append(files, openFile(t, p))
			}
		}
		p, err := New().PlanFiles(files)
		if err != nil {
			t.Fatal(err)
		}
		check(in.base, p)
	}
}
