// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
)

// TestPartFlags: what a user writes, and what is refused with what to write instead.
func TestPartFlags(t *testing.T) {
	for _, c := range []struct {
		flags partFlags
		want  profile.Part
	}{
		{partFlags{}, profile.Part{}},
		{partFlags{from: "1.5s", to: "2m"}, profile.Part{From: 1.5e9, To: 120e9}},
		{partFlags{from: "1.5", to: "2"}, profile.Part{From: 1.5e9, To: 2e9}},
		{partFlags{from: "0", to: "200ms"}, profile.Part{To: 2e8}},
		{partFlags{steps: "5-7"}, profile.Part{First: 5, Last: 7}},
		{partFlags{steps: "5"}, profile.Part{First: 5, Last: 5}},
	} {
		if got, err := c.flags.part(); err != nil || got.From != c.want.From || got.To != c.want.To ||
			got.First != c.want.First || got.Last != c.want.Last {
			t.Errorf("%+v: %+v, %v", c.flags, got, err)
		}
	}
	for want, f := range map[string]partFlags{
		"is no time":        {from: "soon"},
		"before the":        {to: "-1"},
		"not later":         {from: "2s", to: "2s"},
		"is no range":       {steps: "a-b"},
		"the first is 1":    {steps: "0-3"},
		"7 is after 5":      {steps: "7-5"},
		"no phase":          {phase: "warm"},
		"seconds as 1.5":    {from: "NaN"},
		"--from \"1e400\"":  {from: "1e400"},
		"--steps \"3-4-5\"": {steps: "3-4-5"},
	} {
		if got, err := f.part(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %+v, %v; want %q", f, got, err, want)
		}
	}
}

// TestPartOfEveryExport: each kind of output takes a part, tells it, and has less than the whole.
func TestPartOfEveryExport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.pinf")
	var b bytes.Buffer
	trial, _ := profiletest.TrialNamed("plain")
	if err := trial.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	part := profile.Part{First: 5, Last: 6}
	for _, c := range []struct{ format, table string }{
		{"perfetto", ""}, {"pprof", ""}, {"csv", "ops"}, {"ndjson", "op_threads"}, {"parquet", "graphs"},
		{"csv", "runs"},
	} {
		var sizes [2]int64
		for i, p := range []profile.Part{{}, part} {
			out := filepath.Join(dir, "out")
			if err := doExport(file, out, c.format, c.table, p); err != nil {
				t.Fatal(c, err)
			}
			st, err := os.Stat(out)
			if err != nil {
				t.Fatal(err)
			}
			sizes[i] = st.Size()
			os.Remove(out)
		}
		if less := sizes[1] < sizes[0]; less != (c.table != "runs") {
			t.Errorf("%v: %d bytes, of a part %d", c, sizes[0], sizes[1])
		}
	}
	page := filepath.Join(dir, "run.html")
	if err := doReport([]string{file}, page, true, &machineRoof{}, part); err != nil {
		t.Fatal(err)
	}
	err := doReport([]string{file}, page, true, &machineRoof{}, profile.Part{First: 5000, Last: 5000})
	if err == nil || !strings.Contains(err.Error(), "there is no step 5000: the recording has steps 1 to") {
		t.Error(err)
	}
}
