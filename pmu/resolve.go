// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// found is the result of looking up a name on one unit.
type found struct {
	event Event
	role  Role
}

// software finds an event of the kernel; nil if there is none of that name.
func software(s Spec) *found {
	name := canonical(s.Name)
	e, ok := softwareEvents[name]
	if !ok || s.PMU != "" {
		return nil
	}
	return &found{Event{Type: unix.PERF_TYPE_SOFTWARE, Config: e.id, Proof: ByKernel}, e.role}
}

func canonical(name string) string {
	name = strings.ToLower(name)
	if a, ok := alias[name]; ok {
		return a
	}
	return name
}

// find looks up an event on a unit. The order: a raw code or terms; perf's names; what the kernel lists;
// Arm's names; the table of the kind.
func (p *PMU) find(s Spec) (*found, *Missing) {
	f, why := p.look(s)
	if why != nil {
		why.Event, why.On = s.Text, p.String()
		return nil, why
	}
	f.event.PMU = p
	return f, nil
}

func (p *PMU) look(s Spec) (*found, *Missing) {
	switch {
	case s.Raw != nil:
		return p.coded(code{config: *s.Raw})
	case s.Terms != nil:
		c, err := p.encodeTerms(s.Terms)
		if err != nil {
			return nil, &Missing{Why: err.Error()}
		}
		return p.coded(c)
	}
	name := strings.ToLower(s.Name)
	if g, ok := genericEvents[canonical(name)]; ok {
		return p.generic(canonical(name), g)
	}
	if id, ok := cacheEvent(name); ok {
		return p.cache(name, id)
	}
	for k, v := range p.Events {
		if strings.EqualFold(k, s.Name) {
			c, err := p.encode(v)
			if err != nil {
				return nil, &Missing{Why: fmt.Sprintf("the kernel describes it as %q: %v", clip(v), err)}
			}
			return p.raw(c, BySysfs, p.role(k)), nil
		}
	}
	if p.Arm() {
		if c, ok := p.armCode(name); ok {
			f, missing := p.coded(code{config: uint64(c)})
			if missing != nil {
				missing.Why, missing.Do = p.lacks(s.Name)
				return nil, missing
			}
			f.role, f.event.Is = armRoles[name], ""
			return f, nil
		}
	} else if p.Kind != nil {
		if l := p.Kind.line(name); l != nil {
			c, err := p.encode(l.code)
			if err != nil {
				return nil, &Missing{Why: err.Error()}
			}
			return p.raw(c, ByTable, l.role), nil
		}
	}
	why, do := p.lacks(s.Name)
	return nil, &Missing{Why: why, Do: do}
}

// raw is an event of the unit's own codes.
func (p *PMU) raw(c code, proof Proof, role Role) *found {
	return &found{Event{Type: p.Type, Config: c.config, Config1: c.config1, Config2: c.config2, Proof: proof},
		role}
}

// armCode is the number of one of Arm's names, or of one specific to the kind.
func (p *PMU) armCode(name string) (uint16, bool) {
	if p.Kind != nil {
		if c, ok := p.Kind.extra[name]; ok {
			return c, true
		}
	}
	c, ok := armEvents[name]
	return c, ok
}

// role is the meaning of an event name.
func (p *PMU) role(name string) Role {
	if p.Arm() {
		return armRoles[name]
	}
	if r, ok := map[string]Role{
		"slots": Slots, "topdown-retiring": Retiring, "topdown-bad-spec": BadSpec,
		"topdown-fe-bound": FrontendBound,
		"topdown-be-bound": BackendBound, "topdown-mem-bound": MemBound,
	}[name]; ok {
		return r
	}
	return ""
}

// coded decides whether the CPU has an event with this code.
func (p *PMU) coded(c code) (*found, *Missing) {
	for _, k := range sortedKeys(p.Events) {
		if e, err := p.encode(p.Events[k]); err == nil && e == c {
			f := p.raw(c, BySysfs, p.role(k))
			f.event.Is = k
			return f, nil
		}
	}
	if p.Arm() {
		return p.armCoded(c)
	}
	if p.Kind != nil {
		for _, l := range p.Kind.lines {
			if e, err := p.encode(l.code); err == nil && e == c {
				f := p.raw(c, ByTable, l.role)
				f.event.Is = l.name
				return f, nil
			}
		}
	}
	return p.raw(c, Unproved, ""), nil
}

// armCoded is the rule for codes that the kernel opens on every Arm CPU. The CPU shows which common ones
// (armCovered) it has, and the kernel lists those: what is not listed is refused. For others the list of the
// kind decides. If there is no such list the event is opened, and zeros are not trusted.
func (p *PMU) armCoded(c code) (*found, *Missing) {
	mask := uint64(0xffff)
	if f, ok := p.Format["event"]; ok && f.bits() < 64 {
		mask = 1<<f.bits() - 1
	}
	if c.config&^mask != 0 {
		return nil, &Missing{Why: fmt.Sprintf("%s takes codes up to %#x", p.Name, mask)}
	}
	name := fmt.Sprintf("an event %#x", c.config)
	for _, n := range sortedKeys(armEvents) {
		if uint64(armEvents[n]) == c.config {
			name = fmt.Sprintf("an event %#x (%s)", c.config, n)
		}
	}
	const opens = " It would open all the same, and read 0"
	switch {
	case armCovered(c.config):
		return nil, &Missing{
			Why: fmt.Sprintf("this CPU (%s) does not have %s: /%s/%s/events lists what it has.%s", p, name,
				sources, p.Name, opens),
			Do: "take one of " + join(p.some()),
		}
	case p.Kind == nil || p.Kind.codes == nil:
		return p.raw(c, Unproved, ""), nil
	case !p.Genuine:
		return nil, &Missing{
			Why: fmt.Sprintf("the counters here are not those of a %s, which it says to be: an emulator's, or a host filters them. Nothing says that it has %s.%s", p, name, opens),
			Do:  "take one of " + join(p.some()),
		}
	case !p.Kind.has(c.config):
		return nil, &Missing{
			Why: fmt.Sprintf("a %s does not have %s, by the kernel's list (tools/perf/pmu-events/arch/%s).%s",
				p, name, p.Kind.dir, opens),
			Do: "take one of " + join(p.some()),
		}
	}
	return p.raw(c, ByTable, ""), nil
}

