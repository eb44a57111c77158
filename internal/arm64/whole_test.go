// SPDX-License-Identifier: Apache-2.0

package arm64

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/doctor"
	"github.com/profinfer/profinfer/profile"
)

// All of record, stat, report and export works there, and gives the figures that this machine reads from the
// same file.
func TestWhole(t *testing.T) {
	for _, m := range []*machine{trixie, sid} {
		t.Run(m.kernel, func(t *testing.T) {
			m.well(t, "whole")
			r := load(t, m, "whole")
			if a := r.Header.Meta.Arch; a != "arm64" {
				t.Errorf("recorded on %q", a)
			}
			if len(r.Steps) != 9 || r.Steps[0].Phase != profile.Prefill ||
				r.Steps[8].Phase != profile.Decode {
				t.Errorf("%d steps, want one of prefill and eight of decode", len(r.Steps))
			}
			if r.Scheds == 0 {
				t.Error("no scheduling events")
			}
			path := m.file("whole.pinf")
			var there, back any
			if err := json.Unmarshal([]byte(m.well(t, "stat").stdout), &there); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(here(t, "stat", "--json", "-i", path).stdout),
				&back); err != nil {
				t.Fatal(err)
			}
			for _, s := range []any{there, back} { // which peaks are kept is a machine's own
				delete(s.(map[string]any)["peaks"].(map[string]any), "missing")
			}
			if d := different("", there, back); d != "" {
				t.Errorf("stat --json: %s", d)
			}
			sameTable(t, m.well(t, "ops").stdout,
				here(t, "export", "-i", path, "--table", "ops", "--format", "csv").stdout)
			if a, b := m.well(t, "nodes").stdout,
				here(t, "export", "-i", path, "--table", "nodes", "--format", "ndjson").stdout; a != b ||
				len(a) == 0 {
				t.Error("the table of nodes differs")
			}
			m.well(t, "perfetto")
			out := t.TempDir() + "/x"
			if res := here(t, "export", "-i", path, "--format", "perfetto", "-o", out); res.status != 0 {
				t.Fatal(res.stderr)
			}
			if a, b := unzipped(t, m.file("whole.pftrace")), unzipped(t, out); !bytes.Equal(a, b) ||
				len(b) < 10_000 {
				t.Errorf("perfetto: another file of %d bytes there, %d here", len(a), len(b))
			}
			m.well(t, "report")
			if page := m.read(t, "whole.html"); !strings.Contains(page, "<html") ||
				!strings.HasSuffix(strings.TrimSpace(page), "</html>") {
				t.Errorf("the page has %d bytes and is not whole", len(page))
			}
		})
	}
}

// different says where two values of JSON differ. Compilers of different machines may round sums differently:
// numbers may differ by a billionth. Paths of files do.
func different(at string, a, b any) string {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return fmt.Sprintf("%s: %v, %v", at, a, b)
		}
		for k, v := range x {
			if d := different(at+"."+k, v, y[k]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return fmt.Sprintf("%s: %v, %v", at, a, b)
		}
		for i, v := range x {
			if d := different(fmt.Sprintf("%s[%d]", at, i), v, y[i]); d != "" {
				return d
			}
		}
		return ""
	case float64:
		if y, ok := b.(float64); ok && near(x, y) {
			return ""
		}
	case string:
		if y, ok := b.(string); ok && (x == y || strings.HasSuffix(x, "whole.pinf") &&
			strings.HasSuffix(y, "whole.pinf")) {
			return ""
		}
	default:
		if a == b {
			return ""
		}
	}
	return fmt.Sprintf("%s: %v there, %v here", at, a, b)
}

