// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCPUs(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := cpuWatch{root: root}
	if got := c.look(); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
	// A machine that is nobody's guest, without frequencies, has nothing to tell.
	c = cpuWatch{root: root}
	write("proc/stat", "cpu  1 2 3 4 5 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\nintr 1\n")
	if got := c.look(); got != nil {
		t.Errorf("without steal: %+v", got)
	}
	// A guest. An offline CPU has no line.
	write("proc/stat", "cpu  1 2 3 4 5 6 7 25 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\ncpu2 1 2 3 4 5 6 7 25 0 0\nintr 1\ncpu3 1 1 1 1 1 1 1 1\n")
	got := c.look()
	if len(got) != 2 || got[0].CPU != 0 || *got[0].Steal != 0 || got[1].CPU != 2 || *got[1].Steal != 250e6 ||
		got[1].KHz != nil {
		t.Errorf("a guest: %+v", got)
	}
	// Frequencies, one of them unreadable.
	c = cpuWatch{root: root}
	write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n")
	write("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "<unknown>\n")
	got = c.look()
	if len(got) != 2 || got[0].KHz == nil || *got[0].KHz != 2400000 || got[1].KHz != nil {
		t.Errorf("frequencies: %+v", got)
	}
	// Kernels before 2.6.11 have no steal time, and what is no number is none.
	for _, text := range []string{"cpu0 1 2 3 4 5 6 7\n", "cpu0 1 2 3 4 5 6 7 x\n",
		"cpu0 1 2 3 4 5 6 7 9223372036854775807\n", "cpu0 1 2 3 4 5 6 7 -1\n"} {
		if got := parseStat([]byte(text)); len(got) != 1 || got[0].Steal != nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if got := parseStat([]byte("cpuX 1\nfoo\n")); got != nil {
		t.Errorf("no CPU: %+v", got)
	}
}
