// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
)

type namedFigure struct{ Name, V, Text string }

// requestFigures are what the page shows of requests and slow steps, and where clicks led.
type requestFigures struct {
	Requests, Slow struct {
		Named  []namedFigure    `json:"named"`
		Tables map[string][]row `json:"tables"`
		Text   string           `json:"text"`
	}
	Lanes   []float64          `json:"lanes"`
	Plots   map[string]float64 `json:"plots"`
	Enter   map[string]string  `json:"enter"`
	Clicked map[string]string  `json:"clicked"`
	Read    string             `json:"read"`
	Picked  map[string]string  `json:"picked"`
	Bars    []struct {
		Step, Excess, Less string
		Parts              []struct{ Cause, V string }
		Reach, End         float64
		LessFrom           *float64
	} `json:"bars"`
}

// Requests, speculation, slow steps and interference in the page are those of stat --json and stat --slow
// --json.
func TestRequestsAndSlowSteps(t *testing.T) {
	tools(t)
	var p plan
	files := map[string]string{}
	for _, name := range []string{"plain", "empty", "level-step", "names", "speculative", "requests-many",
		"one-thread"} {
		files[name] = recorded(t, name)
	}
	if f := engineRun(t); f != "" {
		files["engine"] = f
	}
	for name, file := range files {
		p.Pages = append(p.Pages, page{Name: name, URL: write(t, name, load(t, name+".pinf", file))})
	}
	for name, o := range suite(t, "requests", p) {
		if files[name] == "" {
			continue
		}
		t.Run(name+" compared", func(t *testing.T) {
			var f requestFigures
			if err := json.Unmarshal(o.Data, &f); err != nil {
				t.Fatal(err)
			}
			stat := statJSON(t, files[name], "weight")
			compareRequests(t, name, &f, object(stat["sequences"]), stat)
			compareSlow(t, name, &f, slowJSON(t, files[name]))
		})
	}
}

