// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/record"
)

func demoCommand() *cobra.Command {
	var out, cache string
	var threads int
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show profinfer at work: a real llama.cpp on models made for it",
		Long: `Demo takes the llama.cpp of this machine, or fetches Debian's into a private folder, makes two models (one
dense, one mixture of experts; their shapes are real, their weights random), records a benchmark of each,
prints the statistics and writes the exports.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if threads < 1 || threads > 1024 {
				return usage("--threads is a number from 1 to 1024")
			}
			return doDemo(ctx, out, cache, threads)
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "demo", "folder for recordings and exports")
	f.StringVar(&cache, "cache", "", "folder for the engine and the models (default: profinfer in the user's cache folder)")
	f.IntVarP(&threads, "threads", "t", min(runtime.NumCPU(), 8), "threads of the engine")
	return c
}

// demoModels are recorded one after the other.
var demoModels = []string{"llama-small", "moe-small"}

func doDemo(ctx context.Context, out, cache string, threads int) error {
	if err := probe.Check(); err != nil { // before anything is downloaded
		return err
	}
	if cache == "" {
		var err error
		if cache, err = demo.Cache(); err != nil {
			return err
		}
	}
	say := func(format string, a ...any) { fmt.Fprintf(os.Stderr, "\n== "+format+"\n", a...) }
	bar := &stage{tty: term.IsTerminal(int(os.Stderr.Fd()))}

	say("The engine")
	e, err := demo.Provide(ctx, cache, bar.show)
	bar.end()
	if err != nil {
		return fmt.Errorf("no llama.cpp to show: %w", err)
	}
	where := "of this machine"
	if e.Root != "" {
		where = "Debian's, in " + e.Root
	}
	fmt.Fprintf(os.Stderr, "llama.cpp %s: %s\n", where, e.Version)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var recorded []string
	for _, name := range demoModels {
		spec, err := demo.Model(name)
		if err != nil {
			return err
		}
		say("%s: %s", name, spec.About)
		path, err := demo.Ensure(ctx, e.ModelDir(filepath.Join(cache, "models")), spec, bar.show)
		bar.end()
		if err != nil {
			return err
		}
		inside, err := e.Inside(path)
		if err != nil {
			return err
		}
		trace := filepath.Join(out, name+".pinf")
		if err := demoRun(ctx, trace, e.Command("llama-bench", "-m", inside, "-t", fmt.Sprint(threads), "-p", "128", "-n", "64", "-r", "1")); err != nil {
			return err
		}
		if err := doStat(trace, profile.StatOptions{By: profile.ByWeight}, false, false); err != nil {
			return err
		}
		fmt.Println()
		recorded = append(recorded, trace)
	}
	say("Exports")
	for _, trace := range recorded {
		base := strings.TrimSuffix(trace, ".pinf")
		if err := doExport(trace, base+".pftrace.gz", "perfetto", ""); err != nil {
			return err
		}
		for _, table := range []string{"steps", "ops"} {
			if err := doExport(trace, base+"-"+table+".parquet", "parquet", table); err != nil {
				return err
			}
		}
	}
	fmt.Printf(`
What next:
  bin/profinfer stat -i %[1]s --by op                 operators by type
  bin/profinfer stat -i %[1]s --by layer --phase decode
  bin/profinfer export -i %[1]s --table ops --format csv | head
  open %[2]s in https://ui.perfetto.dev
  profinfer record -- llama-bench -m YOUR.gguf        your own model; then: profinfer stat
  profinfer record -p $(pidof llama-server) --duration 10s
  profinfer doctor                                    what this machine can do
`, recorded[0], strings.TrimSuffix(recorded[0], ".pinf")+".pftrace.gz")
	return nil
}

func demoRun(ctx context.Context, trace string, command []string) error {
	fmt.Fprintln(os.Stderr, "$ profinfer record -o", trace, "--", strings.Join(command, " "))
	opt := record.Options{Output: trace, Command: command, Level: engine.LevelOp, Sched: true, Tool: version()}
	res, err := runRecording(ctx, opt, false)
	if err != nil {
		return err
	}
	if res.Interrupted {
		return &statusError{130, fmt.Errorf("interrupted")}
	}
	if res.Status != 0 {
		return fmt.Errorf("llama-bench ended with status %d", res.Status)
	}
	return nil
}

// stage tells how far a download or a model has come.
type stage struct {
	tty   bool
	what  string
	last  time.Time
	began time.Time
	shown bool
}

func (s *stage) show(what string, done, total int64) {
	if what != s.what {
		s.end()
		s.what, s.began = what, time.Now()
		if !s.tty {
			fmt.Fprintln(os.Stderr, what)
		}
	}
	if !s.tty || time.Since(s.began) < 2*time.Second || time.Since(s.last) < 200*time.Millisecond {
		return
	}
	s.last, s.shown = time.Now(), true
	if total > 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s  %d %% of %d MB", what, 100*done/total, total/1e6)
	} else {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", what)
	}
}

func (s *stage) end() {
	if s.shown {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		s.shown = false
	}
}
