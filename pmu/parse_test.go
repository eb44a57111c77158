// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// show writes a spec down again, for comparing.
func show(s Spec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s=", s.Text)
	switch {
	case s.Raw != nil:
		fmt.Fprintf(&b, "raw %#x", *s.Raw)
	case s.Terms != nil:
		fmt.Fprintf(&b, "%s %v", s.PMU, s.Terms)
	case s.PMU != "":
		fmt.Fprintf(&b, "%s %s", s.PMU, s.Name)
	default:
		b.WriteString(s.Name)
	}
	if s.User {
		b.WriteString(" user")
	}
	if s.Kernel {
		b.WriteString(" kernel")
	}
	if s.Group > 0 {
		fmt.Fprintf(&b, " group %d", s.Group)
	}
	return b.String()
}

func TestParseEvents(t *testing.T) {
	for in, want := range map[string]string{
		"cycles":                             "cycles=cycles",
		" cycles , instructions:u":           "cycles=cycles|instructions:u=instructions user",
		"r003c":                              "r003c=raw 0x3c",
		"r00C0:k":                            "r00C0:k=raw 0xc0 kernel",
		"ref-cycles":                         "ref-cycles=ref-cycles",
		"remote_access":                      "remote_access=remote_access",
		"cpu/event=0x3c,umask=0x1/":          "cpu/event=0x3c,umask=0x1/=cpu [{event 60} {umask 1}]",
		"cpu/event=0xa3,inv,cmask=4/u,L1-x":  "cpu/event=0xa3,inv,cmask=4/u=cpu [{event 163} {inv 1} {cmask 4}] user|L1-x=L1-x",
		"cpu/config=0x1c2/:k":                "cpu/config=0x1c2/:k=cpu [{config 450}] kernel",
		"armv8_cortex_a76/mem_access/":       "armv8_cortex_a76/mem_access/=armv8_cortex_a76 mem_access",
		"mem_load_retired.l3_miss:uk":        "mem_load_retired.l3_miss:uk=mem_load_retired.l3_miss user kernel",
		"{cycles,instructions},{a,b}:u,c":    "cycles=cycles group 1|instructions=instructions group 1|a:u=a user group 2|b:u=b user group 2|c=c",
		"{a:u,b,cpu/x/u}:k":                  "a:uk=a user kernel group 1|b:k=b kernel group 1|cpu/x/uk=cpu x user kernel group 1",
		"{ cycles , cpu/event=1,umask=2/ } ": "cycles=cycles group 1|cpu/event=1,umask=2/=cpu [{event 1} {umask 2}] group 1",
	} {
		got, err := ParseEvents(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		var s []string
		for _, e := range got {
			s = append(s, show(e))
		}
		if g := strings.Join(s, "|"); g != want {
			t.Errorf("%q:\n got %s\nwant %s", in, g, want)
		}
	}
}

// Errors are for a person: they say what is wrong, and where.
func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "a name is missing",
		"cycles,":                      "a name is missing",
		",cycles":                      `no name begins with ",cycles"`,
		"cycles instr":                 `a comma is missing before "instr"`,
		"cycles:":                      "lacks a modifier",
		"cycles:ppp":                   "u (counts in user mode only)",
		"{cycles":                      "lacks its }",
		"{cycles,instr":                "lacks its }",
		"{cycles}:":                    "modifier is missing",
		"{cycles}:x":                   "a group:x: there are u",
		"{{cycles}}":                   "no name begins",
		"cycles}":                      "a comma is missing",
		"cpu/event=0x3c":               "lacks the / at its end",
		"cpu//":                        "describes no event",
		"cpu/event=0xzz/":              `"0xzz" is no number`,
		"cpu/=3/":                      "is no description",
		"cyc\x1b[31mles":               `before "\x1b[31mles"`,
		"cycles:u:k":                   "a comma is missing",
		"a,b,c;rm":                     "a comma is missing",
		strings.Repeat("a,", 70) + "a": "more than 64",
		strings.Repeat("x", 9000):      "longer than 8192",
	} {
		got, err := ParseEvents(in)
		if err == nil {
			t.Errorf("%q is read as %v", in, got)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, want %q in it", clip(in), err, want)
		}
	}
}

