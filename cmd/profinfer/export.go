// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/profinfer/profinfer/internal/safeopen"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/dot"
	"github.com/profinfer/profinfer/views/perfetto"
	"github.com/profinfer/profinfer/views/pprof"
	"github.com/profinfer/profinfer/views/tables"
)

func exportCommand() *cobra.Command {
	var given []string
	var out, format, table, color string
	var only partFlags
	var graph dot.Options
	c := &cobra.Command{
		Use:   "export (--format perfetto|pprof|dot | --table NAME --format ndjson|csv|parquet) [FILE]",
		Short: "Write a recording for other programs: Perfetto, pprof, Graphviz, or tables",
		Long: `Export writes a recording as a trace for Perfetto (https://ui.perfetto.dev opens the .pftrace.gz as
it is), as a profile for go tool pprof (frames: phase, layer, block, operator; a flame graph with
-http), as the operator graph of a phase for Graphviz, or one of its tables:
` + wrapped(tables.Names()) + `
Times are in ns (CLOCK_BOOTTIME), sizes in bytes; a value that is not known is empty.
Of a long recording, --from, --to, --steps and --phase write a part: the steps that lie wholly in
it, with their numbers. What lies outside is not unpacked.
The file is readable by its owner alone. A file named with -o is replaced; beside the recording only
an earlier export is.`,
		Example: `  profinfer export --format perfetto
  profinfer export --format pprof && go tool pprof -http : run.pb.gz
  profinfer export server.pinf --format perfetto
  profinfer export --format dot --color bandwidth | dot -Tsvg -o graph.svg
  profinfer export --table ops --format parquet -o ops.parquet
  profinfer export --table steps --format csv | head
  profinfer export --format perfetto --from 90s --to 95s`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			whole, isWhole := wholeFormats[format]
			for _, name := range []string{"color", "layers"} {
				if c.Flags().Changed(name) && format != "dot" {
					return usage("--%s is for --format dot", name)
				}
			}
			switch {
			case format == "":
				return usage("say what to write: --format perfetto, pprof or dot, or --table NAME --format %s", strings.Join(tables.Formats(), "|"))
			case isWhole && table != "":
				return usage("a table is written as %s; %s takes the whole recording",
					strings.Join(tables.Formats(), ", "), format)
			case isWhole:
			case !slices.Contains(tables.Formats(), format):
				return usage("there is no format %q: perfetto, pprof, dot, or for a table %s", format,
					strings.Join(tables.Formats(), ", "))
			case table == "":
				return usage("--format %s writes a table: --table %s", format,
					strings.Join(tables.Names(), "|"))
			case !slices.Contains(tables.Names(), table):
				return usage("there is no table %q: %s", table, strings.Join(tables.Names(), ", "))
			}
			var err error
			if graph.Color, err = dot.ParseColor(color); err != nil {
				return &statusError{statusUsage, err}
			}
			part, err := only.part()
			if err != nil {
				return err
			}
			if len(part.Phases) > 0 {
				graph.Phase = part.Phases[0]
			}
			if format == "dot" {
				part.Phases = nil // it draws one phase as ever
			}
			files, err := inputs(c, given, args)
			if err != nil {
				return err
			}
			if len(files) > 1 {
				return usage("export reads one recording, not %d: %s", len(files), strings.Join(files, ", "))
			}
			in := files[0]
			if format != "dot" {
				return doExport(in, out, format, table, part)
			}
			whole.write = func(w io.Writer, replay func(profile.Sink) (*profile.Header, error)) error {
				return dot.Export(w, replay, graph)
			}
			return exportWhole(in, out, format, whole, part)
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&given, "input", "i", []string{defaultTrace}, "recording to read, as FILE is")
	f.StringVarP(&out, "output", "o", "",
		"file to write, - for standard output (default: for perfetto and pprof the recording's name with .pftrace.gz or .pb.gz, else standard output)")
	f.StringVar(&format, "format", "", "perfetto, pprof, dot, ndjson, csv or parquet")
	only.add(c)
	f.StringVar(&only.phase, "phase", "",
		"show only this phase: prefill, decode or encode (dot draws one: by default decode where there is one)")
	f.StringVar(&color, "color", "share", "dot: colour by share, bandwidth or none")
	f.BoolVar(&graph.Layers, "layers", false, "dot: every layer by itself, not those that are alike as one")
	f.StringVar(&table, "table", "", "table to write")
	return c
}

