// SPDX-License-Identifier: Apache-2.0

package ggml

import (
	"fmt"
	"slices"
)

const (
	maxNames = 512 // entries of a name table; so far ggml has had at most 102 operators
	maxTypes = 256
)

// typeTraits is the kept part of an entry of ggml's table of data types.
type typeTraits struct {
	name        string
	block, size int64 // elements and bytes per block; 0 if unknown
}

// nameTable reads all names that an accessor, such as ggml_op_name, knows: it is run with 0, 1, 2 ... until
// the result is not a name of that kind. limit is their maximum number (0: unknown), as tables of different
// kinds are adjacent.
func (l *lib) nameTable(fn string, limit int, isName func(string) bool) (names []string, table uint64,
	err error) {
	m, addr, err := l.machine(fn)
	if err != nil {
		return nil, 0, err
	}
	if limit == 0 || limit > maxNames {
		limit = maxNames
	}
	for i := range limit {
		p, err := m.Run(addr, uint64(i))
		if err != nil {
			if i == 0 {
				return nil, 0, fmt.Errorf("%s: %w", fn, err)
			}
			break // an assertion on the bound failed
		}
		if i == 0 && len(m.Log) > 0 {
			table = m.Log[len(m.Log)-1].Off
		}
		s, ok := l.str(p, 64)
		if !ok || !isName(s) {
			break
		}
		names = append(names, s)
	}
	if len(names) == 0 {
		return nil, 0, fmt.Errorf("%s returns no name", fn)
	}
	return names, table, nil
}

// isOpName distinguishes MUL_MAT from the adjacent symbols (X*Y) and type names (q4_0).
func isOpName(s string) bool {
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// opNames are the name tables of a base library.
type opNames struct{ ops, unary, glu []string }

func (l *lib) readNames(f *findings) (opNames, error) {
	var n opNames
	type tab struct {
		what, fn string
		names    *[]string
		addr     uint64
	}
	tabs := []*tab{
		{what: "operators", fn: "ggml_op_name", names: &n.ops},
		{what: "unary operators", fn: "ggml_unary_op_name", names: &n.unary},
		{what: "gated linear units", fn: "ggml_glu_op_name", names: &n.glu},
	}
	for _, t := range tabs {
		names, addr, err := l.nameTable(t.fn, 0, isOpName)
		if err != nil {
			if t.fn == "ggml_op_name" {
				return n, err
			}
			continue // not in old versions
		}
		*t.names, t.addr = names, addr
	}
	// A table ends no later than where the next one begins.
	_, symbols, _ := l.nameTable("ggml_op_symbol", 1, func(string) bool { return true })
	for _, t := range tabs {
		for _, start := range []uint64{tabs[0].addr, tabs[1].addr, tabs[2].addr, symbols} {
			if k := (start - t.addr) / 8; t.addr != 0 && start > t.addr && k < uint64(len(*t.names)) {
				*t.names = (*t.names)[:k]
			}
		}
		if len(*t.names) > 0 {
			f.add(t.what, len(*t.names), t.fn+" names them")
		}
	}
	if !slices.Contains(n.ops, "MUL_MAT") || n.ops[0] != "NONE" {
		return n, fmt.Errorf("%s: ggml_op_name names %d operators, MUL_MAT not among them or NONE not first",
			l.e.Name, len(n.ops))
	}
	return n, nil
}

// readTypes reads the data types: it runs ggml_type_name, ggml_blck_size and ggml_type_size with 0, 1, 2 ...
// . Removed types keep their number and a name.
func (l *lib) readTypes(f *findings) []typeTraits {
	var out []typeTraits
	name, a, err := l.machine("ggml_type_name")
	if err != nil {
		return nil
	}
	blck, b, berr := l.machine("ggml_blck_size")
	size, s, serr := l.machine("ggml_type_size")
	last, stride := 0, uint64(0)
	var prev uint64
	for i := range maxTypes {
		p, err := name.Run(a, uint64(i))
		if err != nil {
			break
		}
		if len(name.Log) > 0 {
			at := name.Log[len(name.Log)-1].Off
			if i == 1 {
				stride = at - prev
			}
			if i > 1 && at != prev+stride {
				break // a bound was checked, and a constant returned
			}
			prev = at
		} else if i > 0 {
			break
		}
		t := typeTraits{}
		ok := p == 0
		if p != 0 {
			t.name, ok = l.str(p, 64)
		}
		if berr == nil {
			if v, err := blck.Run(b, uint64(i)); err == nil {
				t.block = int64(v)
			}
		}
		if serr == nil {
			if v, err := size.Run(s, uint64(i)); err == nil {
				t.size = int64(v)
			}
		}
		if !ok || t.block < 0 || t.block > 1<<16 || t.size < 0 || t.size > 1<<16 {
			break // past the table
		}
		out = append(out, t)
		if t.name != "" && t.block > 0 && t.size > 0 {
			last = len(out)
		}
	}
	out = out[:last]
	if len(out) > 0 {
		f.add("types", len(out), fmt.Sprintf("ggml_type_name, ggml_blck_size, ggml_type_size; table stride %#x", stride))
	}
	return out
}
