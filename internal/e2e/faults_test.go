// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/summary"
)

// ownModel copies a model, so that nobody else has it mapped.
func ownModel(t testing.TB, model, inside string) (own, ownInside string) {
	t.Helper()
	from, err := os.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.CreateTemp(filepath.Dir(model), "faults-*.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	t.Cleanup(func() { os.Remove(to.Name()) })
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	return to.Name(), filepath.Join(filepath.Dir(inside), filepath.Base(to.Name()))
}

func csvRows(t testing.TB, text string) (rows []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v in %q", err, text[:min(len(text), 200)])
	}
	for _, r := range all[1:] {
		row := map[string]string{}
		for i, v := range r {
			row[all[0][i]] = v
		}
		rows = append(rows, row)
	}
	return rows
}

// drop takes a file out of the page cache, as far as nobody has it mapped.
func drop(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// limited makes a control group with less memory; it is skipped where that cannot be had.
func limited(t testing.TB, bytes int64) (procs string) {
	t.Helper()
	root, file := "/sys/fs/cgroup", "memory.max"
	if b, err := os.ReadFile(root + "/cgroup.controllers"); err != nil ||
		!strings.Contains(string(b), "memory") {
		root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	}
	dir, err := os.MkdirTemp(root, "profinfer-test-")
	if err != nil {
		t.Skipf("no control group with a memory limit can be made here: %v", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(bytes, 10)), 0); err != nil {
		t.Skipf("no control group with a memory limit can be made here: %v", err)
	}
	return filepath.Join(dir, "cgroup.procs")
}

// faulted records a benchmark with its page faults. majors are those that the kernel counted for the engine.
func faulted(t testing.TB, procs string, flags []string, command ...string) (s *summary.Stat, majors int64,
	path string) {
	t.Helper()
	needBPF(t)
	path = filepath.Join(t.TempDir(), "run.pinf")
	script := `"$@"; read -r line </proc/$$/stat; set -- ${line##*)}; echo "majors ${11}"`
	if procs != "" {
		script = "echo $$ >" + procs + "; " + script
	}
	r := profinfer(t, append(append([]string{"record", "-o", path}, flags...),
		append([]string{"--", "sh", "-c", script, "sh"}, command...)...)...)
	if r.status != 0 {
		t.Fatalf("record: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if _, err := fmt.Sscanf(r.stdout[strings.LastIndex(r.stdout, "majors "):], "majors %d",
		&majors); err != nil {
		t.Fatalf("%v in %q", err, r.stdout)
	}
	out := profinfer(t, "stat", "--json", "-i", path)
	s = &summary.Stat{}
	if err := json.Unmarshal([]byte(out.stdout), s); err != nil || s.Faults == nil {
		t.Fatalf("%v: %s", err, out.stderr)
	}
	return s, majors, path
}

// sum checks that what faults hit adds up to what the process counted.
func sum(t testing.TB, f *memory.Stat, majors int64) map[profile.MemoryClass]int64 {
	t.Helper()
	if f.Major == nil || f.NoAddress == nil || f.Before == nil {
		t.Fatalf("counts are not known: %+v", f)
	}
	by := map[profile.MemoryClass]int64{}
	seen := int64(0)
	for _, c := range f.Classes {
		by[c.Class] += c.Major
		seen += c.Major
	}
	if seen != f.Seen || seen+*f.NoAddress != *f.Major {
		t.Errorf("%d by class, %d seen, %d without an address, %d in all", seen, f.Seen, *f.NoAddress,
			*f.Major)
	}
	if all := *f.Before + *f.Major; max(all-majors, majors-all)*50 > majors {
		t.Errorf("%d before and %d recorded major faults, the process counted %d", *f.Before, *f.Major,
			majors)
	}
	return by
}

// modelFile is what is told of the model's file.
func modelFile(t testing.TB, f *memory.Stat, name string) *memory.FileMemory {
	t.Helper()
	for i := range f.Files {
		if filepath.Base(f.Files[i].Path) == name && f.Files[i].InStart != nil && f.Files[i].InEnd != nil {
			return &f.Files[i]
		}
	}
	t.Fatalf("no pages of %s: %+v", name, f.Files)
	return nil
}

// With less memory than the model needs its experts are read again and again: by major faults, which hit what
// the table says and add up to what the kernel counted.
func TestFaultsLimited(t *testing.T) {
	e := engines.Debian(t)
	model, inside := engines.Model(t, e, "moe-small")
	model, inside = ownModel(t, model, inside)
	procs := limited(t, 92<<20)
	drop(t, model)
	s, majors, path := faulted(t, procs, []string{"--faults"},
		e.Command("llama-bench", "-m", inside, "-t", "2", "-p", "8", "-n", "12", "-r", "1", "--no-warmup",
			"--repack", "0")...)
	f := s.Faults
	by := sum(t, f, majors)
	if by[profile.MemExpert] < 10 || f.Seen < 20 {
		t.Errorf("%d major faults, %v", f.Seen, by)
	}
	if f.Read == nil || *f.Read < 110<<20 || f.ReadFaults > *f.Read || f.ReadFaults < *f.Read/4 {
		t.Errorf("%v bytes read, %d by faults", f.Read, f.ReadFaults)
	}
	if m := modelFile(t, f, filepath.Base(model)); !m.Mapped || *m.InStart > m.Bytes/20 ||
		*m.InEnd < m.Bytes/4 || *m.InEnd > 92<<20 {
		t.Errorf("%d and %d bytes of %d in memory, mapped %t", *m.InStart, *m.InEnd, m.Bytes, m.Mapped)
	}
	if !strings.Contains(fmt.Sprint(s.Findings), "disk") {
		t.Errorf("nothing is said of the disk: %+v", s.Findings)
	}
	// each fault on an expert lies in an operator that computes with these weights, and is of an expert that
	// its tokens chose
	export := func(table string) []map[string]string {
		return csvRows(t, profinfer(t, "export", "-i", path, "--table", table, "--format", "csv").stdout)
	}
	ops := map[string]map[string]string{}
	for _, row := range export("ops") {
		ops[row["op_id"]] = row
	}
	type use struct{ graph, layer, expert string }
	chosen := map[use]bool{}
	for _, row := range export("experts") {
		chosen[use{row["graph"], row["layer"], row["expert"]}] = true
	}
	n, fits, used := 0, 0, 0
	for _, row := range export("faults") {
		if row["class"] != "expert" || row["op_id"] == "" {
			continue
		}
		n++
		o := ops[row["op_id"]]
		if o["weight"] == row["tensor"] && row["expert"] != "" {
			fits++
			if chosen[use{o["graph"], o["layer"], row["expert"]}] {
				used++
			}
		}
	}
	if n < 10 || fits < n*98/100 {
		t.Errorf("%d of %d faults on experts lie in an operator with these weights", fits, n)
	}
	if used < fits*98/100 {
		t.Errorf("%d of %d faults on experts are of one that the operator's tokens chose", used, fits)
	}
	t.Logf("%d major faults, %v; %d of %d experts' in their operator, %d of a chosen one", majors, by, fits,
		n, used)
}

// What a command's process counted in its whole life is in the recording, though the process is gone, and is
// what was recorded of it.
func TestFaultsOwn(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	model, inside := engines.Model(t, e, "moe-small")
	model, inside = ownModel(t, model, inside)
	procs := limited(t, 92<<20)
	drop(t, model)
	path := filepath.Join(t.TempDir(), "run.pinf")
	script := "echo $$ >" + procs + `; exec "$@"` // the same process
	command := e.Command("llama-bench", "-m", inside, "-t", "2", "-p", "0", "-n", "4", "-r", "1",
		"--no-warmup", "--repack", "0")
	if r := profinfer(t, append([]string{"record", "--faults", "-o", path, "--", "sh", "-c", script, "sh"},
		command...)...); r.status != 0 {
		t.Fatalf("record: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	out := profinfer(t, "stat", "--json", "-i", path)
	s := &summary.Stat{}
	if err := json.Unmarshal([]byte(out.stdout), s); err != nil || s.Faults == nil || s.Faults.Own == nil {
		t.Fatalf("%v: %s%s", err, out.stdout[:min(len(out.stdout), 300)], out.stderr)
	}
	if *s.Faults.Own < 10 {
		t.Errorf("the process counted %d major faults", *s.Faults.Own)
	}
	sum(t, s.Faults, *s.Faults.Own)
	t.Logf("the process counted %d major faults; %d were recorded", *s.Faults.Own, s.Faults.Seen)
}

// Cold, the model is read before it computes; warm, nothing is.
func TestFaultsColdWarm(t *testing.T) {
	e := engines.Debian(t)
	model, inside := engines.Model(t, e, "llama-small")
	model, inside = ownModel(t, model, inside)
	command := e.Command("llama-bench", "-m", inside, "-t", "2", "-p", "0", "-n", "200", "-r", "1",
		"--no-warmup", "--repack", "0")
	drop(t, model)
	cold, majors, _ := faulted(t, "", []string{"--faults=all"}, command...)
	sum(t, cold.Faults, majors)
	m := modelFile(t, cold.Faults, filepath.Base(model))
	if *m.InStart > m.Bytes/20 || *m.InEnd != m.Bytes {
		t.Errorf("cold: %d and %d bytes of %d in memory", *m.InStart, *m.InEnd, m.Bytes)
	}
	if r := cold.Faults.Read; r == nil {
		t.Error("cold: what was read is not known")
	} else if *r < m.Bytes*9/10 || *r > m.Bytes*13/10 {
		t.Errorf("cold: %d bytes read of %d", *r, m.Bytes)
	}
	warm, majors, _ := faulted(t, "", []string{"--faults=all"}, command...)
	sum(t, warm.Faults, majors)
	m = modelFile(t, warm.Faults, filepath.Base(model))
	if *m.InStart != m.Bytes || *m.InEnd != m.Bytes || !m.Mapped {
		t.Errorf("warm: %d and %d bytes of %d in memory, mapped %t", *m.InStart, *m.InEnd, m.Bytes, m.Mapped)
	}
	if r := warm.Faults.Read; r == nil {
		t.Error("warm: what was read is not known")
	} else if *r > 4<<20 {
		t.Errorf("warm: %d bytes read", *r)
	}
	if warm.Faults.Minor == nil || *warm.Faults.Minor == 0 {
		t.Errorf("warm: %v minor faults", warm.Faults.Minor)
	}
}
