// SPDX-License-Identifier: Apache-2.0

// Fetch installs the engines that profinfer's tests run: Debian's llama.cpp and npm's
// builds. It is quick where they are installed.
//
//	go run ./internal/engines/fetch [-dir DIR] [debian] [npm [VERSION...]]
//
// Without arguments it fetches all. DIR is PROFINFER_ENGINES by default, else
// profinfer's cache folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/engines"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := flag.String("dir", "", "folder of the engines")
	flag.Parse()
	if err := fetch(ctx, *dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func fetch(ctx context.Context, dir string, args []string) (err error) {
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
		e, err := demo.Debian(ctx, filepath.Join(dir, demo.DebianFolder), demo.Tests, progress)
		if err != nil {
			return err
		}
		fmt.Printf("%s\t%s\n", e.Root, e.Version)
		if e, err = demo.Debian(ctx, filepath.Join(dir, engines.OffloadFolder), demo.Offload, progress); err != nil {
			return err
		}
		fmt.Printf("%s\t%s with Vulkan and RPC\n", e.Root, e.Version)
		if e, err = demo.Debian(ctx, filepath.Join(dir, engines.BLASFolder), demo.BLAS, progress); err != nil {
			return err
		}
		fmt.Printf("%s\t%s with BLAS\n", e.Root, e.Version)
	}
	if npm {
		for _, v := range versions {
			n, err := engines.InstallNPM(ctx, dir, v, progress)
			if err != nil {
				return err
			}
			fmt.Println(n.Libs)
		}
	}
	return nil
}
