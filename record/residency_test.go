// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"math/bits"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/profinfer/profinfer/trace"
)

// sparse makes a file of so many bytes with so many of them written from each of the offsets on.
func sparse(t *testing.T, size, written int64, at ...int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "model"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Skip("no such file here: ", err)
	}
	for _, off := range at {
		if _, err := f.WriteAt(bytes.Repeat([]byte{1}, int(written)), off); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func count(b []byte) (n int) {
	for _, x := range b {
		n += bits.OnesCount8(x)
	}
	return n
}

// What the page cache says of parts is what each page says.
func TestResidentPages(t *testing.T) {
	page := int64(os.Getpagesize())
	f := sparse(t, 64<<20+100, 3*page, 0, 10*page, 5<<20, 64<<20-2*page)
	got, err := residentPages(f, 64<<20+100, page, page, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	l := residentLook{f: f, page: page, grain: page, bits: make([]byte, len(got))}
	if err := l.pages(0, 64<<20+100); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, l.bits) || count(got) != 12 {
		t.Errorf("%d pages are in memory, mincore says %d; 12 were written", count(got), count(l.bits))
	}
	// coarser: half of its pages make a grain
	got, err = residentPages(f, 64<<20+100, page, 4*page, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if got[0] != 1|1<<2 || count(got) < 3 {
		t.Errorf("grains of four pages: %08b, %d", got[0], count(got))
	}
	if _, err := residentPages(f, 64<<20, page, page, time.Now().Add(-time.Second)); err == nil {
		t.Error("there is no end to it")
	}
}

// Models of terabytes, of which a trace could not hold a bit for each page.
func TestResidentTerabytes(t *testing.T) {
	const size = 3 << 40
	var buf bytes.Buffer
	r := &recorder{w: trace.NewWriter(&buf)}
	p := newProcess(os.Getpid())
	p.mem.files = map[fileKey]*dataFile{}
	var files []*dataFile
	for i := range 3 {
		f := sparse(t, size, 8<<20, int64(i)<<40)
		files = append(files, &dataFile{path: f.Name(), f: f, size: size})
	}
	if err := r.w.Meta(trace.Meta{SchemaVersion: 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.writeMemory(p, trace.Memory{PID: int32(p.pid), Time: 1, When: "start"}, files,
		false); err != nil {
		t.Fatal(err)
	}
	if err := r.writeMemory(p, trace.Memory{PID: int32(p.pid), Time: 2, When: "end"}, files,
		true); err != nil {
		t.Fatal(err)
	}
	r.looking.Wait()
	if err := r.w.Close(trace.End{}); err != nil {
		t.Fatal(err)
	}
	rd, err := trace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		b, err := rd.Next()
		if err != nil {
			break
		}
		if b.Memory == nil {
			continue
		}
		for _, f := range b.Memory.Files {
			n++
			if f.Failed != "" || f.Size != size || int64(len(f.Resident))*8*f.Page < size ||
				len(f.Resident) > maxBits/8 {
				t.Errorf("%s %s: %d bytes, a bit for %d, %q", b.Memory.When, f.Path, len(f.Resident), f.Page,
					f.Failed)
			}
			if got := int64(count(f.Resident)) * f.Page; got != 8<<20 {
				t.Errorf("%d bytes are in memory, %d were written", got, 8<<20)
			}
		}
	}
	if n != 6 {
		t.Errorf("%d files are told, 6 times one was to be", n)
	}
}
