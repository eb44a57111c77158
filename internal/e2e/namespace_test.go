// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/engines"
)

// A server whose libraries were replaced on disk by an upgrade, and which lives in a mount
// namespace where its files have names that mean something else, or nothing, outside.
func TestReplacedFilesInAnotherNamespace(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, "llama-tiny-vocab")
	dir := t.TempDir()
	// a copy of the libraries, mounted over the originals in a namespace of the server's own
	libs := filepath.Join(e.Root, "usr/lib/x86_64-linux-gnu")
	if _, err := os.Stat(libs); err != nil {
		t.Skip("not on this architecture: ", err)
	}
	if out, err := exec.Command("cp", "-a", libs+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	var log bytes.Buffer
	command := strings.Join(e.Command("llama-server", "-m", inside, "--port", port, "-c", "512", "-t", "1",
		"--no-webui"), " ")
	cmd := start(t, &log, "unshare", "--mount", "--propagation", "private", "sh", "-c",
		fmt.Sprintf("mount --bind %s %s && exec %s", dir, libs, command))
	s := &server{url: "http://127.0.0.1:" + port, pid: cmd.Process.Pid}
	if !s.up() {
		t.Fatalf("llama-server does not answer:\n%s", log.String())
	}
	// the upgrade: every library of the engine gets a new file in its place, which is no library
	n := 0
	filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		if err == nil && st.Mode().IsRegular() &&
			(strings.HasPrefix(st.Name(), "libggml") || strings.HasPrefix(st.Name(), "libllama")) {
			os.Remove(p)
			os.WriteFile(p, []byte("not a library"), 0o644)
			n++
		}
		return nil
	})
	if n < 4 {
		t.Fatalf("%d libraries were replaced", n)
	}
	done := make(chan result)
	path := filepath.Join(t.TempDir(), "run.pinf")
	go func() { done <- profinfer(t, "record", "-p", strconv.Itoa(s.pid), "--duration", "1s", "-o", path) }()
	for busy := true; busy; {
		if _, err := s.complete(t.Context(), 1, 40); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-done:
			if r.status != 0 {
				t.Fatalf("record: status %d: %s", r.status, r.stderr)
			}
			busy = false
		default:
		}
	}
	r := load(t, path)
	whole(t, r)
	if p := r.header.Processes[0]; p.EngineVersion == "" || len(p.Files) < 3 {
		t.Errorf("engine %q %q, %d files", p.Engine, p.EngineVersion, len(p.Files))
	}
}