// generic is one of the kernel's own names on this unit.
func (p *PMU) generic(name string, g generic) (*found, *Missing) {
	if p.Arm() {
		for _, n := range g.arm {
			if v, ok := p.Events[n]; ok {
				if c, err := p.encode(v); err == nil {
					f := p.raw(c, BySysfs, g.role)
					if f.role == "" {
						f.role = armRoles[n]
					}
					f.event.Is = n
					return f, nil
				}
			}
		}
		if len(g.arm) == 0 {
			return nil, &Missing{Why: fmt.Sprintf("Arm's CPUs have nothing that %s stands for", name)}
		}
		return nil, &Missing{
			Why: fmt.Sprintf("this CPU (%s) has no %s, which %s stands for on Arm", p,
				strings.Join(g.arm, " and no "), name),
			Do: "take one of " + join(p.some()),
		}
	}
	role := g.role
	switch {
	// intel_perfmon_event_map: requests to the last level; amd_zen2_perfmon_event_map: to the second level
	case role == "" && p.ID.Vendor == intel:
		role = map[string]Role{"cache-references": L3Access, "cache-misses": LLCMiss}[name]
	case role == "" && p.ID.Vendor == amd:
		role = map[string]Role{"cache-misses": L2Miss}[name]
	}
	return &found{Event{Type: unix.PERF_TYPE_HARDWARE, Config: p.extended(g.id), Proof: ByKernel}, role}, nil
}

// cache is one of perf's cache events on this unit.
func (p *PMU) cache(name string, id uint64) (*found, *Missing) {
	if !p.Arm() {
		return &found{Event{Type: unix.PERF_TYPE_HW_CACHE, Config: p.extended(id), Proof: ByKernel},
			cacheRoles[name]}, nil
	}
	arm, ok := armCaches[name]
	if !ok {
		return nil, &Missing{Why: fmt.Sprintf("the kernel has no event of Arm's CPUs for %s", name)}
	}
	return p.generic(name, generic{role: cacheRoles[name], arm: []string{arm}})
}

// extended adds the unit to one of the kernel's own events if there are several units (PERF_PMU_TYPE_SHIFT in
// include/uapi/linux/perf_event.h; supported by kernels that know such CPUs, since 5.13).
func (p *PMU) extended(id uint64) uint64 {
	if p.Name == "cpu" {
		return id
	}
	return uint64(p.Type)<<32 | id
}

// lacks reports that a unit has no event of a name, and suggests similar ones.
func (p *PMU) lacks(name string) (why, do string) {
	why = fmt.Sprintf("this CPU (%s) has no event %s", p, clip(name))
	near := near(name, p.known())
	if len(near) > 0 {
		return why + ", it has " + strings.Join(near, ", "),
			"take one of these, or a code from the CPU's document: r003c"
	}
	return why, fmt.Sprintf("see /%s/%s/events, or take a code from the CPU's document: r003c", sources,
		p.Name)
}

// known is all names that match something on this unit.
func (p *PMU) known() []string {
	out := sortedKeys(p.Events)
	if p.Arm() {
		for _, n := range sortedKeys(armEvents) {
			c := uint64(armEvents[n])
			if !armCovered(c) && p.Genuine && p.Kind != nil && p.Kind.has(c) {
				out = append(out, n)
			}
		}
	} else {
		out = append(out, sortedKeys(genericEvents)...)
		if p.Kind != nil {
			for _, l := range p.Kind.lines {
				out = append(out, l.name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// some suggests alternatives: what the kernel lists, those of presets first.
func (p *PMU) some() []string {
	out := sortedKeys(p.Events)
	slices.SortStableFunc(out, func(a, b string) int {
		score := func(n string) int {
			if p.role(n) != "" {
				return 0
			}
			return 1
		}
		return score(a) - score(b)
	})
	return out
}

// near finds at most three names with the same words: l2d_cache_refill for l3d_cache_refill.
func near(name string, names []string) []string {
	const most = 3
	split := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return r == '_' || r == '-' || r == '.'
		})
	}
	want := split(clip(name))
	type scored struct {
		name  string
		score int
	}
	var all []scored
	for _, n := range names {
		words := split(n)
		score := 0
		for _, w := range want {
			if slices.Contains(words, w) {
				score += 4
			}
		}
		if score == 0 {
			continue
		}
		if len(words) > 0 && len(want) > 0 && like(words[0], want[0]) {
			score += 2 // l3d, l2d
		}
		all = append(all, scored{n, score*8 - len(words)})
	}
	slices.SortStableFunc(all, func(a, b scored) int { return b.score - a.score })
	var out []string
	for _, s := range all[:min(most, len(all))] {
		out = append(out, s.name)
	}
	return out
}

// like reports whether two words differ in at most one letter.
func like(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	n := 0
	for i := range len(a) {
		if a[i] != b[i] {
			n++
		}
	}
	return n <= 1
}
