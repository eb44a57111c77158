// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"strings"
	"testing"
)

func TestTerminal(t *testing.T) {
	for _, c := range []struct {
		in, unicode, ascii string
	}{
		{"blk.0.attn_q.weight", "blk.0.attn_q.weight", "blk.0.attn_q.weight"},
		{"\x1b[2J", `\x1b[2J`, `\x1b[2J`},
		{"a\nb\tc\r", `a\x0ab\x09c\x0d`, `a\x0ab\x09c\x0d`},
		{"\x00\x7f\u0085", `\x00\x7f\u0085`, `\x00\x7f\u0085`},
		{"\xff\xfe", `\xff\xfe`, `\xff\xfe`},
		{"a\u202eb\u200b\u2066", `a\u202eb\u200b\u2066`, `a\u202eb\u200b\u2066`},
		{`\x1b`, `\\x1b`, `\\x1b`}, // not to be taken for an escape
		{"Größe 模型", "Größe 模型", `Gr\u00f6\u00dfe \u6a21\u578b`},
		{"a\ufe0f", `a\ufe0f`, `a\ufe0f`},
		{"", "", ""},
	} {
		if got := Terminal(c.in, false); got != c.unicode {
			t.Errorf("Terminal(%q) = %q, want %q", c.in, got, c.unicode)
		}
		if got := Terminal(c.in, true); got != c.ascii {
			t.Errorf("Terminal(%q) in ASCII = %q, want %q", c.in, got, c.ascii)
		}
	}
}

func TestMessage(t *testing.T) {
	in := "cannot open \"a\\x1b\":\n  \x1b]0;x\x07\r\t\u009b31m\u202e\x7f \xff é …"
	want := `cannot open "a\x1b":` + "\n" + `  \x1b]0;x\x07\x0d\x09\u009b31m\u202e\x7f \xff é …`
	if got := Message(in); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Message(want); got != want { // a recorder's message that overhead passes on
		t.Errorf("%q, want it as it was", got)
	}
	for at := range len(in) {
		var b strings.Builder
		w := Writer(&b)
		for _, part := range []string{in[:at], in[at:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if b.String() != want {
			t.Errorf("cut at %d: %q", at, b.String())
		}
	}
}

func TestOthers(t *testing.T) {
	in := "a\x1b[1m\u202e\n\xffé"
	for got, want := range map[string]string{
		Title(in):                           "a\\u001b[1m\\u202e\\u000a\ufffdé",
		Perfetto(in):                        "a\ufffd[1m\u202e\ufffd\ufffdé",
		Perfetto("blk.0"):                   "blk.0",
		Short(in, 100):                      Terminal(in, false),
		Short(strings.Repeat("é", 100), 99): strings.Repeat("é", 49) + "...",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, r := range "\x00\x1b\u0085\u2028\u2029\u202e\u200b" {
		if !Hidden(r) {
			t.Errorf("%U is shown", r)
		}
	}
}
