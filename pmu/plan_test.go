// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Every question has an answer on every machine that counts: all its events are found there, but for those
// named here.
func TestQuestionsOnMachines(t *testing.T) {
	leaves := map[string]string{
		// hosts rarely pass on the register of Intel's top-down events
		"icelakex-guest": strings.Join(strings.Fields(topDown), ", "),
	}
	for _, name := range machines(t) {
		m := machine(t, name)
		for _, q := range Questions() {
			p := plan(t, m, Request{Question: q})
			for _, x := range p.Missing {
				if len(m.PMUs) > 0 && name != "qemu-n1" && x.Event != leaves[name] {
					t.Errorf("%s, %s: %v", name, q, x)
				}
			}
			switch {
			case q == Off:
				if len(p.Counters) > 0 {
					t.Errorf("%s: counts although it is off", name)
				}
				continue
			case q == Software, len(m.PMUs) == 0:
				if !slices.Equal(names(p), softwareSet) {
					t.Errorf("%s, %s: %v", name, q, names(p))
				}
				continue
			}
			// what a ratio needs is always there, on each kind of CPU
			for _, n := range []string{"cycles", "instructions"} {
				c := p.counter(t, n)
				for _, u := range m.PMUs {
					if !c.on(u) {
						t.Errorf("%s, %s: no %s on %s", name, q, n, u)
					}
				}
			}
			if len(p.Counters) < 3 && name != "qemu-n1" {
				t.Errorf("%s, %s: %v only", name, q, names(p))
			}
			for _, c := range p.Counters {
				if c.Role == "" {
					t.Errorf("%s, %s: nothing says what %s stands for", name, q, c.Name)
				}
			}
		}
	}
}

// What a unit lacks of a question is said in one sentence.
func TestLacking(t *testing.T) {
	p := plan(t, machine(t, "qemu-n1"), Request{Question: Auto})
	if len(p.Missing) != 1 || p.Missing[0].Event != "l2d_cache_refill, ll_cache_miss_rd, bus_access" ||
		!strings.Contains(p.Missing[0].Why, "an emulator's") {
		t.Errorf("%v", p.Missing)
	}
	if !slices.Equal(names(p), []string{"cycles", "instructions", "stall_backend", "stall_frontend"}) ||
		len(p.Refused()) != 0 {
		t.Errorf("%v, refused %v", names(p), p.Refused())
	}
}

func TestBigLittle(t *testing.T) {
	m := machine(t, "rk3588")
	p := plan(t, m, Request{Question: Auto})
	c := p.counter(t, "cycles")
	if len(c.Events) != 2 {
		t.Fatalf("cycles on %d kinds of CPU, want 2", len(c.Events))
	}
	for i, want := range []struct {
		cpu int
		typ uint32
	}{{0, 8}, {7, 9}} {
		e := c.On(m.CPUs[want.cpu])
		if e == nil || e.Type != want.typ || e.Config != 0x11 || e.Proof != BySysfs || e != c.Events[i] {
			t.Errorf("CPU %d: %+v", want.cpu, e)
		}
	}
	// what only one kind tells is no count on the other
	ld := p.counter(t, "stall_backend_ld")
	if ld.On(m.CPUs[0]) == nil || ld.On(m.CPUs[4]) != nil || ld.Events[0].Config != 0xe7 ||
		ld.Events[0].Proof != ByTable || ld.Role != StallMemory {
		t.Errorf("stall_backend_ld: %+v", ld)
	}
	// each kind has groups of its own
	if a, b := c.Events[0].Group, c.Events[1].Group; a == b || a == 0 || b == 0 {
		t.Errorf("groups %d and %d", a, b)
	}
	// a name of one kind's unit counts there alone
	p = plan(t, m, Request{Events: "armv8_cortex_a76/mem_access/,armv8_cortex_a55/event=0x13/"})
	if c := p.Counters[0]; len(c.Events) != 1 || c.On(m.CPUs[0]) != nil || c.On(m.CPUs[5]).Config != 0x13 ||
		c.Role != MemAccess {
		t.Errorf("%+v", c)
	}
	if c := p.Counters[1]; c.On(m.CPUs[0]) == nil || c.Events[0].Is != "mem_access" {
		t.Errorf("%+v", c)
	}
	// an event of the A55 alone, asked for by name: partly there, so not refused
	p = plan(t, m, Request{Events: "ld_retired"})
	if len(p.Missing) != 1 || p.Missing[0].On != "Cortex-A76" || len(p.Refused()) != 0 {
		t.Errorf("%v", p.Missing)
	}
}

