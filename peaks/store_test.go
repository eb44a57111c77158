// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSaveLoad(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	p := sample()
	if got, err := load([]string{dir, other}, &p.Machine); got != nil || err != nil {
		t.Fatalf("nothing kept: %v, %v", got, err)
	}
	name, err := save(filepath.Join(dir, "a", "b"), p)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	got, err := load([]string{filepath.Join(dir, "a", "b")}, &p.Machine)
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Fatalf("%+v, %v", got, err)
	}
	// a newer one elsewhere wins, wherever it stands in the list
	q := sample()
	q.Measured = p.Measured.Add(time.Hour)
	if _, err := save(other, q); err != nil {
		t.Fatal(err)
	}
	for _, dirs := range [][]string{{filepath.Dir(name), other}, {other, filepath.Dir(name)}} {
		if got, err := load(dirs, &p.Machine); err != nil || !got.Measured.Equal(q.Measured) {
			t.Errorf("%v, %v", got, err)
		}
	}
	// another machine finds nothing, nor does one with twice the memory
	m := p.Machine
	m.Online = "0-3"
	if got, err := load([]string{other}, &m); got != nil || err != nil {
		t.Errorf("another machine: %v, %v", got, err)
	}
	q.Machine.Memory = 64 << 30
	if _, err := save(other, q); err != nil {
		t.Fatal(err)
	}
	m = q.Machine
	m.Memory = 32 << 30
	if got, err := load([]string{other}, &m); got != nil || err != nil {
		t.Errorf("more memory: %v, %v", got, err)
	}
	left, _ := filepath.Glob(filepath.Join(other, ".new-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	p.Points = nil
	if _, err := save(other, p); err == nil {
		t.Error("peaks without points are kept")
	}
}

// TestFolders: the user's cache folder, and the one of all users; root writes there.
func TestFolders(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/x/cache")
	if f := folders(); f[0] != "/x/cache/profinfer/peaks" || f[1] != "/var/cache/profinfer/peaks" {
		t.Errorf("%v", f)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "/home/x")
	want := []string{"/home/x/.cache/profinfer/peaks", "/var/cache/profinfer/peaks"}
	if os.Geteuid() == 0 {
		want[0], want[1] = want[1], want[0]
	}
	if f := folders(); !reflect.DeepEqual(f, want) {
		t.Errorf("%v", f)
	}
	t.Setenv("HOME", "")
	if f := folders(); len(f) != 1 || f[0] != "/var/cache/profinfer/peaks" {
		t.Errorf("%v", f)
	}
}

// TestHostileFile: whatever the file holds, an error says what to do, and nothing of it is used.
func TestHostileFile(t *testing.T) {
	p := sample()
	dir := t.TempDir()
	name, err := save(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := os.ReadFile(name)
	change := func(path string, v any) string {
		var doc map[string]any
		if err := json.Unmarshal(good, &doc); err != nil {
			t.Fatal(err)
		}
		at := any(doc)
		keys := strings.Split(path, ".")
		for _, k := range keys[:len(keys)-1] {
			if l, ok := at.([]any); ok {
				at = l[int(k[0]-'0')]
				continue
			}
			at = at.(map[string]any)[k]
		}
		at.(map[string]any)[keys[len(keys)-1]] = v
		b, _ := json.Marshal(doc)
		return string(b)
	}
	long := make([]any, 300)
	for i := range long {
		long[i] = "w"
	}
	points := make([]any, maxCPUs+1)
	for i := range points {
		points[i] = map[string]any{"threads": i + 1}
	}
	for what, text := range map[string]string{
		"empty":             "",
		"no JSON":           "\x00\xff{",
		"null":              "null",
		"other version":     change("schema_version", 2),
		"no points":         change("points", []any{}),
		"order":             change("points.1.threads", 1),
		"no threads":        change("points.0.threads", 0),
		"many threads":      change("points.2.threads", 1e6),
		"negative":          change("points.0.read_gb_s.best", -20),
		"zero":              change("points.0.read_gb_s.best", 0),
		"huge":              change("points.0.read_gb_s.best", 1e300),
		"overflow":          strings.Replace(string(good), `"best": 20`, `"best": 1e999`, 1),
		"NaN":               strings.Replace(string(good), `"best": 20`, `"best": NaN`, 1),
		"text":              change("points.0.read_gb_s.best", "20"),
		"median above best": change("points.0.read_gb_s.median", 21),
		"worst above":       change("points.0.f32_gflop_s.worst", 101),
		"no trials":         change("points.0.int8_gop_s.trials", 0),
		"more than a CPU":   change("points.0.read_gb_s.cpu", 1.5),
		"clock":             change("points.0.ghz", -1),
		"kernel":            change("kernels.0.rate", 0),
		"kind": change("kinds",
			[]any{map[string]any{"name": "a", "points": []any{map[string]any{"threads": -1}}}}),
		"others":   change("others", -0.5),
		"given":    change("given_gb_s", -1),
		"year":     change("measured", "0001-01-01T00:00:00Z"),
		"size":     change("working_set_bytes", -1),
		"memory":   change("machine.memory_bytes", -1),
		"warnings": change("warnings", long),
		"points":   change("points", points),
		"large":    string(good) + strings.Repeat(" ", maxFile),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := load([]string{dir}, &p.Machine)
		if got != nil || err == nil || !strings.Contains(err.Error(), "measure again: profinfer peaks") {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	// a good one elsewhere makes up for it
	other := t.TempDir()
	if _, err := save(other, p); err != nil {
		t.Fatal(err)
	}
	if got, err := load([]string{dir, other}, &p.Machine); got == nil || err != nil {
		t.Errorf("a good one behind a bad one: %v", err)
	}
	// a folder in the file's place
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := load([]string{dir}, &p.Machine); got != nil || err == nil {
		t.Errorf("a folder: %v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	b, _ := json.Marshal(sample())
	f.Add(b)
	f.Add([]byte(`{"schema_version":1,"points":[{"threads":1}],"measured":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		for _, n := range []int{-1, 0, 1, 3, 1 << 30} {
			p.At(n)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	})
}