func unzipped(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func near(x, y float64) bool { return x == y || math.Abs(x-y) <= 1e-9*math.Abs(x) }

func sameTable(t *testing.T, a, b string) {
	t.Helper()
	there, err := csv.NewReader(strings.NewReader(a)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	back, err := csv.NewReader(strings.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(there) != len(back) || len(there) < 100 {
		t.Fatalf("%d rows there, %d here", len(there), len(back))
	}
	for i := range there {
		for j := range there[i] {
			x, e1 := strconv.ParseFloat(there[i][j], 64)
			y, e2 := strconv.ParseFloat(back[i][j], 64)
			if there[i][j] != back[i][j] && (e1 != nil || e2 != nil || !near(x, y)) {
				t.Fatalf("row %d: %v there, %v here", i, there[i], back[i])
			}
		}
	}
}

// simulated are instructions that the kernel simulates (arch/arm64/kernel/probes/decode-insn.c).
func simulated(text string) bool {
	name, _, _ := strings.Cut(text, " ")
	return slices.Contains([]string{"bl", "b", "br", "blr", "ret", "cbz", "cbnz", "tbz", "tbnz", "adr",
		"adrp"}, name) || strings.HasPrefix(name, "b.")
}

// Every probe site of every CPU library of Debian's arm64 build is simulated, and an operator's are at a bl;
// the kernel there agrees (TestKernelSteps, in suites).
func TestSites(t *testing.T) {
	for _, m := range []*machine{trixie, sid} {
		t.Run(m.kernel, func(t *testing.T) {
			var d doctor.Report
			if err := json.Unmarshal([]byte(m.well(t, "doctor").stdout), &d); err != nil {
				t.Fatal(err)
			}
			if want := []string{"steps", "graphs", "operators",
				"scheduling"}; !slices.Equal(d.Verdict.Records, want) || d.Machine.Arch != "arm64" {
				t.Errorf("doctor: %+v on %s", d.Verdict, d.Machine.Arch)
			}
			d = doctor.Report{}
			if err := json.Unmarshal([]byte(m.well(t, "sites").stdout), &d); err != nil {
				t.Fatal(err)
			}
			roles := map[string]int{}
			for _, s := range d.Target.Sites {
				roles[s.Role]++
				if s.Class != "emulated" || !simulated(s.Insn) {
					t.Errorf("%s of %s: %s is %s", s.Role, s.File, s.Insn, s.Class)
				}
				if strings.Contains(s.Role, "operator") && !strings.HasPrefix(s.Insn, "bl ") {
					t.Errorf("%s of %s: %s", s.Role, s.File, s.Insn)
				}
			}
			t.Log(roles)
			// eight libraries, one for each generation of CPUs
			for role, n := range map[string]int{"operator begin": 8, "operator end": 16,
				"fused operator begin": 8, "graph begin": 8, "step begin": 3} {
				if roles[role] < n {
					t.Errorf("%d sites of %s, want %d", roles[role], role, n)
				}
			}
		})
	}
}

// The tests of packages that ask the kernel pass there.
func TestSuites(t *testing.T) {
	for _, m := range []*machine{trixie, sid, none, pair} {
		for _, s := range m.steps {
			if !strings.HasSuffix(s.name, ".test") {
				continue
			}
			t.Run(m.kernel+"/"+m.pmu+"/"+s.name, func(t *testing.T) {
				r := m.result(t, s.name)
				if r.status != 0 || !strings.Contains(r.stdout, "--- PASS: ") ||
					!strings.HasSuffix(strings.TrimSpace(r.stdout), "PASS") {
					t.Errorf("status %d\n%s%s", r.status, failing(r.stdout), r.stderr)
				}
			})
		}
	}
}

// failing is what tests that did not pass printed: all of it if there is no such test.
func failing(out string) string {
	var bad []string
	for i, test := range strings.Split(out, "=== RUN ") {
		if i > 0 && !strings.Contains(test, "--- PASS: ") && !strings.Contains(test, "--- SKIP: ") {
			bad = append(bad, "=== RUN "+test)
		}
	}
	if len(bad) == 0 {
		return out
	}
	return strings.Join(bad, "")
}
