// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/testkit"
)

// fullDisk is a file system on which a file can have limit bytes.
type fullDisk struct {
	f     *os.File
	limit int64
}

func (d *fullDisk) Write(b []byte) (int, error) {
	at, err := d.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	n := min(int64(len(b)), max(0, d.limit-at))
	if n > 0 {
		if _, err := d.f.Write(b[:n]); err != nil {
			return 0, err
		}
	}
	if n < int64(len(b)) {
		return int(n), &os.PathError{Op: "write", Path: d.f.Name(), Err: syscall.ENOSPC}
	}
	return int(n), nil
}

// record writes about steps seconds of a recording until an error.
func record(w *Writer, steps int) error {
	if err := errors.Join(w.Meta(sampleMeta()), w.Process(sampleProcess(1)),
		w.Shape(sampleShape(1, 2, 30))); err != nil {
		return err
	}
	r := newRandom(4)
	for i := range int64(steps) {
		hs := r.hits(500)
		for j := range hs {
			hs[j].Time = 100*second + i*second/10
		}
		if err := w.Hits(hs); err != nil {
			return err
		}
		if err := w.Drain(100*second + i*second/10); err != nil {
			return err
		}
	}
	return nil
}

func TestFullDisk(t *testing.T) {
	ended, tried := 0, 0
	for limit := int64(0); limit < 60_000; limit += 1777 {
		tried++
		path := filepath.Join(t.TempDir(), "run.pinf")
		f, err := os.Create(path)
		must(t, err)
		w := NewWriter(&fullDisk{f, limit})
		w.f = f
		w.name = path
		if err := record(w, 1000); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("limit %d: %v", limit, err)
		}
		err = w.Err()
		var we *WriteError
		if !errors.As(err, &we) || !strings.HasPrefix(err.Error(),
			"writing "+path+": no space left on device; ") {
			t.Fatalf("limit %d: %v", limit, err)
		}
		if we.Kept >= 0 && !strings.Contains(err.Error(), " s is kept") || we.Kept < 0 &&
			!strings.Contains(err.Error(), "nothing was recorded") {
			t.Fatalf("limit %d: kept %v: %v", limit, we.Kept, err)
		}
		size := w.Size()
		if st, _ := os.Stat(path); st.Size() != size || size > limit {
			t.Fatalf("limit %d: %d bytes, writer says %d", limit, st.Size(), size)
		}
		// Each further call says the same.
		for _, again := range []error{w.Hits(make([]Hit, 1)), w.Marks(make([]Mark, 1)),
			w.StepSeqs(make([]StepSeq, 1)), w.Sched(make([]Sched, 1)),
			w.Meta(Meta{}), w.Process(Process{}), w.Threads(make([]Thread,
				1)), w.Shape(&Shape{}), w.Loss(Loss{}), w.Exit(Exit{}), w.Drain(1e18), w.Flush(), w.Err()} {
			if again != err {
				t.Fatalf("limit %d: then %v", limit, again)
			}
		}
		if e := w.Close(End{Time: 300 * second, Reason: "interrupted", Status: -1}); e != err {
			t.Fatalf("limit %d: Close: %v", limit, e)
		}
		b, err := os.ReadFile(path)
		must(t, err)
		if limit < fileHeaderSize {
			if len(b) != 0 {
				t.Fatalf("limit %d: %d bytes", limit, len(b))
			}
			continue
		}
		r := openBytes(t, b)
		c := collect(t, r)
		if r.Problems() != nil || we.Kept >= 0 && len(c.Hits) == 0 {
			t.Fatalf("limit %d: %v, %d hits", limit, r.Problems(), len(c.Hits))
		}
		for _, l := range c.Losses {
			if l.End != 300*second || l.Start != max(100*second, 100*second+int64(we.Kept)) {
				t.Fatalf("limit %d: kept %v, %+v", limit, we.Kept, l)
			}
		}
		for _, e := range c.Ends {
			if !strings.Contains(e.Reason, "interrupted") || !strings.Contains(e.Reason, "no space left") {
				t.Fatalf("%+v", e)
			}
			ended++
		}
	}
	if ended < tried/2 {
		t.Errorf("only %d of %d files say why they end", ended, tried)
	}
}

// What is kept is told by watermark: records after it are not all there.
func TestKeptIsWhatWasDrained(t *testing.T) {
	w := NewWriter(&limited{new(bytes.Buffer), 1000})
	err := errors.Join(w.Meta(Meta{Start: 100 * second}), w.Hits([]Hit{{Time: 101 * second}}),
		w.Drain(102*second),
		w.Hits([]Hit{{Time: 105 * second}}), w.Flush())
	must(t, err)
	for err == nil {
		err = w.Loss(Loss{Why: "lost"})
	}
	var we *WriteError
	if !errors.As(err, &we) || we.Kept != 2*time.Second {
		t.Errorf("%v", err)
	}
}

// A writer that cannot take a half-written block away.
func TestFullPipe(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&limited{&buf, 5000})
	err := record(w, 1000)
	if err == nil || w.Close(End{}) != err {
		t.Fatal(err)
	}
	r := openBytes(t, buf.Bytes())
	if c := collect(t, r); len(c.Metas) != 1 || r.Torn() == "" {
		t.Errorf("%d metas, torn %q", len(c.Metas), r.Torn())
	}
}

type limited struct {
	w    *bytes.Buffer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	l.w.Write(b[:n])
	if n < len(b) {
		return n, errors.New("the reader went away")
	}
	return n, nil
}

// After a kill, what stands in the file is whole but for the last second.
func TestKill(t *testing.T) {
	if path := os.Getenv("TRACE_TEST_KILL"); path != "" {
		killed(path)
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	path := filepath.Join(t.TempDir(), "run.pinf")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), "TRACE_TEST_KILL="+path)
	out, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	told := 300 + testkit.Rand(t).IntN(100) // a byte for each drain
	_, err = io.ReadFull(out, make([]byte, told))
	must(t, err, cmd.Process.Kill())
	rest, _ := io.ReadAll(out)
	cmd.Wait()
	now := int64(told+len(rest)) * killedEvery
	r, err := Open(path)
	must(t, err)
	defer r.Close()
	c := collect(t, r)
	if len(c.Hits) == 0 || len(c.Drains) == 0 || len(c.Ends) != 0 {
		t.Fatalf("%d hits, %d drains, %d ends", len(c.Hits), len(c.Drains), len(c.Ends))
	}
	if late := time.Duration(now - c.Hits[len(c.Hits)-1].Time); late > time.Second {
		t.Errorf("the last %v are missing", late)
	}
	if late := time.Duration(now - c.Drains[len(c.Drains)-1]); late > time.Second {
		t.Errorf("the last watermark is %v old", late)
	}
	t.Logf("of %d drains %d are there", told+len(rest), len(c.Hits))
	for i, h := range c.Hits {
		if h.Arg != uint64(i) {
			t.Fatalf("hit %d is number %d", i, h.Arg)
		}
	}
}

// killedEvery is the time between the drains of killed, ns.
const killedEvery = int64(20 * time.Millisecond)

// killed writes a recording whose drains follow each other at once, for ever, and a byte for each.
func killed(path string) {
	w, err := Create(path)
	if err != nil {
		panic(err)
	}
	for n := uint64(0); ; n++ {
		now := int64(n+1) * killedEvery
		if err := errors.Join(w.Hits([]Hit{{Time: now, Arg: n, Kind: HitOpEnd}}), w.Drain(now)); err != nil {
			panic(err)
		}
		os.Stdout.WriteString(".")
	}
}
