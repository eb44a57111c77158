// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// With two runs, search and slowest steps go by the one that is looked at.
func TestTimeOfTwoRuns(t *testing.T) {
	tools(t)
	files := [2]string{recorded(t, "plain"), recorded(t, "one-thread")}
	url := write(t, "two", load(t, "a.pinf", files[0]), load(t, "b.pinf", files[1]))
	o := suite(t, "panes", plan{Pages: []page{{Name: "two", URL: url}}})["two"]
	var f struct {
		First, Second, Next, Found, Follows, Back string
		Op                                        struct{ Sel, Selb string }
	}
	if err := json.Unmarshal(o.Data, &f); err != nil {
		t.Fatal(err)
	}
	slowest := func(file string) (out []string) {
		var all []map[string]any
		for _, s := range exported(t, file, "steps") {
			if s["phase"] == "decode" {
				all = append(all, s)
			}
		}
		slices.SortStableFunc(all, func(a, b map[string]any) int {
			return cmp.Compare(b["dur_ns"].(float64), a["dur_ns"].(float64))
		})
		for _, s := range all {
			out = append(out, fmt.Sprint(s["step"]))
		}
		return out
	}
	a, b := slowest(files[0]), slowest(files[1])
	if f.First != a[0] || f.Second != b[0] || f.Next != b[1] {
		t.Errorf("the slowest are %s, then %s and %s of the second run, want %s, %s and %s", f.First,
			f.Second, f.Next, a[0], b[0], b[1])
	}
	calls, found := 0, false
	for _, o := range exported(t, files[1], "ops") {
		if w, _ := o["weight"].(string); strings.Contains(w, "ffn_down") {
			calls++
			found = found || fmt.Sprint(o["op_id"]) == f.Op.Selb
		}
	}
	if f.Found != fmt.Sprint(calls, " times") || f.Op.Sel != "" || !found {
		t.Errorf("%q of %d calls, selected %+v", f.Found, calls, f.Op)
	}
	if f.Follows != "0" || f.Back != "1" {
		t.Errorf("the run follows the selection to %s and %s", f.Follows, f.Back)
	}
}