func TestHybrid(t *testing.T) {
	m := machine(t, "alderlake")
	p := plan(t, m, Request{Events: "cycles,LLC-load-misses,r01c2,topdown-be-bound"})
	for _, want := range []struct {
		name string
		cpu  int
		typ  uint32
		conf uint64
	}{
		// the unit's type stands above bit 32 (PERF_PMU_TYPE_SHIFT)
		{"cycles", 0, unix.PERF_TYPE_HARDWARE, 4 << 32}, {"cycles", 23, unix.PERF_TYPE_HARDWARE, 10 << 32},
		{"LLC-load-misses", 0, unix.PERF_TYPE_HW_CACHE, 4<<32 | 0x10002}, {"LLC-load-misses", 16,
			unix.PERF_TYPE_HW_CACHE, 10<<32 | 0x10002},
		{"r01c2", 0, 4, 0x1c2}, {"r01c2", 16, 10, 0x1c2},
		{"topdown-be-bound", 0, 4, 0x8300}, {"topdown-be-bound", 16, 10, 0x74},
	} {
		e := p.counter(t, want.name).On(m.CPUs[want.cpu])
		if e == nil || e.Type != want.typ || e.Config != want.conf {
			t.Errorf("%s on CPU %d: %+v, want type %d, %#x", want.name, want.cpu, e, want.typ, want.conf)
		}
	}
	// one code that is an event of the P cores and none known of the E cores: no one meaning
	p = plan(t, m, Request{Events: "r20d1,cpu_core/event=0x2a,offcore_rsp=0x10003c0001/"})
	if c := p.Counters[0]; c.Events[0].Proof != ByTable || c.Events[1].Proof != Unproved || c.Role != "" {
		t.Errorf("r20d1: %+v %+v, %q", c.Events[0], c.Events[1], c.Role)
	}
	if a := p.Counters[1].Events[0].attr(true); a.Config != 0x2a || a.Ext1 != 0x10003c0001 || a.Ext2 != 0 {
		t.Errorf("%+v", a)
	}
	if e := plan(t, machine(t, "skylake"), Request{Events: "cycles"}).Counters[0].Events[0]; e.Config != 0 ||
		e.Type != unix.PERF_TYPE_HARDWARE {
		t.Errorf("with one kind of CPU: %+v", e)
	}
}

// The rule for codes that open on every CPU.
func TestArmRule(t *testing.T) {
	for _, c := range []struct {
		machine, event string
		proof          Proof  // where it is found
		says           string // else
	}{
		{"neoverse-n1", "r0017", BySysfs, ""},
		// l2d_cache_rd: beyond sysfs, in the kind's list
		{"neoverse-n1", "r0050", ByTable, ""},
		{"neoverse-n1", "l2d_cache_rd", ByTable, ""},                //
		{"neoverse-n1", "r003d", 0, "(stall_slot_backend)"},         // common, and not listed
		{"neoverse-n1", "r0072", 0, "a Neoverse-N1 does not have"},  // ldst_spec: the A76 has it
		{"rk3588", "armv8_cortex_a76/event=0x72/", ByTable, ""},     //
		{"neoverse-n1", "r00ff", 0, "by the kernel's list"},         //
		{"neoverse-n1", "r4005", 0, "lists what it has"},            // stall_backend_mem
		{"neoverse-v2", "r4005", BySysfs, ""},                       //
		{"neoverse-v2", "r8014", ByTable, ""},                       // fp_hp_spec
		{"neoverse-n1", "r10017", 0, "codes up to 0xffff"},          //
		{"a78ae", "r0050", Unproved, ""},                            // no list of its own
		{"a78ae", "r003c", BySysfs, ""},                             //
		{"qemu-n1", "r0017", 0, "lists what it has"},                //
		{"qemu-n1", "r0050", 0, "not those of a Neoverse-N1"},       // the list of the kind is not believed
		{"qemu-n1", "l2d_cache_rd", 0, "has no event l2d_cache_rd"}, //
		{"qemu-n1", "r0008", BySysfs, ""},                           //
		{"qemu-n1", "cache-misses", 0, "has no l1d_cache_refill"},   //
		{"qemu-n1", "branches", 0, "has no br_retired and no pc_write_retired"},
		{"qemu-n1", "l3d_cache_refill", 0, "has no event l3d_cache_refill"},
		{"qemu-n1", "ref-cycles", 0, "nothing that ref-cycles stands for"},
	} {
		p := plan(t, machine(t, c.machine), Request{Events: c.event})
		if c.says == "" {
			if len(p.Counters) != 1 || p.Counters[0].Events[0].Proof != c.proof {
				t.Errorf("%s: %s: %v, missing %v", c.machine, c.event, p.Counters, p.Missing)
			}
			if hasNote := strings.Contains(strings.Join(p.Notes, "\n"),
				"a total of 0 is taken for not known"); hasNote != (c.proof == Unproved) {
				t.Errorf("%s: %s: notes %q", c.machine, c.event, p.Notes)
			}
			continue
		}
		if r := p.Refused(); len(r) != 1 || !strings.Contains(r[0].Why, c.says) {
			t.Errorf("%s: %s: refused %v, counters %v, want %q", c.machine, c.event, r, names(p), c.says)
		}
	}
}

