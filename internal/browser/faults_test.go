// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Page faults in the page: figures are those of stat --json, rows those of the exported tables; and the views
// stand hostile names, unknown durations, two runs and none.
func TestFaults(t *testing.T) {
	tools(t)
	files := map[string]string{"faults": recorded(t, "faults"), "faults-names": recorded(t, "faults-names")}
	one, names := load(t, "faults.pinf", files["faults"]), load(t, "<b>\u202e.pinf", files["faults-names"])
	without := load(t, "plain.pinf", recorded(t, "plain"))
	got := suite(t, "faults", plan{Pages: []page{
		{Name: "faults", URL: write(t, "faults", one), Looks: [][3]int{light, smdrk}},
		{Name: "faults-names", URL: write(t, "faults-names", names), Looks: [][3]int{small, dark}},
		{Name: "faults-two", URL: write(t, "faults-two", one, names), Looks: [][3]int{small, dark},
			Long: true},
		{Name: "faults-without", URL: write(t, "faults-without", one, without), Looks: [][3]int{smdrk},
			Long: true},
		{Name: "faults-none", URL: write(t, "faults-none", without), Looks: [][3]int{light, smdrk},
			Brief: true},
	}})
	for name, file := range files {
		t.Run(name+" compared", func(t *testing.T) { compareFaults(t, file, got[name+"/figures"].Data) })
	}
}

func compareFaults(t *testing.T, file string, data json.RawMessage) {
	t.Helper()
	var f struct {
		Figures []struct{ Name, V string } `json:"figures"`
		Tables  map[string][]row           `json:"tables"`
		Maps    map[string]int             `json:"maps"`
		Points  []int                      `json:"points"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	s := statJSON(t, file, "weight")
	compared := 0
	for _, g := range f.Figures {
		if strings.HasPrefix(g.Name, "further.") {
			continue // of names that stat --json leaves out
		}
		want, ok := at(s, g.Name)
		if !ok || !same(g.V, want) {
			t.Errorf("%s is %q, stat --json says %v (%t)", g.Name, g.V, want, ok)
		}
		compared++
	}
	if compared < 60 {
		t.Errorf("only %d figures were compared", compared)
	}
	// the file's tensors, by what lies where
	tensors := byID(f.Tables["tensors in the file"])
	n := 0
	for _, r := range exported(t, file, "residency") {
		offset, ok := r["offset"].(float64)
		if !ok {
			continue // a file that no tensor is known of
		}
		id := fmt.Sprint(int64(offset))
		n++
		for _, col := range []string{"bytes", "resident_start_bytes", "resident_end_bytes"} {
			if v, ok := tensors[id][col]; !ok || !same(v, r[col]) {
				t.Errorf("%v at %s: %s is %q, the table says %v", r["tensor"], id, col, v, r[col])
			}
		}
	}
	if n != len(tensors) || n < 20 {
		t.Errorf("%d tensors, the table has %d", len(tensors), n)
	}
	// operators: their faults, one by one
	type sum struct{ major, wait float64 }
	label := map[string]string{}
	dur := map[string]float64{}
	for _, o := range exported(t, file, "ops") {
		label[fmt.Sprint(o["op_id"])] = fmt.Sprint(o["weight"], o["name"])
		dur[fmt.Sprint(o["weight"])] += o["dur_ns"].(float64)
	}
	var all sum
	for _, r := range exported(t, file, "faults") {
		if r["op_id"] == nil || label[fmt.Sprint(r["op_id"])] == "" {
			continue
		}
		if r["major"] == true {
			all.major++
		}
		if d, ok := r["dur_ns"].(float64); ok {
			all.wait += d
		}
	}
	var shown sum
	timed := false
	for _, r := range f.Tables["operators that lost time to page faults"] {
		var v sum
		fmt.Sscan(r.Cells["major"], &v.major)
		if r.Cells["wait_ns"] != "" {
			timed = true
			fmt.Sscan(r.Cells["wait_ns"], &v.wait)
		}
		shown.major += v.major
		shown.wait += v.wait
	}
	if shown.major != all.major || all.major < 50 || timed && shown.wait != all.wait {
		t.Errorf("operators had %v, their faults are %v", shown, all)
	}
	if f.Maps["layers0"] < 3 || f.Maps["experts0"] != 2 || f.Maps["file0"] < 4 {
		t.Errorf("maps of %v rows", f.Maps)
	}
	// a point for each decode step
	if len(f.Points) == 0 || f.Points[0] != 24 {
		t.Errorf("plots of %v points", f.Points)
	}
}
