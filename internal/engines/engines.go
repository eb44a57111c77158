// SPDX-License-Identifier: Apache-2.0

// Package engines gives profinfer's tests real inference engines and models: Debian's
// llama.cpp in a private root, and npm's builds of several years. They are installed
// once into one folder, by
//
//	go run ./internal/engines/fetch
//
// and looked for in the folder that PROFINFER_ENGINES names, profinfer's cache folder if
// it is not set. A test that needs one of them is skipped where it is not installed,
// and fails where PROFINFER_REQUIRE_BPF=1 says that everything has to run, as CI does.
package engines

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/profinfer/profinfer/demo"
)

// Dir returns the folder with the engines: PROFINFER_ENGINES, or the cache folder.
func Dir() (string, error) {
	if d := os.Getenv("PROFINFER_ENGINES"); d != "" {
		return filepath.Abs(d)
	}
	return demo.Cache()
}

// need ends the test: fails it where everything has to run, else skips it.
func need(t testing.TB, format string, a ...any) {
	t.Helper()
	if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
		t.Fatalf(format+"\ninstall with: go run ./internal/engines/fetch", a...)
	}
	t.Skipf(format+"; install with: go run ./internal/engines/fetch", a...)
}

// Root ends the test if it does not run as root, which chroot and eBPF ask for.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		need(t, "this test needs root")
	}
}

// Debian returns Debian's llama.cpp with all programs of [demo.Tests].
func Debian(t testing.TB) demo.Engine {
	t.Helper()
	Root(t)
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, demo.DebianFolder)
	e, ok := demo.DebianInstalled(root, demo.Tests)
	if !ok {
		need(t, "Debian's llama.cpp is not in %s", root)
	}
	return e
}

// Offload returns Debian's llama.cpp with a Vulkan backend and a device for it, and with the RPC backend and ggml-rpc-server, in a root of its own: where a backend is
// installed, every run loads it.
func Offload(t testing.TB) demo.Engine {
	t.Helper()
	Root(t)
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, OffloadFolder)
	e, ok := demo.DebianInstalled(root, demo.Offload)
	if !ok {
		need(t, "Debian's llama.cpp with its Vulkan and RPC backends is not in %s", root)
	}
	return e
}

// BLAS returns Debian's llama.cpp with a BLAS backend, in a root of its own.
func BLAS(t testing.TB) demo.Engine {
	t.Helper()
	Root(t)
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, BLASFolder)
	e, ok := demo.DebianInstalled(root, demo.BLAS)
	if !ok {
		need(t, "Debian's llama.cpp with a BLAS backend is not in %s", root)
	}
	return e
}

// BLASFolder is the name of the folder with the engine of [BLAS].
const BLASFolder = "debian-sid-blas"

// OffloadFolder is the name of the folder with the engine of [Offload].
const OffloadFolder = "debian-sid-offload"

// Model writes the model of that name (see [demo.Models]) where the engine can see it,
// if it is not there yet. It returns its path for this process, and for the engine's.
func Model(t testing.TB, e demo.Engine, name string) (path, inside string) {
	t.Helper()
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := demo.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	path, err = demo.Ensure(context.Background(), e.ModelDir(filepath.Join(dir, "models")), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	inside, err = e.Inside(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, inside
}

// NPM returns npm's build of that version.
func NPM(t testing.TB, version string) Npm {
	t.Helper()
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	n, err := findNpm(context.Background(), dir, version)
	if err != nil {
		need(t, "npm's build %s of llama.cpp: %v", version, err)
	}
	return n
}