func TestQuestions(t *testing.T) {
	for _, q := range Questions() {
		if got, err := ParseQuestion(" " + strings.ToUpper(string(q))); err != nil || got != q {
			t.Errorf("%s: %v, %v", q, got, err)
		}
	}
	if _, err := ParseQuestion("everything"); err == nil ||
		!strings.Contains(err.Error(), "auto, memory, stall") {
		t.Errorf("an unknown question: %v", err)
	}
	if _, err := ParseQuestion(""); err == nil {
		t.Error("an empty question")
	}
}

func TestColumn(t *testing.T) {
	for in, want := range map[string]string{
		"cycles": "cycles", "L1-dcache-load-misses": "l1_dcache_load_misses", "cycles:u": "cycles_u",
		"cpu/event=0x3c,umask=1/":  "cpu_event_0x3c_umask_1",
		"mem_load_retired.l3_miss": "mem_load_retired_l3_miss",
	} {
		if got := Column(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzParseEvents(f *testing.F) {
	for _, s := range []string{"cycles,instructions:u", "{cycles,r003c}:k,cpu/event=0x3c,umask=0x1/u",
		"armv8_cortex_a76/mem_access/", "L1-dcache-load-misses", "{a", "x/=/", "cpu/event=0xffffffffffffffff/"} {
		f.Add(s)
	}
	var all []*Machine
	for _, n := range machines(f) {
		all = append(all, machine(f, n))
	}
	f.Fuzz(func(t *testing.T, s string) {
		specs, err := ParseEvents(s)
		if err != nil {
			return
		}
		if len(specs) == 0 || len(specs) > maxSpecs {
			t.Fatalf("%d events", len(specs))
		}
		for _, e := range specs {
			kinds := 0
			for _, b := range []bool{e.Raw != nil, e.Terms != nil, e.Name != ""} {
				if b {
					kinds++
				}
			}
			if kinds != 1 || e.Text == "" {
				t.Fatalf("%+v", e)
			}
			// an event's own text reads as that event
			again, err := ParseEvents(e.Text)
			if err != nil || len(again) != 1 || again[0].Text != e.Text || again[0].User != e.User ||
				again[0].Kernel != e.Kernel {
				t.Fatalf("%q reads as %+v (%v)", e.Text, again, err)
			}
		}
		for _, m := range all {
			p, err := NewPlan(m, Request{Events: s})
			if err != nil {
				t.Fatal(err)
			}
			// each event is found, or it is said why not
			for _, e := range specs {
				ok := false
				for _, c := range p.Counters {
					ok = ok || c.Name == e.Text && len(c.Events) > 0
				}
				for _, x := range p.Missing {
					ok = ok || strings.Contains(x.Event, e.Text) && x.Why != ""
				}
				if !ok {
					t.Fatalf("nothing is said of %q: %v %v", e.Text, names(p), p.Missing)
				}
			}
			columns := map[string]bool{}
			for _, c := range p.Counters {
				if columns[c.Column] || c.Column == "" {
					t.Fatalf("column %q twice", c.Column)
				}
				columns[c.Column] = true
			}
		}
	})
}

func FuzzMachine(f *testing.F) {
	f.Add("processor\t: 0\nvendor_id\t: GenuineIntel\n", "0-3,8", "config:0-7,32-35", "event=0x11,umask=3")
	f.Add("processor: 7\nCPU part\t: 0xd0c\nCPU implementer: 0x41\n", "7", "config1:3", "inv")
	f.Fuzz(func(t *testing.T, info, cpus, field, event string) {
		tr := tree(t, "rk3588")
		tr["proc/cpuinfo"] = &fstest.MapFile{Data: []byte(info)}
		tr["sys/devices/system/cpu/online"].Data = []byte(cpus)
		tr[sources+"/armv8_cortex_a55/cpus"].Data = []byte(cpus)
		tr[sources+"/armv8_cortex_a55/format/event"].Data = []byte(field)
		tr[sources+"/armv8_cortex_a55/events/mem_access"].Data = []byte(event)
		m, err := ReadMachineFS(tr)
		if err != nil {
			return
		}
		for _, q := range Questions() {
			if _, err := NewPlan(m, Request{Question: q}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
