// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/probe"
)

var engineFile string

// engineRun records a real engine once and returns the recording; empty where that cannot be done,
// unless everything has to run.
func engineRun(t *testing.T) string {
	t.Helper()
	if engineFile != "" {
		return engineFile
	}
	ok := t.Run("record", func(t *testing.T) {
		if err := probe.Check(); err != nil {
			need(t, "%v", err)
		}
		e := engines.Debian(t)
		_, inside := engines.Model(t, e, "llama-tiny")
		file := filepath.Join(filepath.Dir(profinfer(t)), "engine.pinf")
		argv := append([]string{"record", "-o", file, "--"},
			e.Command("llama-bench", "-m", inside, "-t", "2", "-p", "32", "-n", "48", "-r", "1")...)
		if out, err := exec.Command(profinfer(t), argv...).CombinedOutput(); err != nil {
			t.Fatalf("record: %v\n%s", err, out)
		}
		engineFile = file
	})
	if !ok {
		t.FailNow()
	}
	return engineFile
}

// The views of a real engine's recording, in every size and theme.
func TestEngineRun(t *testing.T) {
	tools(t)
	file := engineRun(t)
	if file == "" {
		t.Skip("no real engine was recorded")
	}
	suite(t, "views", plan{Pages: []page{{Name: "engine",
		URL: write(t, "engine", load(t, "engine.pinf", file)), Looks: [][3]int{light, dark, small,
			smdrk}, Thorough: true}}})
}
