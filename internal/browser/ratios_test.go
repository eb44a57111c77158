// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/report"
)

// someCounts makes up counts of any counters: no two alike, in steps of the operator's time. Of ROPE the
// second is not known.
type someCounts struct {
	profile.Sink
	counters []trace.Counter
}

func (c someCounts) Op(o *profile.Op) error {
	o.Counts = make([]int64, len(c.counters))
	for i := range o.Threads {
		t := &o.Threads[i]
		t.Counts = make([]int64, len(c.counters))
		for k := range c.counters {
			t.Counts[k] = t.Busy*int64(13+k*k)/int64(7+k) + int64(k)
			if c.counters[k].Void != "" || o.Op == "ROPE" && k == 1 {
				t.Counts[k], o.Counts[k] = profile.UnknownCount, profile.UnknownCount
			} else {
				o.Counts[k] += t.Counts[k]
			}
		}
	}
	return c.Sink.Op(o)
}

func (c someCounts) play(s profile.Sink) (*profile.Header, error) {
	p := &profiletest.Player{Sink: someCounts{s, c.counters}}
	if err := p.Play(profiletest.Run{Model: profiletest.Small, PID: 100, Ctx: 1, Threads: 2, Prefill: 16,
		Decode: 5, Start: 1_000_000_000, Gap: 300, Sched: true}); err != nil {
		return nil, err
	}
	h := p.Header("op")
	h.Meta.Counters = c.counters
	return h, nil
}

// The page computes ratios of counters itself, as it does so of what the reader chooses: they are those of
// profile.Ratios, whatever was counted and in which way.
func TestCounterRatios(t *testing.T) {
	tools(t)
	user := func(role string) trace.Counter {
		return trace.Counter{Name: role, Role: role, PMU: "cpu", User: true}
	}
	all := func(role string) trace.Counter {
		return trace.Counter{Name: role + " all", Role: role, PMU: "cpu"}
	}
	slots := all("be-bound")
	slots.Slots = 6
	void := all("cycles")
	void.Void = "reads 0"
	local, remote, other := all("mem-fill"), all("mem-fill"), user("mem-fill")
	local.Name, remote.Name = "fills local", "fills remote"
	lists := map[string][]trace.Counter{
		"both-ways": {all("cycles"), all("instructions"), all("stall-backend"), user("stall-backend"),
			user("instructions"), user("cycles"), user("llc-miss")},
		"slots": {all("slots"), all("be-bound"), all("cycles"), all("instructions"), all("l2-miss"),
			all("l1-refill")},
		"cycle-slots": {all("cycles"), all("instructions"), slots, local, other, remote},
		"void-cycles": {void, all("instructions"), all("stall"), all("l3-refill")},
		"not-alike":   {all("cycles"), user("instructions"), all("stall-memory"), user("llc-miss")},
		"no-slots": {all("cycles"), all("be-bound"), all("instructions"), all("l2-refill"),
			all("l3-miss")},
	}
	var p plan
	stats := map[string]*summary.Stat{}
	for name, counters := range lists {
		c := someCounts{counters: counters}
		s := stat.New(stat.Options{})
		h, err := c.play(s)
		if err != nil {
			t.Fatal(err)
		}
		stats[name] = s.Finish(h)
		run, err := report.Load(name+".pinf", c.play)
		if err != nil {
			t.Fatal(err)
		}
		p.Pages = append(p.Pages, page{Name: name, URL: write(t, name, run)})
	}
	for name, o := range suite(t, "ratios", p) {
		s := stats[name]
		if s == nil {
			continue
		}
		var f map[string][]row
		if err := json.Unmarshal(o.Data, &f); err != nil {
			t.Fatal(err)
		}
		role := func(counter string) string { // a metric's id is its counter's role
			for _, c := range s.Counters {
				if c.Name == counter {
					return c.Role
				}
			}
			return ""
		}
		known := [3]int{}
		for i := range s.Phases {
			ps := &s.Phases[i]
			rows := byID(f[ps.Phase])
			for j := range ps.Rows {
				r := &ps.Rows[j]
				c, w := rows[r.Key], s.Ratios(r.Counts)
				if c == nil {
					c = rows[r.Key+" "+r.Type]
				}
				if c == nil {
					t.Fatalf("%s: %s has no row %s: %v", name, ps.Phase, r.Key, rows)
				}
				for k, x := range []struct {
					id   string
					want *float64
				}{{"ipc", w.IPC}, {role(w.StallOf), w.StallShare}, {role(w.MissesOf), w.Misses}} {
					if x.want == nil {
						if k == 0 && c["ipc"] != "" {
							t.Errorf("%s: IPC of %s is %s in the page, and not known", name, r.Key, c["ipc"])
						}
						continue
					}
					known[k]++
					if !near(c[x.id], *x.want) {
						t.Errorf("%s: %s of %s is %q in the page, %v in the statistics", name, x.id, r.Key,
							c[x.id], *x.want)
					}
				}
			}
		}
		want := map[string]string{"both-ways": "all all all", "slots": "all all all",
			"cycle-slots": "all all all", "void-cycles": "none none all", "not-alike": "none all all",
			"no-slots": "all none all"}[name]
		say := func(n int) string {
			if n == 0 {
				return "none"
			}
			return "all"
		}
		if got := fmt.Sprint(say(known[0]), " ", say(known[1]), " ", say(known[2])); got != want {
			t.Errorf("%s: IPC, stalls, misses are known of %s, not %s", name, got, want)
		}
	}
}
