// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/demo/gguf"
	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/internal/format"
)

func demoCommand() *cobra.Command {
	var out, cache, model, typ string
	var threads int
	var skew float64
	c := &cobra.Command{
		Use:   "demo",
		Short: "Record a real llama.cpp on two made-up models, and show the results",
		Long: `Demo takes the llama.cpp of this machine, or fetches Debian's into a private folder. It makes two
models (one dense, one mixture of experts; real shapes, random weights), records a benchmark of
each, prints the statistics, and writes an HTML report and a Perfetto trace of each. It says
beforehand what it fetches and leaves, and how to remove it.

Where nothing can be recorded (no privileges, no eBPF, no llama.cpp to be had) it says why, and
shows a recording that is part of the program.

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
			ctx, stop := untilSignal(os.Interrupt, syscall.SIGTERM)
			defer stop()
			if threads < 1 || threads > 1024 {
				return usage("--threads is a number from 1 to 1024")
			}
			if model != "" {
				return demoModel(ctx, out, model, typ, skew)
			}
			d := &demoRun{out: out, cache: cache, threads: threads,
				bar: &stage{tty: term.IsTerminal(int(os.Stderr.Fd()))}}
			return d.run(ctx)
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "profinfer-demo",
		"folder for recordings and exports, or for the file of --model")
	f.StringVar(&model, "model", "", "only write the file of this model; list: tell which there are")
	f.StringVar(&typ, "type", "", "type of its weights: f16, q8_0, q4_0 (default), or mixed: layers take turns in the three")
	f.Float64Var(&skew, "skew", 0,
		"how unequal a model's experts are chosen (0: nearly equally; 1: clearly not)")
	f.StringVar(&cache, "cache", "",
		"folder for the engine and the models (default: profinfer in the user's cache folder)")
	f.IntVarP(&threads, "threads", "t", min(runtime.NumCPU(), 8), "threads of the engine")
	return c
}

// demoTypes are the types of weights that --type accepts: those that engines mostly run.
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
	bar.clear()
	if err != nil {
		return err
	}
	fmt.Println(clean.Message(path))
	return nil
}

// demoList writes a table of the available models.
func demoList(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// the only left-aligned column
	name := func(s string) string { return fmt.Sprintf("%-17s", s) }
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
		row := fmt.Sprintf("%s\t%d\t%d\t%d/%d of %d\t%s\t%d\t%s\t", name(s.Name), s.Layers, s.Embd, s.Heads,
			s.KV, s.Head, ff, s.Tokens, format.Billions(params, "B", "M"))
		for _, s.Type = range demoTypes {
			size, err := s.Size()
			if err != nil {
				return err
			}
			row += format.Billions(size, "GB", "MB") + "\t"
		}
		fmt.Fprintln(t, row)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "NAME-vocab is the same with a vocabulary, for programs that take text")
	return err
}
