// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/trace"
)

func itoa(n int) string { return strconv.Itoa(n) }

const (
	// chunk is how much of a file is mapped at a time to look at its pages.
	chunk = 1 << 30
	// maxLooked bounds the part of a file that is looked at: a page of 4 KiB is a bit.
	maxResident = 256 << 30
)

// pages tells which of the file's pages are in memory. Nothing of it is read for that.
func (d *dataFile) pages() trace.FilePages {
	page := int64(os.Getpagesize())
	p := trace.FilePages{Path: d.path, Size: d.size, Page: page}
	var st unix.Stat_t
	if err := unix.Fstat(int(d.f.Fd()), &st); err != nil {
		p.Failed = err.Error()
		return p
	}
	p.Dev, p.Inode = st.Dev, st.Ino
	// To one who may not write the file the kernel says that all of it is there.
	if euid := os.Geteuid(); euid != 0 && int(st.Uid) != euid && unix.Access(fmt.Sprintf("/proc/self/fd/%d", d.f.Fd()), unix.W_OK) != nil {
		p.Failed = "only root, its owner and who may write it are told"
		return p
	}
	resident, err := residentPages(d.f, min(d.size, maxResident), page)
	if err != nil {
		p.Failed = err.Error()
		return p
	}
	p.Resident = resident
	return p
}

// residentPages returns a bit for each page of the first size bytes of f.
func residentPages(f *os.File, size, page int64) ([]byte, error) {
	n := (size + page - 1) / page
	bits := make([]byte, (n+7)/8)
	var vec []byte
	for off := int64(0); off < size; off += chunk {
		length := min(chunk, size-off)
		mem, err := unix.Mmap(int(f.Fd()), off, int(length), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return nil, fmt.Errorf("mapping it: %w", err)
		}
		pages := (length + page - 1) / page
		if int64(cap(vec)) < pages {
			vec = make([]byte, pages)
		}
		vec = vec[:pages]
		_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(length), uintptr(unsafe.Pointer(&vec[0])))
		unix.Munmap(mem)
		if e != 0 {
			return nil, errors.Join(errors.New("looking at its pages (mincore)"), e)
		}
		first := off / page
		for i, v := range vec {
			if v&1 != 0 {
				k := first + int64(i)
				bits[k/8] |= 1 << (k % 8)
			}
		}
	}
	return bits, nil
}
