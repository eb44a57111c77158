// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/perfetto"
	"github.com/profinfer/profinfer/views/pprof"
	"github.com/profinfer/profinfer/views/tables"
)

func exportCommand() *cobra.Command {
	var in, out, format, table string
	c := &cobra.Command{
		Use:   "export (--format perfetto|pprof | --table NAME --format ndjson|csv|parquet)",
		Short: "Write a recording for other programs: Perfetto, pprof, or tables",
		Long: `Export writes a recording as a trace for Perfetto (https://ui.perfetto.dev opens the .pftrace.gz as it is), as a
profile for go tool pprof (frames: phase, layer, block, operator; a flame graph with -http), or one of its tables: ` + strings.Join(tables.Names(), ", ") + `.
Times are in ns (CLOCK_BOOTTIME), sizes in bytes; a value that is not known is empty.`,
		Example: `  profinfer export --format perfetto
  profinfer export --format pprof && go tool pprof -http : run.pb.gz
  profinfer export --table ops --format parquet -o ops.parquet
  profinfer export --table steps --format csv | head`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			_, whole := wholeFormats[format]
			switch {
			case format == "":
				return usage("say what to write: --format perfetto or pprof, or --table NAME --format %s", strings.Join(tables.Formats(), "|"))
			case whole && table != "":
				return usage("a table is written as %s; %s takes the whole recording", strings.Join(tables.Formats(), ", "), format)
			case whole:
			case !slices.Contains(tables.Formats(), format):
				return usage("there is no format %q: perfetto, pprof, or for a table %s", format, strings.Join(tables.Formats(), ", "))
			case table == "":
				return usage("--format %s writes a table: --table %s", format, strings.Join(tables.Names(), "|"))
			case !slices.Contains(tables.Names(), table):
				return usage("there is no table %q: %s", table, strings.Join(tables.Names(), ", "))
			}
			return doExport(in, out, format, table)
		},
	}
	f := c.Flags()
	f.StringVarP(&in, "input", "i", defaultTrace, "recording to read")
	f.StringVarP(&out, "output", "o", "", "file to write, - for standard output (default: for perfetto and pprof the recording's name with .pftrace.gz or .pb.gz, else standard output)")
	f.StringVar(&format, "format", "", "perfetto, pprof, ndjson, csv or parquet")
	f.StringVar(&table, "table", "", "table to write")
	return c
}

// wholeFormat is a format that takes a recording as a whole.
type wholeFormat struct {
	suffix string // of the file that is written where none is named
	write  func(io.Writer, func(profile.Sink) (*profile.Header, error)) error
}

var wholeFormats = map[string]wholeFormat{
	"perfetto": {".pftrace.gz", perfetto.Export},
	"pprof":    {".pb.gz", pprof.Export},
}

func doExport(in, out, format, table string) error {
	if sameFile(in, out) {
		return usage("-o %s is the recording itself: name another file", out)
	}
	r, err := trace.Open(in)
	if err != nil {
		return err
	}
	defer r.Close()
	whole, isWhole := wholeFormats[format]
	if out == "" && isWhole {
		out = strings.TrimSuffix(in, ".pinf") + whole.suffix
	}
	binary := isWhole || format == "parquet"
	if (out == "" || out == "-") && binary && term.IsTerminal(int(os.Stdout.Fd())) {
		return usage("%s is binary: name a file with -o", format)
	}
	var h *profile.Header
	err = writeTo(out, func(w io.Writer) error {
		if isWhole {
			return whole.write(w, func(s profile.Sink) (*profile.Header, error) {
				h, err = profile.Replay(r, s)
				return h, err
			})
		}
		h, err = tables.Export(r, table, format, w)
		return err
	})
	if err != nil {
		return err
	}
	if h != nil && h.Torn != "" {
		fmt.Fprintln(os.Stderr, "profinfer: warning:", in+":", h.Torn)
	}
	if out != "" && out != "-" {
		fmt.Fprintln(os.Stderr, "profinfer: wrote", out)
	}
	return nil
}

// writeTo writes a file whole or not at all: what stood there stays until the new one is complete.
func writeTo(path string, fn func(io.Writer) error) error {
	if path == "" || path == "-" {
		w := bufio.NewWriterSize(os.Stdout, 1<<16)
		if err := fn(w); err != nil {
			return err
		}
		return w.Flush()
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() { // a device, a pipe
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return fn(f)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriterSize(f, 1<<16)
	err = fn(w)
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}
