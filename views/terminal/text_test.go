// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
)

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[0m\xffб")
	f.Fuzz(func(t *testing.T, s string) {
		for _, ascii := range []bool{false, true} {
			got := clean.Terminal(s, ascii)
			if !utf8.ValidString(got) {
				t.Errorf("%q became %q", s, got)
			}
			checkPrintable(t, got, Options{Unicode: !ascii})
			if cut := cutEnd(got, 10, "…"); textWidth(cut) > 10 {
				t.Errorf("%q is cut to %q, %d wide", got, cut, textWidth(cut))
			}
		}
	})
}

func TestCutEnd(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"ffn_down", 8, "ffn_down"},
		{"ffn_down", 7, "ffn_do…"},
		{"ffn_down", 2, "f…"},
		{"ffn_down", 1, "f"},
		{"ffn_down", 0, ""},
		{"compile 629 ms", 9, "compile…"},
		{"模型模型", 7, "模型模…"}, // two columns each
		{"模型模型", 6, "模型…"},
		{"模型模型", 8, "模型模型"},
	} {
		if got := cutEnd(c.in, c.width, "…"); got != c.want || textWidth(got) > c.width {
			t.Errorf("cutEnd(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestCutPath(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		mark  string
		want  string
	}{
		{"/home/me/runs/t4.pinf", 21, "…", "/home/me/runs/t4.pinf"},
		{"/home/me/runs/t4.pinf", 20, "…", "…/me/runs/t4.pinf"},
		{"/home/me/runs/t4.pinf", 13, "…", "…/t4.pinf"},
		{"/home/me/runs/t4.pinf", 13, "..", ".../t4.pinf"},
		{"/home/me/runs/t4.pinf", 6, "…", "t4.pi…"},
		{"run.pinf", 5, "…", "run.…"},
	} {
		if got := cutPath(c.in, c.width, c.mark); got != c.want || textWidth(got) > c.width {
			t.Errorf("cutPath(%q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	got := wrap("took 71 ms at 14.4 GB/s, 23 % of it", 12, 2)
	want := []string{"took 71 ms", "  at", "  14.4 GB/s,", "  23 % of it"}
	if !slices.Equal(got, want) {
		t.Errorf("wrapped: %q, want %q", got, want)
	}
	got = wrap("in /usr/lib/llama.cpp/x.so twice", 10, 2)
	if want := []string{"in", "  /usr/lib", "  /llama.c", "  pp/x.so", "  twice"}; !slices.Equal(got, want) {
		t.Errorf("a long word is wrapped: %q, want %q", got, want)
	}
	if got := wrap("a b", 0, 2); len(got) != 1 {
		t.Errorf("without a limit: %q", got)
	}
}

func TestDetect(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for _, s := range kv {
				if v, ok := strings.CutPrefix(s, k+"="); ok {
					return v
				}
			}
			return ""
		}
	}
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer w.Close()
	if o := detect(w, env("LANG=C.UTF-8", "TERM=xterm")); o.Color || o.Width != 0 || !o.Unicode {
		t.Errorf("a pipe: %+v", o)
	}
	if o := detect(w, env("LANG=C.UTF-8", "LC_ALL=POSIX", "COLUMNS=97")); o.Width != 97 || o.Unicode {
		t.Errorf("COLUMNS and LC_ALL: %+v", o)
	}
	for _, bad := range []string{"COLUMNS=-3", "COLUMNS=x", "COLUMNS=99999999999"} {
		if o := detect(nil, env(bad)); o.Width != 0 || o.Unicode {
			t.Errorf("%s: %+v", bad, o)
		}
	}
	if o := detect(nil, env("LC_CTYPE=de_DE.utf8")); !o.Unicode {
		t.Error("utf8 is not told")
	}
}

func TestNumbers(t *testing.T) {
	var u, a Options
	u.Unicode = true
	v := func(f float64) *float64 { return &f }
	for got, want := range map[string]string{
		u.duration(0): "0 ns", u.duration(999.4): "999 ns", u.duration(1500): "1.50 µs",
		a.duration(1500):   "1.50 us",
		u.duration(49.7e6): "49.7 ms", u.duration(999.7e6): "1.00 s", u.duration(5.9e9): "5.90 s",
		u.duration(123e9): "2 min 3 s",
		u.bar(1, 1, 7):    "███████", u.bar(0.5, 1, 7): "███▌", u.bar(1e-9, 1, 7): "▏", u.bar(0, 1,
			7): "", a.bar(0.5, 1, 7): "####", a.bar(1e-9, 1, 7): "#",
		signed(v(-0.001)): "+0 %", signed(v(0.05)): "+5 %", signed(v(-0.05)): "-5 %",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// However narrow the terminal, no line is wider than it, and what matters most stays.
func TestAnyWidth(t *testing.T) {
	for i, by := range []facts.By{facts.ByWeight, facts.ByWeight, facts.ByThread, facts.ByStep} {
		s := play(t, stat.Options{By: by, Top: 4}, nil, "op", run)
		for width := 20; width < 200; width += 3 {
			var b bytes.Buffer
			if err := Stat(&b, s, Options{File: "some/quite/long/path/run.pinf", Width: width,
				Unicode: width%2 == 0, Full: i > 0}); err != nil {
				t.Fatal(err)
			}
			checkPrintable(t, b.String(), Options{Width: width, Unicode: true})
			if !strings.Contains(b.String(), "t/s") {
				t.Errorf("at %d columns t/s is gone", width)
			}
			for l := range strings.SplitSeq(b.String(), "\n") {
				if strings.HasSuffix(l, " ") {
					t.Fatalf("a line ends in spaces: %q", l)
				}
			}
		}
	}
}

// What a table shows is in its JSON twin.
func TestStatJSON(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, play(t, stat.Options{Top: 5}, nil, "op", run)); err != nil {
		t.Fatal(err)
	}
	var v struct {
		SchemaVersion int `json:"schema_version"`
		Phases        []struct {
			Phase string
			Rows  []map[string]any
			Rest  map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if v.SchemaVersion != summary.Schema || len(v.Phases) != 2 || len(v.Phases[1].Rows) != 5 ||
		v.Phases[1].Rest == nil {
		t.Fatalf("%+v", v)
	}
	for _, k := range []string{"key", "type", "op", "calls", "calls_per_step", "dur_ns", "dur_per_step_ns",
		"share", "mean_ns", "p95_ns", "gb_per_s",
		"flop_per_byte", "gflop_per_s", "wait_share", "off_cpu_share", "imbalance"} {
		if _, ok := v.Phases[1].Rows[0][k]; !ok {
			t.Errorf("a row has no %s", k)
		}
	}
	golden(t, "stat.json", b.Bytes())
}
