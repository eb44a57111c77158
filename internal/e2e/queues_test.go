// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
)

var loggedTotal = regexp.MustCompile(`(?m)^Total time: ([0-9.]+) us\.$`)

// Device time of each graph against what the Vulkan backend's own logger sums up of the device's time stamps
// (GGML_VK_PERF_LOGGER): not below it, within the call, and in most graphs within 10 %.
func TestQueues(t *testing.T) {
	e := engines.Offload(t)
	t.Setenv("GGML_VK_PERF_LOGGER", "1")
	t.Setenv("GGML_VK_VISIBLE_DEVICES", "0")
	_, inside := engines.Model(t, e, "llama-tiny")
	path := recordLog(t, e.Command("llama-bench", "-m", inside, "-p", "0", "-n", "60", "-r", "1", "-t", "1",
		"--no-warmup", "-dev", "Vulkan0", "-ngl", "2")...)
	var logged []float64 // ns
	for _, m := range loggedTotal.FindAllStringSubmatch(path.log, -1) {
		us, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		logged = append(logged, us*1000)
	}
	spans := table(t, path.file, "device_spans")
	graphs := map[string]map[string]string{}
	for _, g := range table(t, path.file, "graphs") {
		graphs[g["graph"]] = g
	}
	if len(logged) < 20 || len(spans) < 20 || len(spans) > len(logged) {
		t.Fatalf("the backend logged %d graphs, %d spans were recorded:\n%s", len(logged), len(spans),
			tailOf(path.log, 20))
	}
	number := func(row map[string]string, column string) float64 {
		v, err := strconv.ParseFloat(row[column], 64)
		if err != nil {
			t.Fatalf("%s of %v: %v", column, row, err)
		}
		return v
	}
	logged = logged[len(logged)-len(spans):] // the first graphs ran before the backend was looked at
	near := 0
	var busy, call, all float64
	for i, s := range spans {
		b, dev := number(s, "busy_ns"), logged[i]
		took := number(graphs[s["graph"]], "dur_ns")
		if b < dev*0.98 || b > took {
			t.Errorf("graph %s: the device took %.0f ns, busy %.0f, the call %.0f", s["graph"], dev, b, took)
		}
		if b <= dev*1.1 {
			near++
		}
		busy, call, all = busy+b, call+took, all+dev
		if s["done_by"] != "vkWaitForFences" || number(s, "submissions") < 2 || s["shared"] != "false" ||
			number(s, "begin_ns") < number(s, "start_ns") {
			t.Errorf("%v", s)
		}
	}
	if near < len(spans)/2 {
		t.Errorf("only %d of %d graphs are within 10 %% of what the device took", near, len(spans))
	}
	subs := table(t, path.file, "submissions")
	of := map[string]int{}
	for _, s := range subs {
		of[s["graph"]]++
		if s["graph"] != "" && s["backend"] != "Vulkan" || s["queue"] != "1" || s["device"] != "1" ||
			s["call"] != "vkQueueSubmit" || s["call_ns"] == "" {
			t.Fatalf("%v", s)
		}
		if s["done_ns"] != "" && number(s, "done_ns") < number(s, "begin_ns") {
			t.Errorf("%v", s)
		}
	}
	for _, s := range spans {
		if of[s["graph"]] != int(number(s, "submissions")) {
			t.Errorf("graph %s has %d submissions, its span says %s", s["graph"], of[s["graph"]],
				s["submissions"])
		}
	}
	t.Logf("%d graphs: the device's own sums %.3g ms, busy %.3g ms (+%.1f %%), calls %.3g ms (+%.1f %%); %d within 10 %%",
		len(spans), all/1e6, busy/1e6, 100*(busy/all-1), call/1e6, 100*(call/all-1), near)
}
