// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// figures are those that a page shows.
type figures struct {
	Summary []struct{ Name, V, Text string } `json:"summary"`
	Tables  map[string][]row                 `json:"tables"`
}

// row is a row of a table: its figures by column.
type row struct {
	ID    string            `json:"id"`
	Cells map[string]string `json:"cells"`
}

// statJSON is what profinfer stat --json says of a recording, without the peaks that this machine may have:
// the pages have none.
func statJSON(t *testing.T, file, by string) map[string]any {
	t.Helper()
	out, err := exec.Command(profinfer(t), "stat", "-i", file, "--json", "--no-peaks", "--by", by).Output()
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// exported returns the rows of a table of the recording.
func exported(t *testing.T, file, table string) (rows []map[string]any) {
	t.Helper()
	out, err := exec.Command(profinfer(t), "export", "-i", file, "--table", table, "--format", "ndjson", "-o",
		"-").Output()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for d.More() {
		var r map[string]any
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// same tells whether a figure of the page is a value of JSON: the same number, or nothing for null.
func same(v string, want any) bool {
	w, ok := want.(float64)
	if !ok {
		return v == "" && want == nil
	}
	got, err := strconv.ParseFloat(v, 64)
	return err == nil && got == w
}

func near(v string, want float64) bool {
	got, err := strconv.ParseFloat(v, 64)
	return err == nil && math.Abs(got-want) <= 1e-9*math.Abs(want)+1e-9
}

func list(v any) []any { l, _ := v.([]any); return l }

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

// at follows a figure's name into stat --json: "run.steps", "models.0.layers", "decode.tokens_per_s",
// "decode@1.steps".
func at(s map[string]any, name string) (any, bool) {
	var v any = s
	parts := strings.Split(name, ".")
	phase, model, _ := strings.Cut(parts[0], "@")
	for _, p := range list(s["phases"]) {
		o := object(p)
		if m, _ := o["model"].(float64); o["phase"] == phase &&
			(model == "" && m == 0 || model == fmt.Sprint(int(m))) {
			v, parts = p, parts[1:]
			break
		}
	}
	if len(parts) > 2 && parts[0] == "rows" { // by key, and type where it is a weight's; a key can hold dots
		key, col := strings.Join(parts[1:len(parts)-1], "."), parts[len(parts)-1]
		for _, r := range list(object(v)["rows"]) {
			if o := object(r); o["key"] == key || fmt.Sprint(o["key"], ".", o["type"]) == key {
				v, ok := o[col]
				return v, ok
			}
		}
		return nil, false
	}
	for i := 0; i < len(parts); {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[parts[i]]
			if !ok {
				return nil, false
			}
			v = next
			i++
		case []any:
			n, err := strconv.Atoi(parts[i])
			if err == nil {
				i++
			} else {
				n = 0 // the first one's
			}
			if n < 0 || n >= len(x) {
				return nil, false
			}
			v = x[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// compare checks the figures of a page of one recording.
func compare(t *testing.T, file string, f figures) {
	t.Helper()
	stats := map[string]map[string]any{}
	for _, by := range groupings {
		stats[by] = statJSON(t, file, by)
	}
	compared := 0
	for _, g := range f.Summary {
		want, ok := at(stats["weight"], g.Name)
		if !ok {
			if !derived(g.Name) {
				t.Errorf("summary: stat --json has no %q", g.Name)
			}
			continue
		}
		if !same(g.V, want) {
			t.Errorf("summary: %s is %q (%s), stat --json says %v", g.Name, g.V, g.Text, want)
		}
		compared++
	}
	if compared < 12 {
		t.Errorf("only %d figures of the summary were compared", compared)
	}
	ops, steps := exported(t, file, "ops"), exported(t, file, "steps")
	for name, rows := range f.Tables {
		by, rest, _ := strings.Cut(name, " ")
		phase, model, _ := strings.Cut(rest, " ")
		if by == "step" {
			compareSteps(t, phase, steps, ops, rows)
			continue
		}
		var want []any
		var disturbed map[string]any
		for _, p := range list(stats[by]["phases"]) {
			o := object(p)
			m := "none"
			if x, ok := o["model"].(float64); ok {
				m = fmt.Sprint(int(x))
			}
			if o["phase"] == phase && m == model {
				want = list(o["rows"])
				disturbed, _ = o["disturbed"].(map[string]any)
			}
		}
		if len(rows) != len(want) || len(want) == 0 {
			t.Errorf("%s: %d rows, stat --json has %d", name, len(rows), len(want))
		}
		known := map[string]map[string]any{}
		for _, w := range want {
			o := object(w)
			key, _ := o["key"].(string)
			typ, _ := o["type"].(string)
			known[key] = o
			known[key+" "+typ] = o
		}
		cells := 0
		for _, r := range rows {
			w := known[r.ID]
			if w == nil {
				t.Errorf("%s: stat --json has no row %q", name, r.ID)
				continue
			}
			for col, v := range r.Cells {
				want, ok := w[col]
				if !ok { // the row's verdict has figures of its own
					want, ok = object(w["bound"])[col]
				}
				if !ok || !same(v, want) {
					t.Errorf("%s: %s of %q is %q, stat --json says %v", name, col, r.ID, v, want)
				}
				cells++
			}
		}
		if cells < 4*len(rows) {
			t.Errorf("%s: only %d cells of %d rows were compared", name, cells, len(rows))
		}
		if by == "op" || by == "block" || by == "layer" {
			sums(t, name, by, phase, ops, undisturbed(disturbed, steps), byID(rows))
		}
	}
}

// derived names figures of the summary that are computed from stat --json's: they are tested in package
// profile.
func derived(name string) bool {
	return strings.Contains(name, ".evidence.") || strings.Contains(name, ".causes.") ||
		strings.HasPrefix(name, "finding")
}

func byID(rows []row) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, r := range rows {
		out[r.ID] = r.Cells
	}
	return out
}

// undisturbed are the steps that a phase's rows stand for: without disturbed ones, where those are left out.
func undisturbed(d map[string]any, steps []map[string]any) (out []map[string]any) {
	if leftOut, _ := d["left_out"].(bool); !leftOut {
		return steps
	}
	for _, s := range steps {
		n, in := s["step"].(float64), false
		for _, r := range list(d["ranges"]) {
			o := object(r)
			in = in || n >= o["first"].(float64) && n <= o["last"].(float64)
		}
		if !in {
			out = append(out, s)
		}
	}
	return out
}

// sums computes rows anew from the exported table of operators.
func sums(t *testing.T, name, by, phase string, ops, steps []map[string]any,
	rows map[string]map[string]string) {
	t.Helper()
	in := map[float64]bool{}
	for _, s := range steps {
		if s["phase"] == phase && s["incomplete"] == nil && s["untraced"] == nil {
			in[s["step"].(float64)] = true
		}
	}
	type sum struct{ calls, dur, bytes, bytesDur float64 }
	all := map[string]*sum{}
	for _, o := range ops {
		if step, ok := o["step"].(float64); !ok || !in[step] {
			continue
		}
		key := ""
		switch v := o[by].(type) {
		case string:
			key = v
		case float64:
			key = fmt.Sprint(v)
		default:
			key = "none"
		}
		s := all[key]
		if s == nil {
			s = &sum{}
			all[key] = s
		}
		dur := o["dur_ns"].(float64) - o["probe_ns"].(float64)
		s.calls++
		s.dur += dur
		if b, ok := o["bytes"].(float64); ok {
			s.bytes += b
			s.bytesDur += dur
		}
	}
	if len(all) != len(rows) {
		t.Errorf("%s: %d rows, the operators give %d", name, len(rows), len(all))
	}
	n := float64(len(in))
	for key, s := range all {
		r := rows[key]
		if r == nil {
			t.Errorf("%s: no row %q", name, key)
			continue
		}
		for col, want := range map[string]float64{"calls_per_step": s.calls / n, "dur_per_step_ns": s.dur / n,
			"mean_ns": s.dur / s.calls, "gb_per_s": s.bytes / s.bytesDur} {
			if v, ok := r[col]; ok && v != "" && !near(v, want) {
				t.Errorf("%s: %s of %q is %s, its operators give %v", name, col, key, v, want)
			} else if !ok && col != "gb_per_s" {
				t.Errorf("%s: no column %s", name, col)
			}
		}
	}
}

// compareSteps compares the table of steps with the exported one.
func compareSteps(t *testing.T, phase string, steps, ops []map[string]any, rows []row) {
	t.Helper()
	type sum struct{ calls, dur float64 }
	of := map[string]*sum{}
	for _, o := range ops {
		k := fmt.Sprint(o["step"])
		if of[k] == nil {
			of[k] = &sum{}
		}
		of[k].calls++
		of[k].dur += o["dur_ns"].(float64) - o["probe_ns"].(float64)
	}
	want := map[string]map[string]any{}
	for _, s := range steps {
		if s["phase"] == phase {
			want[fmt.Sprint(s["step"])] = s
		}
	}
	if len(rows) != len(want) || len(rows) == 0 {
		t.Errorf("steps of %s: %d rows, the table has %d", phase, len(rows), len(want))
	}
	for _, r := range rows {
		w := want[r.ID]
		if w == nil {
			t.Errorf("steps: the table has no step %s", r.ID)
			continue
		}
		for col, of := range map[string]string{"key": "step", "dur_ns": "dur_ns", "tokens": "n_tokens"} {
			if v, ok := r.Cells[col]; !ok || !same(v, w[of]) {
				t.Errorf("step %s: %s is %q, the table says %v", r.ID, col, v, w[of])
			}
		}
		o := of[r.ID]
		if w["untraced"] != nil || w["incomplete"] != nil || o == nil {
			continue
		}
		if v := r.Cells["calls"]; !near(v, o.calls) {
			t.Errorf("step %s: %s operators, the table has %v", r.ID, v, o.calls)
		}
		parts := 0.0
		for _, col := range []string{"matmul_ns", "attn_ns", "other_ns"} {
			v, err := strconv.ParseFloat(r.Cells[col], 64)
			if err != nil {
				t.Errorf("step %s: %s is %q", r.ID, col, r.Cells[col])
			}
			parts += v
		}
		if math.Abs(parts-o.dur) > 1 {
			t.Errorf("step %s: matmul, attention and other are %v ns, its operators %v", r.ID, parts, o.dur)
		}
	}
}

var groupings = []string{"weight", "op", "layer", "block", "thread"}

// tablesOf are the tables that a page of a recording has.
type tableOf struct {
	Phase string `json:"phase"`
	Model *int   `json:"model"`
	By    string `json:"by"`
}

func tablesOf(t *testing.T, file string) (out []tableOf) {
	t.Helper()
	for _, p := range list(statJSON(t, file, "weight")["phases"]) {
		o := object(p)
		var model *int
		if m, ok := o["model"].(float64); ok {
			n := int(m)
			model = &n
		}
		for _, by := range append([]string{"step"}, groupings...) {
			out = append(out, tableOf{o["phase"].(string), model, by})
		}
	}
	return out
}

// What the page shows is what stat --json and the exported tables say, to the last digit.
func TestFigures(t *testing.T) {
	tools(t)
	files := map[string]string{"plain": recorded(t, "plain"), "losses": recorded(t, "losses"),
		"names": recorded(t, "names")}
	if f := engineRun(t); f != "" {
		files["engine"] = f
	}
	var p plan
	for name, file := range files {
		p.Pages = append(p.Pages, page{Name: name, URL: write(t, name, load(t, name+".pinf", file)),
			Tables: tablesOf(t, file)})
	}
	for name, o := range suite(t, "figures", p) {
		if files[name] == "" {
			continue
		}
		t.Run(name+" compared", func(t *testing.T) {
			var f figures
			if err := json.Unmarshal(o.Data, &f); err != nil {
				t.Fatal(err)
			}
			compare(t, files[name], f)
		})
	}
}
