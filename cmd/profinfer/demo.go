// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/demo/gguf"
	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/record"
)

func demoCommand() *cobra.Command {
	var out, cache, model, typ string
	var threads int
	var skew float64
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show profinfer at work: a real llama.cpp on models made for it",
		Long: `Demo takes the llama.cpp of this machine, or fetches Debian's into a private folder, makes two models (one
dense, one mixture of experts; their shapes are real, their weights random), records a benchmark of each,
prints the statistics, and writes the page of report and the exports.

With --model it only writes the file of one model, for an engine of your own, and prints its path.`,
		Example: `  sudo profinfer demo
  profinfer demo --model list
  profinfer demo --model gemma2-2b --type q8_0 -o models`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if typ != "" && model == "" {
				return usage("--type is the type of the weights of the model that --model names")
			}
			if skew != 0 && model == "" {
				return usage("--skew is that of the model that --model names")
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if threads < 1 || threads > 1024 {
				return usage("--threads is a number from 1 to 1024")
			}
			if model != "" {
				return demoModel(ctx, out, model, typ, skew)
			}
			return doDemo(ctx, out, cache, threads)
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "demo", "folder for recordings and exports, or for the file of --model")
	f.StringVar(&model, "model", "", "only write the file of this model; list: tell which there are")
	f.StringVar(&typ, "type", "", "type of its weights: f16, q8_0, q4_0 (default), or mixed: layers take turns in the three")
	f.Float64Var(&skew, "skew", 0, "how unequal a model's experts are chosen (0: nearly equally; 1: clearly not)")
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
	top, err := (&roofFlags{}).roof()
	if err != nil {
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
		if err := doStat(trace, profile.StatOptions{By: profile.ByWeight}, top, false, false); err != nil {
			return err
		}
		fmt.Println()
		recorded = append(recorded, trace)
	}
	say("Exports")
	for _, trace := range recorded {
		base := strings.TrimSuffix(trace, ".pinf")
		if err := doReport([]string{trace}, base+".html", top); err != nil {
			return err
		}
		for _, format := range []string{"perfetto", "pprof"} {
			if err := doExport(trace, base+wholeFormats[format].suffix, format, ""); err != nil {
				return err
			}
		}
		for _, table := range []string{"steps", "ops"} {
			if err := doExport(trace, base+"-"+table+".parquet", "parquet", table); err != nil {
				return err
			}
		}
	}
	fmt.Printf(`
What next:
  open %[2]s.html in a browser                 verdict, operator graph, timeline, plots
  bin/profinfer stat -i %[1]s --by op                 operators by type
  bin/profinfer stat -i %[1]s --by layer --phase decode
  bin/profinfer export -i %[1]s --table ops --format csv | head
  open %[2]s.pftrace.gz in https://ui.perfetto.dev
  go tool pprof -http : %[2]s.pb.gz            a flame graph of operators
  profinfer record -- llama-bench -m YOUR.gguf        your own model; then: profinfer stat
  profinfer record -p $(pidof llama-server) --duration 10s
  profinfer doctor                                    what this machine can do
`, recorded[0], strings.TrimSuffix(recorded[0], ".pinf"))
	return nil
}

// demoTypes are the types of weights that --type takes: those in which engines mostly run models.
var demoTypes = []gguf.Type{gguf.F16, gguf.Q8_0, gguf.Q4_0}

// demoModel writes one model's file to folder out and prints its path.
func demoModel(ctx context.Context, out, name, typ string, skew float64) error {
	if name == "list" {
		return demoList(os.Stdout)
	}
	spec, err := demo.Model(name)
	if err != nil {
		var list strings.Builder
		if err := demoList(&list); err != nil {
			return err
		}
		return usage("there is no model %q. There are:\n%s", name, strings.TrimRight(list.String(), "\n"))
	}
	switch typ {
	case "":
	case "mixed":
		spec.Mixed = true
	default:
		if spec.Type, err = gguf.ParseType(typ); err != nil || !slices.Contains(demoTypes, spec.Type) {
			return usage("--type is one of f16, q8_0, q4_0, mixed")
		}
	}
	if skew != 0 && (spec.Experts == 0 || !(skew > 0 && skew <= demo.MaxSkew)) {
		return usage("--skew is for models with experts, and above 0 and at most %g", demo.MaxSkew)
	}
	spec.Skew = skew
	bar := &stage{tty: term.IsTerminal(int(os.Stderr.Fd()))}
	path, err := demo.Ensure(ctx, out, spec, bar.show)
	bar.end()
	if err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}

// big writes a number in thousands of millions, or in millions if it is smaller.
func big(n int64, unit, small string) string {
	if n < 1e9 {
		return fmt.Sprintf("%.0f %s", float64(n)/1e6, small)
	}
	return fmt.Sprintf("%.2f %s", float64(n)/1e9, unit)
}

// demoList writes a table of the models that there are.
func demoList(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	name := func(s string) string { return fmt.Sprintf("%-17s", s) } // the one column that is read from its left
	head := name("model") + "\tlayers\twidth\theads\tfeed-forward\tvocabulary\tparameters\t"
	for _, typ := range demoTypes {
		head += typ.String() + "\t"
	}
	fmt.Fprintln(t, head)
	for _, s := range demo.Models() {
		if s.Vocabulary {
			continue // the same shape
		}
		params, err := s.Params()
		if err != nil {
			return err
		}
		ff := fmt.Sprint(s.FF)
		if s.Experts > 0 {
			ff = fmt.Sprintf("%d of %d x %d", s.Used, s.Experts, s.ExpertFF)
		}
		row := fmt.Sprintf("%s\t%d\t%d\t%d/%d of %d\t%s\t%d\t%s\t", name(s.Name), s.Layers, s.Embd, s.Heads, s.KV, s.Head, ff, s.Tokens, big(params, "B", "M"))
		for _, s.Type = range demoTypes {
			size, err := s.Size()
			if err != nil {
				return err
			}
			row += big(size, "GB", "MB") + "\t"
		}
		fmt.Fprintln(t, row)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "NAME-vocab is the same with a vocabulary, for programs that take text")
	return err
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
