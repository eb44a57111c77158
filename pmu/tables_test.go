// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// source is what one of the kernel's files says: lines of words, by file.
type source map[string][][]string

const archs = "tools/perf/pmu-events/arch/"

// readSource reads testdata/sources.
func readSource(t testing.TB, name string) source {
	t.Helper()
	f, err := os.Open("testdata/sources/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := source{}
	file := ""
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w := strings.Fields(sc.Text())
		switch {
		case len(w) == 0 || w[0] == "#" || strings.HasPrefix(w[0], "#"):
		case w[0] == "file":
			if file = w[1]; len(w) != 3 || len(w[2]) != 64 {
				t.Fatalf("%s: %s lacks its digest", name, file)
			}
		default:
			out[file] = append(out[file], w)
		}
	}
	if len(out) < 5 {
		t.Fatalf("%s: %d files", name, len(out))
	}
	return out
}

// codes is name to code of lines NAME event=0x..
func (s source) codes(file string) map[string]string {
	out := map[string]string{}
	for _, w := range s[file] {
		if len(w) >= 2 && strings.HasPrefix(w[1], "event=") {
			out[strings.ToLower(w[0])] = w[1]
		}
	}
	return out
}

func number(t testing.TB, s string) uint64 {
	t.Helper()
	_, v, _ := strings.Cut(s, "=")
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every Arm event: its code in perf's lists, in the kernel's header where that has it, and in the
// kernel's list of what sysfs shows.
func TestArmEvents(t *testing.T) {
	s := readSource(t, "arm64.txt")
	lists := s.codes(archs + "arm64/common-and-microarch.json")
	maps.Copy(lists, s.codes(archs+"arm64/recommended.json"))
	header := s.codes("include/linux/perf/arm_pmuv3.h")
	both := 0
	for n, c := range armEvents {
		if want, ok := lists[n]; !ok || number(t, want) != uint64(c) {
			t.Errorf("%s is %#x, the list says %q", n, c, want)
		}
		if want, ok := header[n]; ok {
			both++
			if number(t, want) != uint64(c) {
				t.Errorf("%s is %#x, the header says %s", n, c, want)
			}
		}
	}
	if len(lists) != len(armEvents) {
		t.Errorf("the lists have %d events, the table %d", len(lists), len(armEvents))
	}
	if both < 120 {
		t.Errorf("only %d events stand in the header too", both)
	}
	for _, w := range s["drivers/perf/arm_pmuv3.c"] {
		if w[0] != "sysfs" {
			continue
		}
		c, ok := header[w[1]]
		if !ok {
			t.Errorf("sysfs' %s has no code", w[1])
			continue
		}
		if mine, ok := armEvents[w[1]]; ok && uint64(mine) != number(t, c) {
			t.Errorf("%s: %#x here, %s in the driver", w[1], mine, c)
		}
		if n := number(t, c); !armCovered(n) {
			t.Errorf("sysfs shows %s (%#x), which armCovered says it cannot", w[1], n)
		}
	}
}

// Every kind of Arm CPU: its part, which list is its, what that list has.
func TestArmKinds(t *testing.T) {
	s := readSource(t, "arm64.txt")
	parts := map[string]uint64{}
	for _, w := range s["arch/arm64/include/asm/cputype.h"] {
		parts[strings.ReplaceAll(w[0], "_", "-")] = number(t, w[1])
	}
	dirs := map[uint16]string{}
	for _, w := range s[archs+"arm64/mapfile.csv"] {
		f := strings.Split(w[0], ",")
		midr, err := strconv.ParseUint(f[0], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		dirs[uint16(midr>>4&0xfff)] = "arm64/" + f[2]
	}
	seen := map[uint16]bool{}
	for i := range armKinds {
		k := &armKinds[i]
		if seen[k.part] {
			t.Errorf("%s: part %#x twice", k.Name, k.part)
		}
		seen[k.part] = true
		if parts[strings.ToUpper(k.Name)] != uint64(k.part) {
			t.Errorf("%s: part %#x, the kernel says %#x", k.Name, k.part, parts[strings.ToUpper(k.Name)])
		}
		if k.dir != dirs[k.part] {
			t.Errorf("%s: list %q, the kernel's map says %q", k.Name, k.dir, dirs[k.part])
		}
		if got := kindOf(CPUID{MIDR: 0x41<<24 | 0x1<<20 | 0xf<<16 | uint64(k.part)<<4 | 1},
			"armv8_pmuv3_0"); got != k {
			t.Errorf("%s is not found by its part", k.Name)
		}
		if k.dir == "" {
			if k.codes != nil {
				t.Errorf("%s has codes without a list", k.Name)
			}
			continue
		}
		list := s.armList(t, k.dir)
		have := map[uint64]bool{}
		for c := range uint64(0x10000) {
			if k.has(c) {
				have[c] = true
			}
		}
		for n, c := range list {
			if !have[c] {
				t.Errorf("%s: lacks %s (%#x)", k.Name, n, c)
			}
			delete(have, c)
		}
		if len(have) > 0 {
			t.Errorf("%s: has %v, the list does not", k.Name, have)
		}
		for n, c := range k.extra {
			if list[n] != uint64(c) {
				t.Errorf("%s: %s is %#x, the list says %#x", k.Name, n, c, list[n])
			}
		}
	}
}

// armList is the names and codes of a CPU's list.
func (s source) armList(t testing.TB, dir string) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for file, lines := range s {
		if !strings.HasPrefix(file, archs+dir+"/") {
			continue
		}
		for _, w := range lines {
			if w[0] != "implements" {
				out[strings.ToLower(w[0])] = number(t, w[1])
				continue
			}
			for _, n := range w[1:] {
				c, ok := armEvents[strings.ToLower(n)]
				if !ok {
					t.Errorf("%s: %s is no event", file, n)
				}
				out[strings.ToLower(n)] = uint64(c)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("no list %s", dir)
	}
	return out
}

// Every event of every question, on every kind of Arm CPU that has a list which names the common events too.
func TestArmGroups(t *testing.T) {
	s := readSource(t, "arm64.txt")
	for i := range armKinds {
		k := &armKinds[i]
		if k.dir == "" {
			continue
		}
		list := s.armList(t, k.dir)
		p := &PMU{Name: "armv8_pmuv3", Kind: k}
		for _, q := range Questions() {
			for _, g := range p.groups(q) {
				if len(g) > 7 {
					t.Errorf("%s: %s has %d events, Arm's CPUs have seven counters", k.Name, q, len(g))
				}
				for _, n := range g {
					if gen, ok := genericEvents[n]; ok {
						n = gen.arm[0]
					}
					if _, ok := list[n]; !ok && !armLacks[k.Name+" "+n] && k.dir != "arm64/arm/cortex-a53" {
						t.Errorf("%s: %s asks for %s, which its list does not have", k.Name, q, n)
					}
					if armRoles[n] == "" {
						t.Errorf("%s: nothing says what %s stands for", k.Name, n)
					}
				}
			}
		}
	}
}

// armLacks is what the groups ask of older CPUs that do not have it: sysfs does not list it there, so that
// it is left out.
var armLacks = map[string]bool{}

func init() {
	for _, k := range []string{"Cortex-A57", "Cortex-A72", "Cortex-A73"} {
		for _, n := range []string{"stall_backend", "stall_frontend", "ll_cache_miss_rd", "l3d_cache",
			"l3d_cache_refill", "br_retired",
			"br_mis_pred_retired", "l1d_tlb", "l2d_tlb_refill", "dtlb_walk"} {
			armLacks[k+" "+n] = true
		}
	}
	armLacks["Cortex-A75 br_mis_pred_retired"] = true
	armLacks["Cortex-A510 l3d_cache_refill"] = true
}

// What perf's names are on Arm.
func TestArmGeneric(t *testing.T) {
	s := readSource(t, "arm64.txt")
	ids := map[uint64]string{}
	for n, g := range genericEvents {
		ids[g.id] = n
	}
	hw := map[string]uint64{
		"CPU_CYCLES": unix.PERF_COUNT_HW_CPU_CYCLES, "INSTRUCTIONS": unix.PERF_COUNT_HW_INSTRUCTIONS,
		"CACHE_REFERENCES": unix.PERF_COUNT_HW_CACHE_REFERENCES,
		"CACHE_MISSES":     unix.PERF_COUNT_HW_CACHE_MISSES,
		"BRANCH_MISSES":    unix.PERF_COUNT_HW_BRANCH_MISSES, "BUS_CYCLES": unix.PERF_COUNT_HW_BUS_CYCLES,
		"STALLED_CYCLES_FRONTEND": unix.PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
		"STALLED_CYCLES_BACKEND":  unix.PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
	}
	cacheNames := map[string]string{"L1D": "l1-dcache", "L1I": "l1-icache", "LL": "llc", "DTLB": "dtlb",
		"ITLB": "itlb", "BPU": "branch"}
	n := 0
	for _, w := range s["drivers/perf/arm_pmuv3.c"] {
		switch w[0] {
		case "hw":
			n++
			if g := genericEvents[ids[hw[w[1]]]]; len(g.arm) != 1 || g.arm[0] != strings.ToLower(w[2]) {
				t.Errorf("%s is %v here, %s in the driver", w[1], g.arm, w[2])
			}
		case "cache":
			n++
			name := cacheNames[w[1]] + "-" + map[string]string{"ACCESS": "loads", "MISS": "load-misses"}[w[3]]
			if armCaches[name] != strings.ToLower(w[4]) {
				t.Errorf("%s is %s here, %s in the driver", name, armCaches[name], w[4])
			}
			if _, ok := cacheEvent(name); !ok {
				t.Errorf("%s is no name of a cache event", name)
			}
		}
	}
	if n != 8+12 {
		t.Errorf("%d lines in the driver", n)
	}
}

// Every line of x86's tables, in the list of every kind that uses it.
func TestX86Lines(t *testing.T) {
	s := readSource(t, "x86.txt")
	for _, k := range x86Kinds {
		found := map[string]bool{}
		for file, lines := range s {
			if !strings.HasPrefix(file, archs+k.kind.dir+"/") {
				continue
			}
			for _, w := range lines {
				if len(w) > 2 && w[2] != k.pmu {
					continue // of the other kind of core
				}
				l := k.kind.line(strings.ToLower(w[0]))
				if l == nil {
					continue
				}
				found[l.name] = true
				if !sameTerms(t, l.code, w[1]) {
					t.Errorf("%s: %s is %s here, %s in %s", k.kind.Name, l.name, l.code, w[1], file)
				}
			}
		}
		for _, l := range k.kind.lines {
			if !found[l.name] {
				t.Errorf("%s: %s has no source in %s", k.kind.Name, l.name, k.kind.dir)
			}
			if l.role == "" {
				t.Errorf("%s: nothing says what %s stands for", k.kind.Name, l.name)
			}
		}
	}
}

func sameTerms(t testing.TB, a, b string) bool {
	t.Helper()
	x, err := parseTerms(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := parseTerms(b)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, e := range x {
		m[e.Name] = e.Value
	}
	for _, e := range y {
		if m[e.Name] != e.Value {
			return false
		}
		delete(m, e.Name)
	}
	return len(m) == 0
}

// Every name in a group of an x86 table is a line, one of perf's, or one that the kernel lists.
func TestX86Groups(t *testing.T) {
	s := readSource(t, "x86.txt")
	lists := map[string]bool{}
	for _, w := range s["arch/x86/events/intel/core.c"] {
		if w[0] == "sysfs" || w[0] == "hybrid" {
			lists[w[1]] = true
		}
	}
	for _, k := range x86Kinds {
		p := &PMU{Name: "cpu", Kind: k.kind}
		for _, q := range Questions() {
			if n := len(p.groups(q)); (n == 0) != (q == Off || q == Software) {
				t.Errorf("%s: %d groups for %s", k.kind.Name, n, q)
			}
			for _, g := range p.groups(q) {
				for _, n := range g {
					_, isGeneric := genericEvents[n]
					_, isCache := cacheEvent(n)
					if !isGeneric && !isCache && k.kind.line(n) == nil && !(k.vendor == intel && lists[n]) {
						t.Errorf("%s: %s asks for %s, which nothing defines", k.kind.Name, q, n)
					}
				}
			}
		}
	}
}

// Which model is which, by the kernel's map of lists. Its patterns are tried for each model that the table
// has and each that it does not.
func TestX86Models(t *testing.T) {
	s := readSource(t, "x86.txt")
	type rule struct {
		re  *regexp.Regexp
		dir string
	}
	var rules []rule
	for _, w := range s[archs+"x86/mapfile.csv"] {
		f := strings.Split(w[0], ",")
		rules = append(rules, rule{regexp.MustCompile("^(?:" + f[0] + ")$"), "x86/" + f[2]})
	}
	known := map[string]bool{}
	for _, k := range x86Kinds {
		known[k.kind.dir] = true
	}
	check := func(vendor string, family, model, step int) {
		dir := ""
		// perf takes the first that fits
		for _, id := range []string{fmt.Sprintf("%s-%d-%X", vendor, family, model),
			fmt.Sprintf("%s-%d-%X-%X", vendor, family, model, step)} {
			for _, r := range rules {
				if dir == "" && r.re.MatchString(id) {
					dir = r.dir
				}
			}
		}
		if !known[dir] {
			dir = ""
		}
		got := ""
		for _, pmu := range []string{"cpu", "cpu_core", "cpu_atom"} {
			if k := x86Kind(CPUID{Vendor: vendor, Family: family, Model: model, Stepping: step},
				pmu); k != nil {
				got = k.dir
			}
		}
		if got != dir {
			t.Errorf("%s family %d model %#x stepping %d: %q, the kernel's map says %q", vendor, family,
				model, step, got, dir)
		}
	}
	for model := range 256 {
		for step := range 16 {
			check(intel, 6, model, step)
		}
		for _, family := range []int{22, 23, 25, 26} {
			check(amd, family, model, 0)
		}
	}
}

// The recorded and composed machines list perf's names with the codes that the kernel maps.
func TestX86Generic(t *testing.T) {
	s := readSource(t, "x86.txt")
	formats := map[string]map[string]Field{}
	maps := map[string]map[string]uint64{}
	for vendor, file := range map[string]string{"intel": "arch/x86/events/intel/core.c",
		"amd": "arch/x86/events/amd/core.c"} {
		formats[vendor] = map[string]Field{}
		for _, w := range s[file] {
			switch {
			case w[0] == "format":
				f, err := parseField(w[2])
				if err != nil {
					t.Error(err)
				}
				formats[vendor][w[1]] = f
			case strings.HasPrefix(w[0], "hw"):
				name := vendor + strings.TrimPrefix(w[0], "hw")
				if maps[name] == nil {
					maps[name] = map[string]uint64{}
				}
				maps[name][strings.ToLower(strings.ReplaceAll(w[1], "_", "-"))] = number(t, "="+w[2])
			}
		}
	}
	for name, m := range map[string]string{"skylake": "intel", "sapphirerapids": "intel",
		"alderlake": "intel", "zen3": "amd-zen2", "zen4": "amd-zen4"} {
		vendor, _, _ := strings.Cut(m, "-")
		for _, p := range machine(t, name).PMUs {
			for n, f := range p.Format {
				if want, ok := formats[vendor][n]; !ok || f.Word != want.Word ||
					!slices.Equal(f.Ranges, want.Ranges) {
					t.Errorf("%s: field %s is %+v, the kernel says %+v", name, n, f, want)
				}
			}
			n := 0
			for event, want := range maps[m] {
				if event == "ref-cpu-cycles" {
					event = "ref-cycles"
				}
				v, ok := p.Events[event]
				if !ok {
					continue
				}
				n++
				if c, err := p.encode(v); err != nil || c.config != want {
					t.Errorf("%s: %s is %#x (%v), the kernel says %#x", name, event, c.config, err, want)
				}
			}
			if n < 6 {
				t.Errorf("%s: %d of the kernel's events are listed", name, n)
			}
		}
	}
}
