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
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
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
		t.Fatalf(format, a...)
	}
	t.Skipf(format, a...)
}

// install ends a sentence about an engine that is missing.
const install = "; install with: go run ./internal/engines/fetch"

// Chroot says whether this process may run programs in a root of their own, as Debian's
// llama.cpp is run. User 0 of a container may lack that.
var Chroot = sync.OnceValue(func() error {
	c := exec.Command("true")
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: "/"}
	err := c.Run()
	if errors.Is(err, syscall.EPERM) {
		return errors.New("needs root: Debian's llama.cpp runs in a root of its own, and chroot is not permitted here")
	}
	return err
})

// Root ends the test if it may not run programs in a root of their own.
func Root(t testing.TB) {
	t.Helper()
	if err := Chroot(); err != nil {
		need(t, "%v", err)
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
		need(t, "Debian's llama.cpp is not in %s"+install, root)
	}
	return e
}

// Offload returns Debian's llama.cpp with a Vulkan backend and a device for it, and with the RPC backend and
// ggml-rpc-server, in a root of its own: where a backend is installed, every run loads it.
func Offload(t testing.TB) demo.Engine {
	t.Helper()
	return installed(t, OffloadFolder, demo.Offload, "its Vulkan and RPC backends")
}

// BLAS returns Debian's llama.cpp with a BLAS backend, in a root of its own.
func BLAS(t testing.TB) demo.Engine {
	t.Helper()
	return installed(t, BLASFolder, demo.BLAS, "a BLAS backend")
}

func installed(t testing.TB, folder string, with []string, what string) demo.Engine {
	t.Helper()
	Root(t)
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, folder)
	e, ok := demo.DebianInstalled(root, with)
	if !ok {
		need(t, "Debian's llama.cpp with "+what+" is not in %s"+install, root)
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
	if errors.Is(err, fs.ErrNotExist) {
		need(t, "npm's builds of llama.cpp are not in %s"+install, filepath.Join(dir, "npm"))
	}
	if err != nil {
		need(t, "npm's build %s of llama.cpp: %v"+install, version, err)
	}
	return n
}