// slowJSON is what profinfer stat --slow --json says of a recording.
func slowJSON(t *testing.T, file string) map[string]any {
	t.Helper()
	out, err := exec.Command(profinfer(t), "stat", "-i", file, "--slow", "--json", "--top", "200").Output()
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func compareRequests(t *testing.T, name string, f *requestFigures, q, stat map[string]any) {
	t.Helper()
	var want []map[string]any
	for _, r := range list(q["requests"]) {
		if o := object(r); o["warmup"] != true {
			want = append(want, o)
		}
	}
	rows := f.Requests.Tables["requests"]
	if len(rows) != len(want) {
		t.Fatalf("%d requests in the table, stat --json has %d", len(rows), len(want))
	}
	if len(want) == 0 {
		if !strings.Contains(f.Requests.Text, "No request was seen") &&
			!strings.Contains(f.Requests.Text, "No step was seen") || len(f.Lanes) > 0 {
			t.Errorf("nothing was seen, and the page says %q", f.Requests.Text)
		}
		return
	}
	first := want[0]["start_ns"].(float64)
	for i, r := range rows {
		w := want[i]
		cells := 0
		for col, v := range r.Cells {
			switch col {
			case "begin":
				if !near(v, w["start_ns"].(float64)-first) {
					t.Errorf("request %s begins %s after the first, stat --json says %v", r.ID, v,
						w["start_ns"].(float64)-first)
				}
			default:
				if x, ok := w[col]; !ok || !same(v, x) {
					t.Errorf("request %s: %s is %q, stat --json says %v", r.ID, col, v, x)
				}
			}
			cells++
		}
		if cells < 8 || r.ID != fmt.Sprint(w["id"]) {
			t.Fatalf("row %d is request %s with %d figures, stat --json has %v", i, r.ID, cells, w["id"])
		}
	}
	for _, r := range f.Requests.Tables["requests summed up"] {
		w := object(q[r.ID])
		for col, v := range r.Cells {
			if !same(v, w[col]) {
				t.Errorf("%s of %s is %q, stat --json says %v", col, r.ID, v, w[col])
			}
		}
		if len(r.Cells) != 6 {
			t.Errorf("%s: %v", r.ID, r.Cells)
		}
	}
	speculates := list(q["speculation"])
	compared := 0
	for _, g := range f.Requests.Named {
		want, ok := at(stat, g.Name)
		if !ok || !same(g.V, want) {
			t.Errorf("%s is %q (%s), stat --json says %v", g.Name, g.V, g.Text, want)
		}
		if strings.Contains(g.Name, "speculation") {
			compared++
		}
	}
	if compared != 6*len(speculates) {
		t.Errorf("%d figures of %d contexts that speculate", compared, len(speculates))
	}
	if (f.Plots["acceptance"] > 0) != (len(speculates) > 0) ||
		(len(speculates) == 0) != strings.Contains(f.Requests.Text, "no batch verified drafted tokens") &&
			name != "requests-many" {
		t.Errorf("plots %v of %d contexts that speculate", f.Plots, len(speculates))
	}
	switch name {
	case "speculative":
		if fmt.Sprint(f.Lanes) != "[0 1 1.073741831e+09]" ||
			f.Plots["acceptance"] != 2*profiletest.SpeculativeRounds ||
			f.Plots["token-gap"] != object(q["itl"])["n"] {
			t.Errorf("lanes %v, plots %v", f.Lanes, f.Plots)
		}
		// The first step that verifies: none of the first slot's tokens was accepted, none of the second's.
		// ProfTime puts what it shows in place of a step
		if s := object(speculates[0]); !strings.Contains(f.Read, "0 of 6 accepted") ||
			f.Picked["at"]+f.Picked["step"] != "8" || s["draft_ns"] == nil {
			t.Errorf("%q leads to %v", f.Read, f.Picked)
		}
		// Enter at the first request: its prompt, after two warm-ups; ProfTime counts from the recording's
		// begin.
		begin := list(q["requests"])[0].(map[string]any)["start_ns"].(float64)
		t0, _ := strconv.ParseFloat(f.Enter["t0"], 64)
		t1, _ := strconv.ParseFloat(f.Enter["t1"], 64)
		if w := want[0]["start_ns"].(float64) - begin; t0 > w || t1 < w || t1-t0 > 1e6 {
			t.Errorf("Enter led to %v, the first request is %v ns after the first warm-up", f.Enter, w)
		}
		// A click: the answer of the last slot's second request.
		last := want[len(want)-1]
		end := last["end_ns"].(float64) - begin
		c0, _ := strconv.ParseFloat(f.Clicked["t0"], 64)
		c1, _ := strconv.ParseFloat(f.Clicked["t1"], 64)
		mid := (last["start_ns"].(float64)+last["ttft_ns"].(float64)-begin+end)/2 + 1
		if c0 > mid || c1 < mid || c1-c0 > 12.8*last["tpot_ns"].(float64) {
			t.Errorf("the click led to %v, the middle of the answer is at %v", f.Clicked, mid)
		}
	case "requests-many":
		if len(rows) != profiletest.ManyRequests/2 || len(f.Lanes) != 40 ||
			!strings.Contains(f.Requests.Text, "one in 2 is listed") {
			t.Errorf("%d rows, %d lanes, %q", len(rows), len(f.Lanes), f.Requests.Text)
		}
	}
}

func compareSlow(t *testing.T, name string, f *requestFigures, s map[string]any) {
	t.Helper()
	for _, g := range f.Slow.Named {
		kind, cause, _ := strings.Cut(g.Name, ".")
		want, ok := at(s, g.Name)
		if kind == "cause" {
			for _, c := range list(s["causes"]) {
				if o := object(c); o["cause"] == cause {
					want, ok = o["ns"], true
				}
			}
		}
		if !ok || !same(g.V, want) {
			t.Errorf("%s is %q (%s), stat --slow --json says %v", g.Name, g.V, g.Text, want)
		}
	}
	table := func(label string, want []any, id func(map[string]any) string) {
		rows := f.Slow.Tables[label]
		if len(rows) != len(want) {
			t.Errorf("%s: %d rows, stat --slow --json has %d", label, len(rows), len(want))
			return
		}
		known := map[string]map[string]any{}
		for _, w := range want {
			known[id(object(w))] = object(w)
		}
		for _, r := range rows {
			w, n := known[r.ID], 0
			for col, v := range r.Cells {
				if x, ok := w[col]; ok && list(x) == nil { // who paid has several figures in a cell
					n++
					if !same(v, x) {
						t.Errorf("%s: %s of %q is %q, stat --slow --json says %v", label, col, r.ID, v, x)
					}
				}
			}
			if n < 2 {
				t.Errorf("%s: of %q only %d figures were compared", label, r.ID, n)
			}
		}
	}
	number := func(key string) func(map[string]any) string {
		return func(o map[string]any) string { return fmt.Sprint(o[key]) }
	}
	in := object(s["contention"])
	if s["slow_steps"] != 0.0 {
		table("causes of slow steps", list(s["causes"]), number("cause"))
	}
	table("slow steps", list(s["listed"]), number("step"))
	table("CPU contention by process", list(in["by"]), func(o map[string]any) string {
		if o["own"] == true {
			return fmt.Sprint("own ", o["comm"])
		}
		return fmt.Sprint("other ", o["comm"])
	})
	table("migrations", list(in["threads"]), number("tid"))
	told := list(in["cpus"])
	if len(f.Slow.Tables["CPUs"]) == 0 {
		told = nil
		for _, c := range list(in["cpus"]) {
			if o := object(c); o["steal_ns"] != nil || o["max_khz"] != nil {
				t.Errorf("the page has no CPUs, stat --slow --json has %v", o)
			}
		}
	}
	table("CPUs", told, number("cpu"))
	if name == "speculative" && (len(told) != 2 || object(told[0])["steal_ns"] != 1.5e6 ||
		object(told[0])["min_khz"] != 1.2e6 || object(told[0])["max_khz"] != 2.1e6 ||
		object(told[1])["steal_ns"] != nil) {
		t.Errorf("CPUs %v", told)
	}

	// Bars: their parts are those of the step, and where they end, what was less taken off, is the excess.
	listed := map[string]map[string]any{}
	for _, x := range list(s["listed"]) {
		listed[fmt.Sprint(object(x)["step"])] = object(x)
	}
	if len(f.Bars) != len(listed) {
		t.Errorf("%d bars of %d slow steps", len(f.Bars), len(listed))
	}
	for _, b := range f.Bars {
		x := listed[b.Step]
		var more, less float64
		parts := map[string]any{}
		for _, v := range list(x["parts"]) {
			o := object(v)
			ns := o["ns"].(float64)
			more += max(0, ns)
			less += max(0, -ns)
			if ns > 0 {
				parts[o["cause"].(string)] = ns
			}
		}
		sum := 0.0
		for _, v := range b.Parts {
			if !same(v.V, parts[v.Cause]) {
				t.Errorf("step %s: %s is %s, stat --slow --json says %v", b.Step, v.Cause, v.V,
					parts[v.Cause])
			}
			ns, _ := strconv.ParseFloat(v.V, 64)
			sum += ns
		}
		if b.Less != "" {
			ns, _ := strconv.ParseFloat(b.Less, 64)
			sum += ns // less than 0
		}
		if len(b.Parts) != len(parts) || sum != x["excess_ns"] || !same(b.Excess, x["excess_ns"]) ||
			more-less != x["excess_ns"] {
			t.Errorf("step %s: parts %v less %q add up to %v, stat --slow --json has %v and an excess of %v",
				b.Step, b.Parts, b.Less, sum, x["parts"], x["excess_ns"])
		}
		// As drawn: the parts reach so far, the mark stands where the excess ends. Half a pixel is left open.
		if w := x["excess_ns"].(float64) / more; more > 0 &&
			(math.Abs(b.End/b.Reach-w) > 0.02+0.5/(220*b.Reach) || b.LessFrom != nil &&
				math.Abs(*b.LessFrom-b.End) > 0.01) {
			t.Errorf("step %s: drawn to %v with the mark at %v, that is %v of it; want %v", b.Step, b.Reach,
				b.End, b.End/b.Reach, w)
		}
	}
}
