// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/doctor"
	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/views/terminal"
)

func report() *doctor.Report {
	return &doctor.Report{SchemaVersion: 1, Version: "0.1.0",
		Verdict: doctor.Verdict{OK: true, Text: "profinfer can record evil\x1b[31m (7) here: steps",
			Records:  []string{"steps"},
			Degraded: []string{"watch: polling", "other"}},
		Machine: doctor.Machine{Kernel: "6.18.0", Arch: "amd64", CPUs: 2},
		Checks: []doctor.Check{{Name: "architecture", State: doctor.OK, Found: "amd64"},
			{Name: "process watch", State: doctor.Degraded, Found: "not permitted",
				Means: strings.Repeat("what this means ", 12), Remedy: "be root"},
			{Name: "tracefs", State: doctor.Note, Found: "not needed"}},
		Target: &doctor.Target{PID: 7, Comm: "evil\x1b[31m", Command: []string{"evil", "\u202etxt"},
			Engine: "llama.cpp", Arch: "amd64",
			Parts: []doctor.Part{{Path: "/lib\n/a.so", Role: "llama", BuildID: "0123456789abcdef"},
				{Path: "/b.so", Role: "cpu"}},
			Sites: []doctor.Site{{File: "/lib\n/a.so", Offset: 0x1234, Where: "llama_decode+0x4",
				Insn:  "call 0x4000 <" + strings.Repeat("x", 90) + ">",
				Class: "nop5", Here: "stepped", Role: "step begin", Return: true,
				Yields: "a step: its context, tokens, sequences, positions, outputs"}},
			Findings: []engine.Finding{{What: "tensor.ne", Value: "16", How: "ggml_nelements multiplies it",
				Differ: "history says 24"}},
			Warnings: []string{"steps are dear"}}}
}

func draw(t *testing.T, r *doctor.Report, o terminal.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	for _, width := range []int{0, 200, 80, 50} {
		out := draw(t, report(), terminal.Options{Width: width, Unicode: true})
		lines := strings.Split(strings.TrimSpace(out), "\n")
		const verdict = `profinfer can record evil\x1b[31m (7)`
		if !strings.HasPrefix(lines[0], verdict) || strings.Count(out, verdict) != 2 {
			t.Errorf("width %d: the verdict is not the first and the last thing:\n%s", width, out)
		}
		flat := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{"degraded: watch: polling; and 1 more", "degraded process watch",
			"remedy: be root", "- tracefs",
			"0x1234", "stepped", "step begin (return)", "a step: its context, tokens",
			"DIFFERS: history says 24", "warning steps are dear",
			`/lib\x0a/a.so`, `\u202etxt`, "next: profinfer record -p 7", "llama.cpp of unknown version", "0123456789ab "} {
			if !strings.Contains(flat, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, out)
			}
		}
		if whole := strings.Join(strings.Fields(out), ""); strings.Contains(out, "…") ||
			!strings.Contains(whole, strings.Repeat("x", 90)) {
			t.Errorf("width %d: something is cut:\n%s", width, out)
		}
		for _, l := range lines {
			if width > 0 && terminal.Columns(l) > width && strings.Contains(strings.TrimSpace(l), "  ") {
				t.Errorf("width %d: a line of %d columns: %q", width, terminal.Columns(l), l)
			}
		}
		if strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("width %d: an escape is let through", width)
		}
	}
	if out := draw(t, report(), terminal.Options{Color: true}); !strings.Contains(out, "\x1b[33mdegraded") {
		t.Error("no colour")
	}
}

func TestTextMissing(t *testing.T) {
	r := report()
	r.Verdict = doctor.Verdict{Text: "profinfer cannot record here: no cap_bpf",
		Missing: []string{"no cap_bpf"}, Remedy: "setcap"}
	r.Target = &doctor.Target{PID: 7, Comm: "ls", Problem: "no engine", Signs: []string{"llama_decode"},
		Looked: []string{"/bin/l\x07s"}, Remedy: "load one"}
	r.VerifierLog = "0: R1=ctx\x1b\nprocessed 1"
	out := draw(t, r, terminal.Options{Verbose: true})
	for _, want := range []string{"no cap_bpf\n  setcap\n", "looked for the functions llama_decode",
		`  /bin/l\x07s`, "remedy: load one", `R1=ctx\x1b`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "next:") {
		t.Error("a next step after a refusal")
	}
	if out := draw(t, r, terminal.Options{}); strings.Contains(out, "R1=ctx") {
		t.Error("the verifier's log, not asked for")
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := terminal.JSON(&b, report()); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["schema_version"] != 1.0 || strings.ContainsAny(b.String(), "\x1b") {
		t.Errorf("%s", b.String())
	}
}
