// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/trace"
)

func itoa(n int) string { return strconv.Itoa(n) }

const (
	// chunk is the part of a file examined at a time.
	chunk = 1 << 30
	// maxBits bounds what is written per file: above 128 GiB a bit stands for several pages of 4 KiB.
	maxBits = 1 << 25
	// lookFor bounds the time spent per file, and waitFor how long a process waits for it, held before it
	// begins to read a model.
	lookFor = 5 * time.Second
	waitFor = 100 * time.Millisecond
)

// grain returns how many bytes of a file a bit stands for.
func grain(size, page int64) int64 {
	for page < 1<<40 && (size+page-1)/page > maxBits {
		page *= 2
	}
	return page
}

// residency examines files in parallel with the recorder's own work, as a model of hundreds of GB can take
// seconds, and writes the results, one block per file. last: it then closes the files.
func (r *recorder) residency(p *process, about trace.Memory, files []*dataFile, last bool) {
	if len(files) == 0 {
		return
	}
	about.Maps = nil // already written
	before, done := p.mem.looking, make(chan struct{})
	p.mem.looking = done
	r.looking.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		for _, f := range files {
			m := about
			r.lookOne.Lock()
			m.Files = []trace.FilePages{f.pages()}
			r.lookOne.Unlock()
			if last {
				f.f.Close()
			}
			_ = r.w.Memory(m) // a trace that cannot be written fails again
		}
	})
	select {
	case <-done:
	case <-time.After(waitFor):
	}
}

// pages determines which of the file's pages are in memory, without reading them.
func (d *dataFile) pages() trace.FilePages {
	page := int64(os.Getpagesize())
	p := trace.FilePages{Path: d.path, Size: d.size, Page: grain(d.size, page)}
	var st unix.Stat_t
	if err := unix.Fstat(int(d.f.Fd()), &st); err != nil {
		p.Failed = err.Error()
		return p
	}
	p.Dev, p.Inode = st.Dev, st.Ino
	// If the caller may not write the file, the kernel reports all of it as resident.
	if euid := os.Geteuid(); euid != 0 && int(st.Uid) != euid &&
		unix.Access(fmt.Sprintf("/proc/self/fd/%d", d.f.Fd()), unix.W_OK) != nil {
		p.Failed = "only root, its owner and who may write it are told"
		return p
	}
	resident, err := residentPages(d.f, d.size, page, p.Page, time.Now().Add(lookFor))
	if err != nil {
		p.Failed = err.Error()
		return p
	}
	p.Resident = resident
	return p
}

// cacheStat is struct cachestat of linux/mman.h (6.5): for a part of a file, pages in the page cache, and
// others.
type cacheStat struct{ cached, dirty, writeback, evicted, recently uint64 }

// cached returns how many pages of a part of a file are in the page cache; false if the kernel does not
// report it.
func cached(f *os.File, off, length int64) (uint64, bool) {
	part := struct{ off, len uint64 }{uint64(off), uint64(length)}
	var st cacheStat
	_, _, e := unix.Syscall6(unix.SYS_CACHESTAT, f.Fd(), uintptr(unsafe.Pointer(&part)),
		uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	return st.cached, e == 0
}

// residentPages returns a bit for each grain of f's first size bytes: set if at least half of its pages are
// in memory. It gives up at the deadline.
func residentPages(f *os.File, size, page, grain int64, deadline time.Time) ([]byte, error) {
	bits := make([]byte, ((size+grain-1)/grain+7)/8)
	each := max(chunk, grain)
	l := residentLook{f: f, page: page, grain: grain, bits: bits}
	for off := int64(0); off < size; off += each {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("looking at the pages of %d GB takes too long", size>>30)
		}
		if err := l.part(off, min(each, size-off)); err != nil {
			return nil, err
		}
	}
	return bits, nil
}

type residentLook struct {
	f           *os.File
	page, grain int64
	bits, vec   []byte
}

// set records how many of the grain's length bytes at off are in memory, in pages.
func (l *residentLook) set(off, length, pages int64) {
	if all := (length + l.page - 1) / l.page; pages > 0 && 2*pages >= all {
		k := off / l.grain
		l.bits[k/8] |= 1 << (k % 8)
	}
}

// part examines a part of the file. The page cache is queried first: most parts are entirely in memory, or
// not at all.
func (l *residentLook) part(off, length int64) error {
	const least = 1 << 21 // smaller parts are examined page by page
	n, ok := cached(l.f, off, length)
	switch {
	case ok && n == 0:
		return nil
	case ok && int64(n) >= (length+l.page-1)/l.page, ok && length <= l.grain:
		for at := off; at < off+length; at += l.grain {
			g := min(l.grain, off+length-at)
			l.set(at, g, min(int64(n), (g+l.page-1)/l.page))
		}
		return nil
	case ok && length > max(least, l.grain):
		half := max(least, l.grain)
		for half*2 < length {
			half *= 2
		}
		if err := l.part(off, half); err != nil {
			return err
		}
		return l.part(off+half, length-half)
	}
	for at := off; at < off+length; at += chunk {
		if err := l.pages(at, min(chunk, off+length-at)); err != nil {
			return err
		}
	}
	return nil
}

// pages examines each page. For a grain longer than a chunk, each chunk decides.
func (l *residentLook) pages(off, length int64) error {
	mem, err := unix.Mmap(int(l.f.Fd()), off, int(length), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping it: %w", err)
	}
	n := (length + l.page - 1) / l.page
	if int64(cap(l.vec)) < n {
		l.vec = make([]byte, n)
	}
	vec := l.vec[:n]
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(length),
		uintptr(unsafe.Pointer(&vec[0])))
	unix.Munmap(mem)
	if e != 0 {
		return errors.Join(errors.New("looking at its pages (mincore)"), e)
	}
	per := l.grain / l.page
	for i := int64(0); i < n; i += per {
		there := int64(0)
		end := min(i+per, n)
		for _, v := range vec[i:end] {
			there += int64(v & 1)
		}
		l.set(off+i*l.page, (end-i)*l.page, there)
	}
	return nil
}