// wholeFormat is a format that is written from a whole recording.
type wholeFormat struct {
	suffix string // suffix of the default output file; empty: text, written to standard output
	write  func(io.Writer, func(profile.Sink) (*profile.Header, error)) error
}

var wholeFormats = map[string]wholeFormat{
	"perfetto": {".pftrace.gz", perfetto.Export},
	"pprof":    {".pb.gz", pprof.Export},
	"dot":      {}, // has options: exportCommand
}

func doExport(in, out, format, table string, part profile.Part) error {
	if whole, ok := wholeFormats[format]; ok {
		return exportWhole(in, out, format, whole, part)
	}
	return exportWith(in, out, true, format, format == "parquet", part,
		func(w io.Writer, r *trace.Reader, c *profile.Chosen) (*profile.Header, error) {
			return tables.ExportPart(r, c, table, format, w)
		})
}

// packed reports whether a file can be an export with the default name: these are gzipped.
func packed(begin []byte) bool { return bytes.HasPrefix(begin, []byte("\x1f\x8b\x08")) }

// exportWhole writes a recording in a format that needs the whole recording.
func exportWhole(in, out, format string, f wholeFormat, part profile.Part) error {
	asked := out != ""
	if !asked && f.suffix != "" {
		out = strings.TrimSuffix(in, ".pinf") + f.suffix
	}
	return exportWith(in, out, asked, format, f.suffix != "", part,
		func(w io.Writer, r *trace.Reader, c *profile.Chosen) (h *profile.Header, err error) {
			err = f.write(w, func(s profile.Sink) (*profile.Header, error) {
				h, err = profile.ReplayPart(r, s, c, nil)
				return h, err
			})
			return h, err
		})
}

func exportWith(in, out string, asked bool, format string, binary bool, part profile.Part,
	write func(io.Writer, *trace.Reader, *profile.Chosen) (*profile.Header, error)) error {
	if sameFile(in, out) {
		return usage("-o %s is the recording itself: name another file", out)
	}
	r, err := trace.Open(in)
	if err != nil {
		return err
	}
	defer r.Close()
	if (out == "" || out == "-") && binary && term.IsTerminal(int(os.Stdout.Fd())) {
		return usage("%s is binary: name a file with -o", format)
	}
	chosen, err := find(in, part)
	if err != nil {
		return err
	}
	var h *profile.Header
	err = writeTo(out, asked, packed, func(w io.Writer) error {
		if out != "" && out != "-" || !endsInTerminal() {
			defer showProgress(r)()
		}
		h, err = write(w, r, chosen)
		return err
	})
	if err != nil {
		return err
	}
	if h != nil && h.Torn != "" {
		warn("%s: %s", in, h.Torn)
	}
	if out != "" && out != "-" {
		say("profinfer: wrote %s", out)
	}
	return nil
}

// writeTo writes a file completely or not at all, like safeopen.Write, or writes to standard output.
func writeTo(path string, asked bool, ours func(begin []byte) bool, fn func(io.Writer) error) error {
	if path != "" && path != "-" {
		return safeopen.Write(path, asked, ours, fn)
	}
	w := results(os.Stdout, true)
	if err := fn(w); err != nil {
		return err
	}
	return w.Flush()
}

// wrapped lists names in lines of at most 100 columns.
func wrapped(names []string) string {
	var out strings.Builder
	width := 0
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		} else {
			name += "."
		}
		switch {
		case width == 0:
		case width+1+len(name) > 100:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(name)
		width += len(name)
	}
	return out.String()
}
