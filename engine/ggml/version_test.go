// SPDX-License-Identifier: Apache-2.0

package ggml

import "testing"

func TestVersionInName(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/lib/libllama.so.0.7.0": "0.7.0", "libllama.b6301.so": "b6301",
		"libllama.b7347.so.0.0.1": "b7347",
		"libwhisper.so.1.9.5":     "1.9.5", "libllama.so": "", "libllama.v1.2.so": "1.2",
		"libllama-common.so.0": "",
	} {
		got := ""
		if m := versionInName.FindStringSubmatch(name); m != nil {
			got = m[1]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
