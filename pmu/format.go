// SPDX-License-Identifier: Apache-2.0

package pmu

import (
	"fmt"
	"strconv"
	"strings"
)

// Field is the bits of perf_event_attr for a term, from a file below format/: config:0-7,32-35. The term's
// lowest bits go to the first range.
type Field struct {
	Word   int // 0: config, 1: config1, 2: config2
	Ranges [][2]uint
}

func (f Field) bits() (n uint) {
	for _, r := range f.Ranges {
		n += r[1] - r[0] + 1
	}
	return n
}

// parseField reads a file below format/.
func parseField(s string) (Field, error) {
	word, ranges, ok := strings.Cut(strings.TrimSpace(s), ":")
	var f Field
	switch word {
	case "config":
	case "config1":
		f.Word = 1
	case "config2":
		f.Word = 2
	default:
		ok = false
	}
	if !ok {
		return Field{}, fmt.Errorf("%q is no place in an event", s)
	}
	for r := range strings.SplitSeq(ranges, ",") {
		a, b, isRange := strings.Cut(r, "-")
		lo, err := strconv.ParseUint(a, 10, 8)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.ParseUint(b, 10, 8)
		}
		if err != nil || hi < lo || hi > 63 || len(f.Ranges) >= 64 {
			return Field{}, fmt.Errorf("%q is no range of bits", s)
		}
		f.Ranges = append(f.Ranges, [2]uint{uint(lo), uint(hi)})
	}
	if f.bits() > 64 {
		return Field{}, fmt.Errorf("%q has more than 64 bits", s)
	}
	return f, nil
}

// put sets a term's value in a word; it returns false if the value does not fit.
func (f Field) put(word *uint64, v uint64) bool {
	for _, r := range f.Ranges {
		n := r[1] - r[0] + 1
		mask := ^uint64(0)
		if n < 64 {
			mask = 1<<n - 1
		}
		*word = *word&^(mask<<r[0]) | (v&mask)<<r[0]
		if n == 64 {
			return true
		}
		v >>= n
	}
	return v == 0
}

// Term is one word of an event's description: event=0x11, or inv (1).
type Term struct {
	Name  string
	Value uint64
}

// parseTerms reads event=0x3c,umask=0x1,inv.
func parseTerms(s string) ([]Term, error) {
	var out []Term
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		t := Term{Name: strings.TrimSpace(name), Value: 1}
		if ok {
			v, err := strconv.ParseUint(strings.TrimSpace(value), 0, 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %q is no number", s, value)
			}
			t.Value = v
		}
		if !isName(t.Name) || len(out) >= 32 {
			return nil, fmt.Errorf("%q is no description of an event (event=0x11,umask=0x1)", s)
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q describes no event", s)
	}
	return out, nil
}

// code is the content of a perf_event_attr besides its type.
type code struct{ config, config1, config2 uint64 }

// encode converts terms in text form to words by the unit's format.
func (p *PMU) encode(terms string) (code, error) {
	ts, err := parseTerms(terms)
	if err != nil {
		return code{}, err
	}
	return p.encodeTerms(ts)
}

func (p *PMU) encodeTerms(ts []Term) (code, error) {
	var words [3]uint64
	for _, t := range ts {
		f, ok := p.Format[t.Name]
		if !ok {
			switch t.Name {
			case "config":
				words[0] = t.Value
				continue
			case "config1":
				words[1] = t.Value
				continue
			case "config2":
				words[2] = t.Value
				continue
			}
			return code{}, fmt.Errorf("%s knows no %s: it knows %s", p.Name, t.Name,
				join(sortedKeys(p.Format)))
		}
		if !f.put(&words[f.Word], t.Value) {
			return code{}, fmt.Errorf("%s=%#x has more than the %d bits that %s has for it", t.Name, t.Value,
				f.bits(), p.Name)
		}
	}
	return code{words[0], words[1], words[2]}, nil
}
