// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"os"
	"os/exec"
	"testing"
)

// TestUnits: what of the page needs no browser: figures, colours, scales, search, layout, unpacking
// (web/test/unit).
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		need(t, "Node.js is missing: scripts/deps.sh test")
	}
	if _, err := os.Stat("../../web/node_modules/esbuild"); err != nil {
		need(t, "web/node_modules is missing: make web/node_modules")
	}
	cmd := exec.Command("node", "test/unit.mjs", "--test-reporter=spec")
	cmd.Dir = "../../web"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
