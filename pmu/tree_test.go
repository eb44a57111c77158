// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// tree reads a machine from testdata/machines: "path = value" lines, values quoted where they have
// several lines. Each file says whether it was recorded or composed, and from what.
func tree(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "machines", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		path, value, ok := strings.Cut(line, " = ")
		if !ok {
			t.Fatalf("%s: %q is no line of a machine", name, line)
		}
		if strings.HasPrefix(value, `"`) {
			if value, err = strconv.Unquote(value); err != nil {
				t.Fatalf("%s: %s: %v", name, path, err)
			}
		}
		out[path] = &fstest.MapFile{Data: []byte(value + "\n")}
	}
	return out
}

func machine(t testing.TB, name string) *Machine {
	t.Helper()
	m, err := ReadMachineFS(tree(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func machines(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/machines/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no machines", err)
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(f), ".txt"))
	}
	return out
}

func plan(t testing.TB, m *Machine, r Request) *Plan {
	t.Helper()
	p, err := NewPlan(m, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func names(p *Plan) []string {
	var out []string
	for _, c := range p.Counters {
		out = append(out, c.Name)
	}
	return out
}

func (p *Plan) counter(t testing.TB, name string) *Counter {
	t.Helper()
	for _, c := range p.Counters {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no counter %s, but %v; missing: %v", name, names(p), p.Missing)
	return nil
}
