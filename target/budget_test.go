// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A budget that others share tells that it is theirs, and a file that used up its own that it is its own.
func TestBudgets(t *testing.T) {
	was := FileLimits
	defer func() { FileLimits = was }()
	FileLimits = Limits{Bytes: 1 << 20, Steps: 4 * batch}
	all := NewBudget("a recording", FileLimits.Times(3), nil)
	one := NewBudget("a process", FileLimits.Times(2), all)
	other := NewBudget("a process", FileLimits.Times(2), all)
	use := func(of *Budget, steps uint64) error {
		e, err := OpenELFWithin(bytes.NewReader(elfSpec{arch: AMD64}.build()), "x.so", of)
		if err != nil {
			return err
		}
		for range steps / 64 {
			e.Spend(64)
		}
		return e.Trouble()
	}
	for i, c := range []struct {
		of     *Budget
		steps  uint64
		say    string
		shared bool
	}{
		{one, 3 * batch, "", false},
		{one, 64 * batch, "limit of a file", false},
		{one, 3 * batch, "limit of a process", true},
		{other, 3 * batch, "limit of a recording", true},
	} {
		err := use(c.of, c.steps)
		var l *LimitError
		switch {
		case c.say == "":
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		case !errors.As(err, &l) || !strings.Contains(err.Error(), c.say) || l.Shared != c.shared ||
			l.File != "x.so":
			t.Errorf("%d: %v, want %q", i, err, c.say)
		}
		// what was spent beyond is not more than is taken at once, a piece of work later nothing
		if c.of == one && i == 1 {
			if s := one.Spent(); s.Steps > 70*batch {
				t.Errorf("%+v", s)
			}
		}
	}
	joined := fmt.Errorf("both: %w", errors.Join(&LimitError{File: "a"}, errors.New("x"), fmt.Errorf("y: %w",
		&LimitError{File: "b"})))
	if got := LimitErrors(joined); len(got) != 2 || got[0].File != "a" || got[1].File != "b" ||
		LimitErrors(nil) != nil {
		t.Errorf("%v", got)
	}
}

// What lies across the borders of chunks is read whole, and past the end nothing.
func TestChunks(t *testing.T) {
	raw := make([]byte, 3*chunkBytes+100)
	for i := range raw {
		raw[i] = byte(i*7 + i>>8)
	}
	for _, known := range []bool{true, false} {
		e := &ELF{Name: "x", r: bytes.NewReader(raw), size: -1, budget: NewBudget(scopeFile, FileLimits, nil)}
		if known {
			e.size = int64(len(raw))
		}
		for off := 0; off < len(raw); off += 61 {
			n := min(chunkSlack, len(raw)-off)
			b, err := e.peek(uint64(off), uint64(n))
			if err != nil || !bytes.Equal(b, raw[off:off+n]) {
				t.Fatalf("%d bytes at %d: %v", n, off, err)
			}
			if _, err := e.peek(uint64(len(raw)-10), 11); err == nil {
				t.Fatal("bytes past the end")
			}
		}
		if _, err := e.peek(1<<61, 1); err == nil {
			t.Error("a byte far past the end")
		}
		for range 3 * maxChunks {
			_, _ = e.ahead(0)
		}
		if s := e.Spent(); s.Bytes > uint64(len(raw))+5*chunkSlack+2*chunkBytes {
			t.Errorf("%d bytes were read of %d", s.Bytes, len(raw))
		}
	}
}

// A stem is found wherever in the tables it lies, and also across the pieces in which they are read.
func TestMentions(t *testing.T) {
	const at = 256 << 10
	for off := at - 8; off <= at+1; off++ {
		raw := make([]byte, 2*at)
		copy(raw[off:], "ggml_op_name\x00")
		e := &ELF{Name: "x", r: bytes.NewReader(raw), size: int64(len(raw)),
			budget: NewBudget(scopeFile, FileLimits, nil)}
		s := segment{typ: 1, addr: 0, filesz: uint64(len(raw))}
		e.segs, e.loads = []segment{s}, []segment{s}
		e.dyn.strtab, e.dyn.strsz = 1, uint64(len(raw)-1)
		if !e.Mentions("llama_", "ggml_") || e.Mentions("llama_") {
			t.Errorf("at %d", off)
		}
	}
}
