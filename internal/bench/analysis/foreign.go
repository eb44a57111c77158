// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/profinfer/profinfer/internal/bench/measure"
	"github.com/profinfer/profinfer/trace"
)

// script runs Perfetto's trace_processor where it is built for WebAssembly, under node.
//
//go:embed trace-processor.cjs
var script []byte

const query = "select count(*) from slice"

func show(what string, u measure.Usage, events int) {
	fmt.Printf("%-54s %8.2f s %8.2f s CPU %10.2f Mevents/s %9.0f MiB\n", what, u.Wall.Seconds(),
		u.CPU.Seconds(), float64(events)/u.Wall.Seconds()/1e6, float64(u.RSS)/(1<<20))
}

// foreign measures Perfetto's trace_processor on the export. Where it cannot load all of it, it gets a
// tenth.
func foreign(dir, program, path, pftrace string, events int) error {
	if *processor == "" {
		return nil
	}
	argv, err := processorCommand(dir)
	if err != nil {
		return err
	}
	st, err := os.Stat(pftrace)
	if err != nil {
		return err
	}
	const what = "trace_processor: load the export, count slices"
	u, err := measure.Once(*limit, append(argv, "-Q", query, pftrace)...)
	if err == nil {
		show(what, u, events)
		fmt.Printf("(the export has %.0f MB)\n", float64(st.Size())/1e6)
		return nil
	}
	fmt.Printf("%s of %.0f MB: it fails after %.0f s with %.0f MiB: %v\n", what, float64(st.Size())/1e6,
		u.Wall.Seconds(), float64(u.RSS)/(1<<20), err)
	tenth := filepath.Join(dir, "tenth.pinf")
	if err := cut(path, tenth, 10); err != nil {
		return err
	}
	n, err := count(tenth)
	if err != nil {
		return err
	}
	if err := os.Remove(pftrace); err != nil {
		return err
	}
	u, err = measure.Once(*limit, program, "export", "--format", "perfetto", "-i", tenth, "-o", pftrace)
	if err != nil {
		return err
	}
	show("profinfer export of a tenth", u, n.events)
	if u, err = measure.Once(*limit, append(argv, "-Q", query, pftrace)...); err != nil {
		return fmt.Errorf("trace_processor on a tenth: %w", err)
	}
	show("trace_processor of a tenth", u, n.events)
	return nil
}

// processorCommand returns the command that takes -Q QUERY TRACE.
func processorCommand(dir string) ([]string, error) {
	st, err := os.Stat(*processor)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{*processor}, nil
	}
	folder, err := filepath.Abs(*processor)
	if err != nil {
		return nil, err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("trace_processor.wasm runs under node: %w", err)
	}
	file := filepath.Join(dir, "trace-processor.cjs")
	return []string{node, "--max-old-space-size=8192", file, folder}, os.WriteFile(file, script, 0o644)
}

// cut copies the beginning of a recording, with one part in n of its hits. It reads as one that was cut.
func cut(from, to string, n int) error {
	r, err := trace.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	var blocks []trace.Block
	all, sum, end := 0, 0, int64(0)
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		blocks = append(blocks, trace.Block{Type: b.Type, Offset: b.Offset, Count: b.Count})
		if b.Type == trace.TypeHits {
			all += b.Count
		}
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	for _, b := range blocks {
		if end = b.Offset; sum >= all/n {
			break
		}
		if b.Type == trace.TypeHits {
			sum += b.Count
		}
	}
	_, err = io.CopyN(out, in, end)
	return err
}
