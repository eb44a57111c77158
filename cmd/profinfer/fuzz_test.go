// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/peaks"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/dot"
	"github.com/profinfer/profinfer/views/perfetto"
	"github.com/profinfer/profinfer/views/pprof"
	"github.com/profinfer/profinfer/views/report"
	"github.com/profinfer/profinfer/views/tables"
	"github.com/profinfer/profinfer/views/terminal"
)

const graphWay = 2

// drawn are all ways in which a recording is shown.
func drawn() (all []func(*trace.Reader, io.Writer) error) {
	whole := func(export func(io.Writer, func(profile.Sink) (*profile.Header, error)) error) {
		all = append(all, func(r *trace.Reader, w io.Writer) error {
			return export(w, func(s profile.Sink) (*profile.Header, error) { return profile.Replay(r, s) })
		})
	}
	whole(perfetto.Export)
	whole(pprof.Export)
	whole(func(w io.Writer, replay func(profile.Sink) (*profile.Header, error)) error {
		return dot.Export(w, replay, dot.Options{Layers: true})
	})
	whole(func(w io.Writer, replay func(profile.Sink) (*profile.Header, error)) error {
		run, err := report.Load("x.pinf", replay)
		if err != nil {
			return err
		}
		return report.Write(w, "test", []*report.Run{run})
	})
	for _, by := range []facts.By{facts.ByWeight, facts.ByLayer, facts.ByThread, facts.ByStep,
		facts.ByExpert} {
		whole(func(w io.Writer, replay func(profile.Sink) (*profile.Header, error)) error {
			stat, slow := stat.New(stat.Options{By: by}), slow.New(slow.Options{Top: 10})
			h, err := replay(profile.Tee(stat, slow))
			if err != nil {
				return err
			}
			o := terminal.Options{File: "x.pinf", Width: 80, Verbose: by == facts.ByThread,
				Unicode: by != facts.ByLayer}
			s := stat.Finish(h)
			if err := terminal.Stat(w, s, o); err != nil {
				return err
			}
			return terminal.Slow(w, s, slow.Finish(h), o)
		})
	}
	for i, name := range tables.Names() {
		format := tables.Formats()[i%2] // a row of Parquet is the same struct, and its writer slow
		all = append(all, func(r *trace.Reader, w io.Writer) error {
			_, err := tables.Export(r, name, format, w)
			return err
		})
	}
	return all
}

// FuzzViews draws recordings in which anything is changed, in every way there is: no error, and text is text.
func FuzzViews(f *testing.F) {
	files, err := recording.Small()
	if err != nil {
		f.Fatal(err)
	}
	ways := drawn()
	for way := range ways {
		f.Add(uint8(way), uint8(way), []byte{byte(3 + way%5), byte(way), 0, 1, 40, 0, 0, 2, 13, 7,
			byte(way / 2), 0, 7, 50, 2, 0, 1, 17, 5, 11, 0, 0, 99, 1, 0, 3, 16})
	}
	f.Fuzz(func(t *testing.T, which, way uint8, edits []byte) {
		file, err := recording.Alter(files[int(which)%len(files)], edits)
		if err != nil {
			return
		}
		r, err := trace.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var out bytes.Buffer
		n := int(way) % len(ways)
		if err := ways[n](r, &out); err != nil {
			if n != graphWay || out.Len() > 0 { // there can be none
				t.Fatalf("way %d: %v", n, err)
			}
			return
		}
		if out.Len() > 64<<20 {
			t.Fatalf("%d MB of %d bytes", out.Len()>>20, len(file))
		}
		if n < 2 {
			return // packed
		}
		if !utf8.Valid(out.Bytes()) || bytes.ContainsAny(out.Bytes(), "\x1b\x00") {
			t.Fatalf("way %d is no text", n)
		}
	})
}

// FuzzArguments reads what is typed: sizes, percentages, rates, processes. What is taken is within its
// bounds.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"500M", "2G", "4096K", "1e300", "inf", "nan", "0x1p70", "1048576T", "0.5%",
		"none", "1e-320%", "12,34 56", "-1", "$(pidof x)", "51.2GB/s", "1.2TB/s",
		"47.7GiB/s", "1e5", "250", "1.2TFLOP/s", "4294967296", "--", "-p"} {
		f.Add(s)
	}
	root := &cobra.Command{Use: "x"}
	var given pids
	sub := &cobra.Command{Use: "record", Run: func(*cobra.Command, []string) {}}
	addPIDs(sub.Flags(), &given, "")
	root.AddCommand(sub)
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := bytesOf(s); err == nil && (n < 0 || n > 1<<60) {
			t.Fatalf("%q are %d bytes", s, n)
		}
		if p, err := percent(s); err == nil && (!(p >= 0 && p <= 1) || p == 0 && s != "" && s != "none") {
			t.Fatalf("%q are %v", s, p)
		}
		for _, parse := range []func(string) (float64, error){peaks.ParseBandwidth, peaks.ParseFlops} {
			if v, err := parse(s); err == nil && (!(v > 0 && v <= 1e9) || math.IsInf(v, 0)) {
				t.Fatalf("%q is %v", s, v)
			}
		}
		var p pids
		if err := p.Set(s); err == nil {
			var again pids
			if slices.Min(p) <= 0 || slices.Max(p) > math.MaxInt32 || again.Set(p.String()) != nil ||
				!slices.Equal(p, again) {
				t.Fatalf("%q are %v, again %v", s, p, again)
			}
		}
		args := append([]string{"record"}, strings.Split(s, " ")...)
		out := separatePIDs(root, args)
		if len(out) < len(args) || !slices.Equal(slices.DeleteFunc(slices.Clone(out), func(a string) bool {
			return a == "-p"
		}), slices.DeleteFunc(args, func(a string) bool { return a == "-p" })) {
			t.Fatalf("%q became %q", s, out)
		}
	})
}
