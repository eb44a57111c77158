// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/profinfer/profinfer/trace"
)

// A recording is written as it happens, and read block by block.
func Example() {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "run.pinf")

	w, err := trace.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	// Errors stay: the last call tells them, too.
	w.Meta(trace.Meta{SchemaVersion: 1, Tool: "example", Start: 1000})
	w.Marks([]trace.Mark{
		{Time: 2000, PID: 7, TID: 7, Kind: trace.MarkStepBegin, NTokens: 1},
		{Time: 9000, PID: 7, TID: 7, Kind: trace.MarkStepEnd},
	})
	w.Drain(10_000) // all events before this time were passed in
	if err := w.Close(trace.End{Time: 12_000, Reason: "the process ended", Status: -1}); err != nil {
		log.Fatal(err)
	}

	r, err := trace.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		switch b.Type {
		case trace.TypeMeta:
			fmt.Println("recorded by", b.Meta.Tool)
		case trace.TypeMarks:
			for _, m := range b.Marks {
				fmt.Println("mark", m.Kind, "at", m.Time, "ns")
			}
		case trace.TypeEnd:
			fmt.Println("ended because", b.End.Reason)
		}
	}
	if torn := r.Torn(); torn != "" {
		fmt.Println(torn)
	}
	// Output:
	// recorded by example
	// mark 1 at 2000 ns
	// mark 2 at 9000 ns
	// ended because the process ended
}