// A person who asks for what the CPU lacks is told what it has.
func TestSuggestions(t *testing.T) {
	for _, c := range []struct{ machine, event, want string }{
		{"qemu-n1", "stall_backend_mem", "it has stall_backend, stall_frontend"},
		{"sapphirerapids", "l3d_cache_refill", "it has cache-misses, cache-references"},
		{"sapphirerapids", "cycle_activity.stalls_mem_any", "it has cycle_activity.stalls_total"},
		{"neoverse-n1", "l3d_cache_refil", "it has l3d_cache"},
		{"neoverse-n1", "gibberish", "see /sys/bus/event_source/devices/armv8_pmuv3_0/events"},
		{"neoverse-n1", "arm_cmn_0/hnf_cache_miss/", "counts for a whole socket"},
		{"neoverse-n1", "cpu/event=1/", "the units are armv8_pmuv3_0"},
		{"zen3", "cpu/event=0x1000/", "more than the 12 bits"},
		{"zen3", "cpu/frontend=1/", "cpu knows no frontend: it knows cmask, edge, event, inv, umask"},
	} {
		r := plan(t, machine(t, c.machine), Request{Events: c.event}).Refused()
		if len(r) != 1 || !strings.Contains(r[0].Error(), c.want) {
			t.Errorf("%s: %s: %v, want %q", c.machine, c.event, r, c.want)
		}
	}
	if got := near("l3d_cache_refill",
		[]string{"l1i_cache_refill", "l2d_cache_refill"}); got[0] != "l2d_cache_refill" {
		t.Errorf("%v", got)
	}
	// the nearest comes first
	if got := near("l3d_cache_refill",
		[]string{"inst_retired", "l1i_cache", "l2d_cache_refill", "l1d_cache_refill_rd",
			"l2d_cache"}); got[0] != "l2d_cache_refill" {
		t.Errorf("%v", got)
	}
}

func TestNoCounters(t *testing.T) {
	m := machine(t, "vm-no-pmu")
	p := plan(t, m, Request{Question: Memory})
	if len(p.Missing) != 1 || !strings.Contains(p.Missing[0].Why, "virtual machine") ||
		p.Missing[0].Do == "" || len(p.Refused()) != 0 {
		t.Errorf("a question is answered by what the kernel counts, and that is said once: %v", p.Missing)
	}
	p = plan(t, m, Request{Events: "cycles,instructions:u,page-faults"})
	if r := p.Refused(); len(r) != 1 || r[0].Event != "cycles, instructions:u" {
		t.Errorf("what was asked for by name is refused, once: %v", r)
	}
	if !slices.Equal(names(p), []string{"page-faults"}) {
		t.Errorf("%v", names(p))
	}
	// both: refused, and the reason is not said again
	if p = plan(t, m, Request{Events: "cycles", Question: Auto}); len(p.Missing) != 1 ||
		len(p.Counters) != len(softwareSet) {
		t.Errorf("%v %v", p.Missing, names(p))
	}
	if p = plan(t, machine(t, "qemu-off"), Request{Question: Auto}); len(p.Missing) != 1 ||
		!strings.Contains(p.Missing[0].Why, "lists none") {
		t.Errorf("%v", p.Missing)
	}
	if _, err := NewPlan(m, Request{Question: Off, Events: "cycles"}); err == nil {
		t.Error("off and on")
	}
}

