// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	maxList  = 1 << 13 // bytes of -e
	maxSpecs = 64      // events of -e; no CPU has that many counters
)

// Spec is one event as a person wrote it, before it is matched with the machine.
type Spec struct {
	Text  string  // as written, with its modifiers
	Name  string  // "" if Raw or Terms is set
	PMU   string  // of PMU/.../; "" everywhere else
	Terms []Term  // of PMU/event=0x11,umask=1/
	Raw   *uint64 // r003c
	// User and Kernel are the modifiers :u and :k: count only there. Neither: everywhere.
	User, Kernel bool
	// Group is the same number above 0 for events in one pair of braces: they are counted at the same times
	// or not at all. 0: alone.
	Group int
}

// ParseEvents parses a list in the format of perf's -e:
// cycles,instructions:u,r003c,cpu/event=0x3c,umask=0x1/, {l1d_cache,l1d_cache_refill}. It does not check
// whether a CPU has them.
func ParseEvents(s string) ([]Spec, error) {
	if len(s) > maxList {
		return nil, fmt.Errorf("a list of events longer than %d bytes", maxList)
	}
	p := parser{rest: s}
	for {
		p.space()
		if p.take('{') {
			if err := p.braces(); err != nil {
				return nil, err
			}
		} else if err := p.event(0); err != nil {
			return nil, err
		}
		p.space()
		if p.rest == "" {
			return p.out, nil
		}
		if !p.take(',') {
			return nil, fmt.Errorf("events: a comma is missing before %q", clip(p.rest))
		}
	}
}

type parser struct {
	rest   string
	groups int
	out    []Spec
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

func (p *parser) take(c byte) bool {
	if p.rest != "" && p.rest[0] == c {
		p.rest = p.rest[1:]
		return true
	}
	return false
}

func (p *parser) braces() error {
	p.groups++
	first := len(p.out)
	for {
		p.space()
		if err := p.event(p.groups); err != nil {
			return err
		}
		p.space()
		if p.take('}') {
			break
		}
		if !p.take(',') {
			return fmt.Errorf("events: a group that begins with { lacks its }")
		}
	}
	if !p.take(':') {
		return nil
	}
	text := p.word()
	if text == "" {
		return fmt.Errorf("events: a modifier is missing after the group's colon: u or k")
	}
	if err := new(Spec).modify(text); err != nil {
		return fmt.Errorf("events: a group%w", err)
	}
	for i := range p.out[first:] {
		p.out[first+i].also(text)
	}
	return nil
}

// also adds a group's modifiers to those of an event, and to its text.
func (s *Spec) also(mods string) {
	for _, m := range mods {
		had := *s
		_ = s.modify(string(m))
		if had.User == s.User && had.Kernel == s.Kernel {
			continue
		}
		if !had.User && !had.Kernel {
			s.Text = strings.TrimSuffix(s.Text, ":") + ":"
		}
		s.Text += string(m)
	}
}

// word consumes the characters of a name.
func (p *parser) word() string {
	n := 0
	for n < len(p.rest) && isNameByte(p.rest[n]) {
		n++
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

func (p *parser) event(group int) error {
	if len(p.out) >= maxSpecs {
		return fmt.Errorf("events: more than %d", maxSpecs)
	}
	start := p.rest
	s := Spec{Group: group}
	name := p.word()
	if name == "" {
		if p.rest == "" {
			return fmt.Errorf("events: a name is missing (cycles,instructions)")
		}
		return fmt.Errorf("events: no name begins with %q", clip(p.rest))
	}
	var mods string
	if p.take('/') {
		inner, after, ok := strings.Cut(p.rest, "/")
		if !ok {
			return fmt.Errorf("events: %s/ lacks the / at its end (%s/event=0x11/)", name, name)
		}
		p.rest = after
		s.PMU = name
		if inner = strings.TrimSpace(inner); isName(inner) &&
			!slices.Contains([]string{"config", "config1", "config2"}, inner) {
			s.Name = inner
		} else {
			ts, err := parseTerms(inner)
			if err != nil {
				return fmt.Errorf("events: %s: %w", name, err)
			}
			s.Terms = ts
		}
		p.take(':') // perf accepts both: cpu/event=1/u and cpu/event=1/:u
		mods = p.word()
	} else {
		if raw, ok := rawCode(name); ok {
			s.Raw = &raw
		} else {
			s.Name = name
		}
		if p.take(':') {
			if mods = p.word(); mods == "" {
				return fmt.Errorf("events: %s: lacks a modifier after the colon: u or k", name)
			}
		}
	}
	if err := s.modify(mods); err != nil {
		return fmt.Errorf("events: %s%w", name, err)
	}
	s.Text = strings.TrimSpace(start[:len(start)-len(p.rest)])
	p.out = append(p.out, s)
	return nil
}

func (s *Spec) modify(mods string) error {
	for _, m := range mods {
		switch m {
		case 'u':
			s.User = true
		case 'k':
			s.Kernel = true
		default:
			return fmt.Errorf(":%s: there are u (counts in user mode only) and k (in the kernel only); perf's others are for samples or virtual machines", mods)
		}
	}
	return nil
}

// both reports whether user mode and the kernel were requested, which is the same as neither.
func (s *Spec) both() bool { return s.User && s.Kernel }

// rawCode parses r003c: r and hexadecimal digits.
func rawCode(s string) (uint64, bool) {
	if len(s) < 2 || s[0] != 'r' {
		return 0, false
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s[1:], "0x"), 16, 64)
	return v, err == nil
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' ||
		c == '.'
}

func isName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// clip keeps an error short, and user input harmless.
func clip(s string) string {
	if len(s) > 30 {
		s = s[:30] + "..."
	}
	return s
}

// Column is an event's name as a column of a table: lower-case letters, digits and _.
func Column(name string) string {
	b := []byte(strings.ToLower(name))
	for i, c := range b {
		if c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			continue
		}
		b[i] = '_'
	}
	return strings.Trim(string(b), "_")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// join joins a list for a sentence; a long list is cut.
func join(list []string) string {
	const most = 8
	if len(list) == 0 {
		return "none"
	}
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}
