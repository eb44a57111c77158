// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"path/filepath"
	"strings"
	"testing"
)

// FuzzURIs reads what apt says it would fetch: names of packages' files and nothing else, whatever stands
// there.
func FuzzURIs(f *testing.F) {
	f.Add("'http://deb.example/debian/pool/main/l/llama.cpp/llama.cpp_9608_amd64.deb' llama.cpp_9608_amd64.deb 12345 SHA256:00\n'x' y.deb 7\n")
	f.Add("'x' ../../etc/passwd 1 x\n'x' .. 1\n'x' /a/..deb -9\nx y z\n'x' a.deb 9223372036854775807 x\n'x' b.deb 9223372036854775807 x\n")
	f.Fuzz(func(t *testing.T, list string) {
		files, total := parseURIs(list)
		if total < 0 || len(files) > 1+strings.Count(list, "\n") {
			t.Fatalf("%d bytes, %q", total, files)
		}
		for _, name := range files {
			if got := filepath.Join("/archives", name.name); filepath.Dir(got) != "/archives" ||
				!strings.HasSuffix(got, ".deb") {
				t.Fatalf("%q is %q", name.name, got)
			}
		}
	})
}