func TestModifiers(t *testing.T) {
	m := machine(t, "neoverse-n1")
	p := plan(t, m, Request{Events: "cycles:u,cycles:k,cycles:uk,cycles,page-faults:u"})
	for i, want := range []uint64{
		unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv, unix.PerfBitExcludeUser | unix.PerfBitExcludeHv, 0,
		0, unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	} {
		c := p.Counters[i]
		if got := c.Events[0].attr(false).Bits; got != want {
			t.Errorf("%s: bits %#x, want %#x", c.Name, got, want)
		}
	}
	p = plan(t, m, Request{Events: "cycles,cycles:k", OnlyUser: true})
	if a, b := p.Counters[0].Events[0], p.Counters[1].Events[0]; a.OnlyUser || b.OnlyUser || !b.OnlyKernel {
		t.Errorf("what is asked for by name is counted as it is written: %+v %+v", a, b)
	}
	// never inherited: such a count cannot be read from a probe
	if a := p.Counters[0].Events[0].attr(true); a.Bits&unix.PerfBitInherit != 0 ||
		a.Bits&unix.PerfBitDisabled == 0 ||
		a.Read_format != unix.PERF_FORMAT_TOTAL_TIME_ENABLED|unix.PERF_FORMAT_TOTAL_TIME_RUNNING {
		t.Errorf("%+v", a)
	}
}

