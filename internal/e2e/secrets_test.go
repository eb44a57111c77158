// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
)

// Keys on command lines, of the command that is launched and of the engine, are not in the recording unless
// that is asked for.
func TestSecretsAreNotRecorded(t *testing.T) {
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny")
	const secret = "hunter2hunter2"
	command := append([]string{"env", "OPENAI_API_KEY=" + secret},
		e.Command("llama-bench", "-m", inside, "-t", "1", "-p", "0", "-n", "30", "-r", "1", "-hft",
			secret)...)
	for _, keep := range []bool{false, true} {
		var flags []string
		if keep {
			flags = []string{"--keep-secrets"}
		}
		path := record(t, flags, command...)
		got := load(t, path)
		if len(got.header.Processes) == 0 {
			t.Fatal("there is no process")
		}
		words := slices.Clone(got.header.Meta.Command)
		for _, p := range got.header.Processes {
			words = append(words, p.Cmdline...)
		}
		n := strings.Count(strings.Join(words, " "), secret)
		if keep && n != 3 || !keep && n != 0 {
			t.Errorf("--keep-secrets %v: the secret stands %d times in %q", keep, n, words)
		}
		if !slices.Contains(words, inside) || !slices.Contains(words, "-hft") {
			t.Errorf("more than the secret is missing: %q", words)
		}
		for _, args := range [][]string{{"stat", "-i", path, "--json"},
			{"export", "-i", path, "--table", "runs", "--format", "csv"}, {"report", "-i", path, "-o", "-"}} {
			if r := profinfer(t, args...); r.status != 0 || strings.Contains(r.stdout, secret) != keep &&
				args[0] != "report" {
				t.Errorf("%v: status %d, the secret is in it: %v", args, r.status, !keep)
			}
		}
	}
}