// A question counts user space, whatever is asked for by name beside it; and that is counted as it is
// written.
func TestOnlyUser(t *testing.T) {
	const question = "cycles instructions stall_backend stall_frontend l2d_cache_refill ll_cache_miss_rd bus_access"
	for events, want := range map[string]string{
		"":                      question,
		"l1d_cache":             "l1d_cache+k " + question,
		"cycles":                "cycles+k cycles:u instructions stall_backend stall_frontend l2d_cache_refill ll_cache_miss_rd bus_access",
		"cycles:k":              "cycles:k+k " + question,
		"cycles:u,bus_access:u": "cycles:u bus_access:u instructions stall_backend stall_frontend l2d_cache_refill ll_cache_miss_rd",
		"cycles,cycles:u":       "cycles+k cycles:u instructions stall_backend stall_frontend l2d_cache_refill ll_cache_miss_rd bus_access",
		"cycles:uk":             "cycles:uk+k " + question,
	} {
		var got []string
		p := plan(t, machine(t, "neoverse-n1"),
			Request{Events: events, Question: Auto, Software: true, OnlyUser: true})
		for _, c := range p.Counters {
			if c.Software() {
				if c.Events[0].OnlyUser || c.Asked {
					t.Errorf("%s: %s %+v", events, c.Name, c.Events[0])
				}
				continue
			}
			name := c.Name
			if !c.Events[0].OnlyUser {
				name += "+k"
			}
			if asked := strings.Contains(","+events+",", ","+c.Name+","); c.Asked != asked {
				t.Errorf("%s: %s asked for: %v", events, c.Name, c.Asked)
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", events, got, want)
		}
	}
	p := plan(t, machine(t, "neoverse-n1"), Request{Events: "cycles:u", Question: Auto})
	if c := p.counter(t, "cycles"); c.onlyUser() || !p.counter(t, "cycles:u").onlyUser() {
		t.Errorf("without OnlyUser: %v", names(p))
	}
	// on each kind of CPU
	p = plan(t, machine(t, "rk3588"),
		Request{Events: "armv8_cortex_a76/cycles/,cycles", Question: Auto, OnlyUser: true})
	if c := p.counter(t, "cycles:u"); len(c.Events) != 2 || !c.onlyUser() {
		t.Errorf("%v, %v", names(p), c)
	}
}

func TestTwice(t *testing.T) {
	m := machine(t, "neoverse-n1")
	p := plan(t, m, Request{Events: "cycles,cycles,l1d_cache", Question: Cache})
	seen := map[string]bool{}
	for _, c := range p.Counters {
		if seen[c.Name] || len(c.Events) != 1 {
			t.Errorf("%s twice: %v", c.Name, names(p))
		}
		seen[c.Name] = true
	}
	// a person's group is not a question's
	p = plan(t, m, Request{Events: "{l1d_tlb,l1d_tlb_refill}", Question: Branch})
	if a, b := p.counter(t, "l1d_tlb").Events[0].Group, p.counter(t, "cycles").Events[0].Group; a == b ||
		a == 0 || b == 0 {
		t.Errorf("groups %d and %d", a, b)
	}
	p = plan(t, m, Request{Events: "l1d-cache,l1d_cache,L1D_CACHE"})
	var columns []string
	for _, c := range p.Counters {
		columns = append(columns, c.Column)
	}
	if !slices.Equal(columns, []string{"l1d_cache", "l1d_cache_2"}) {
		t.Errorf("columns %v of %v", columns, names(p))
	}
}

func TestWatchdogNote(t *testing.T) {
	for name, want := range map[string]bool{"skylake": true, "zen4": true, "icelakex-guest": false,
		"qemu-n1": false, "vm-no-pmu": false} {
		p := plan(t, machine(t, name), Request{Question: Auto})
		if got := strings.Contains(strings.Join(p.Notes, "\n"), "NMI watchdog"); got != want {
			t.Errorf("%s: notes %q", name, p.Notes)
		}
	}
}

func TestDoubtful(t *testing.T) {
	p := plan(t, machine(t, "a78ae"), Request{Events: "r0050,l2d_cache_refill,page-faults"})
	for i, want := range []string{"nothing says", "emulated", ""} {
		if got := p.Counters[i].Doubtful(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", p.Counters[i].Name, got, want)
		}
	}
}

// An event's code, given to -e, is that event again.
func TestCode(t *testing.T) {
	for name, list := range map[string]string{
		"rk3588":    "l3d_cache_refill:u,armv8_cortex_a55/stall_backend_ld/",
		"zen4":      "de_no_dispatch_per_slot.backend_stalls:k,cpu/config=1,config1=2,config2=3/",
		"alderlake": "mem_load_retired.l3_miss,topdown-be-bound",
	} {
		m := machine(t, name)
		for _, c := range plan(t, m, Request{Events: list}).Counters {
			for _, e := range c.Events {
				p := plan(t, m, Request{Events: e.Code()})
				if len(p.Counters) != 1 || len(p.Counters[0].Events) != 1 {
					t.Errorf("%s: %s: %v", c.Name, e.Code(), p.Missing)
					continue
				}
				if got := p.Counters[0].Events[0]; *got.attr(false) != *e.attr(false) || got.PMU != e.PMU {
					t.Errorf("%s: %s: %+v, want %+v", c.Name, e.Code(), got, e)
				}
			}
		}
	}
	if got := plan(t, machine(t, "zen4"),
		Request{Events: "cycles"}).Counters[0].Events[0].Code(); got != "type 0, config 0x0" {
		t.Error(got)
	}
}

// A CPU that no table knows is counted by what the kernel lists and maps.
func TestUnknownCPU(t *testing.T) {
	tr := tree(t, "neoverse-n1")
	for p, f := range tr {
		if strings.HasSuffix(p, "midr_el1") {
			f.Data = []byte("0x00000000410fdff0")
		}
	}
	m, err := ReadMachineFS(tr)
	if err != nil || m.PMUs[0].Kind != nil {
		t.Fatal(m.PMUs[0].Kind, err)
	}
	p := plan(t, m, Request{Question: Memory})
	if p.counter(t, "ll_cache_miss_rd").Role != LLCMiss || len(p.Missing) != 0 {
		t.Errorf("%v, missing %v", names(p), p.Missing)
	}
	tr = tree(t, "zen4")
	info := tr["proc/cpuinfo"]
	info.Data = []byte(strings.ReplaceAll(string(info.Data), "cpu family\t: 25", "cpu family\t: 99"))
	if m, err = ReadMachineFS(tr); err != nil || m.PMUs[0].Kind != nil {
		t.Fatal(m.PMUs[0].Kind, err)
	}
	if p = plan(t, m, Request{Question: Memory}); !slices.Equal(names(p),
		strings.Fields(genericGroups[Memory])) {
		t.Errorf("%v, missing %v", names(p), p.Missing)
	}
}

// Where it stands that a CPU has an event.
func TestSource(t *testing.T) {
	for _, c := range []struct{ machine, event, want string }{
		{"rk3588", "armv8_cortex_a55/mem_access/", "/sys/bus/event_source/devices/armv8_cortex_a55/events"},
		{"rk3588", "stall_backend_ld", "tools/perf/pmu-events/arch/arm64/arm/cortex-a55"},
		{"zen4", "ex_ret_ops", "tools/perf/pmu-events/arch/x86/amdzen4"},
		{"zen4", "cycles", "the kernel's map"},
		{"zen4", "r00ff", "nothing"},
		{"zen4", "major-faults", "the kernel"},
	} {
		if got := plan(t, machine(t, c.machine),
			Request{Events: c.event}).Counters[0].Events[0].Source(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.event, got, c.want)
		}
	}
}
