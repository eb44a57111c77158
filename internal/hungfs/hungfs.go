// SPDX-License-Identifier: Apache-2.0

// Package hungfs mounts a file system with one file that can be opened and mapped, and whose contents never
// come: a server that is gone. For tests.
package hungfs

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Name of the file in it.
const Name = "libhung.so"

// FS is a mounted file system.
type FS struct {
	dir   string
	fd    int
	size  uint64
	mu    sync.Mutex
	reads int
}

// Operations of FUSE's protocol, include/uapi/linux/fuse.h.
const (
	opLookup, opForget, opGetattr, opOpen, opRead = 1, 2, 3, 14, 15
	opStatfs, opRelease, opFlush, opInit          = 17, 18, 25, 26
	opOpendir, opReleasedir, opAccess             = 27, 29, 34
	opInterrupt, opDestroy, opBatchForget         = 36, 38, 42
)

// Mount mounts it on a folder.
func Mount(dir string) (*FS, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/fuse: %w", err)
	}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("hung", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mounting a FUSE file system: %w", err)
	}
	f := &FS{dir: dir, fd: fd, size: 1 << 20}
	go f.serve()
	return f, nil
}

// Path of the file.
func (f *FS) Path() string { return filepath.Join(f.dir, Name) }

// Waiting counts reads that were asked for; none was answered.
func (f *FS) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

// Close ends it: who waits gets an error.
func (f *FS) Close() error {
	err := unix.Unmount(f.dir, unix.MNT_DETACH|unix.MNT_FORCE)
	unix.Close(f.fd)
	return err
}

func (f *FS) serve() {
	buf := make([]byte, 1<<18)
	for {
		n, err := unix.Read(f.fd, buf)
		if err == unix.EINTR || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		le := binary.LittleEndian
		op, unique, node := le.Uint32(buf[4:]), le.Uint64(buf[8:]), le.Uint64(buf[16:])
		switch op {
		case opForget, opBatchForget, opInterrupt:
		case opRead:
			f.mu.Lock()
			f.reads++
			f.mu.Unlock()
		case opInit:
			out := make([]byte, 64)
			le.PutUint32(out, 7)
			le.PutUint32(out[4:], 31)
			le.PutUint32(out[8:], le.Uint32(buf[48:]))
			le.PutUint32(out[12:], 1) // FUSE_ASYNC_READ
			le.PutUint16(out[16:], 64)
			le.PutUint32(out[20:], 1<<17)
			f.answer(unique, 0, out)
		case opLookup:
			if name := string(buf[40 : n-1]); name != Name {
				f.answer(unique, -int32(unix.ENOENT), nil)
				break
			}
			out := make([]byte, 40, 128)
			le.PutUint64(out, 2)
			le.PutUint64(out[16:], 1<<20) // valid for ever
			le.PutUint64(out[24:], 1<<20)
			f.answer(unique, 0, append(out, f.attr(2)...))
		case opGetattr:
			out := make([]byte, 16, 104)
			le.PutUint64(out, 1<<20)
			f.answer(unique, 0, append(out, f.attr(node)...))
		case opOpen, opOpendir:
			f.answer(unique, 0, make([]byte, 16))
		case opStatfs:
			f.answer(unique, 0, make([]byte, 80))
		case opRelease, opReleasedir, opFlush, opAccess, opDestroy:
			f.answer(unique, 0, nil)
		default:
			f.answer(unique, -int32(unix.ENOSYS), nil)
		}
	}
}

func (f *FS) attr(node uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 88)
	le.PutUint64(b, node)
	mode := uint32(unix.S_IFDIR | 0o755)
	if node == 2 {
		mode = unix.S_IFREG | 0o755
		le.PutUint64(b[8:], f.size)
		le.PutUint64(b[16:], f.size/512)
	}
	le.PutUint32(b[60:], mode)
	le.PutUint32(b[64:], 1)
	le.PutUint32(b[80:], 4096)
	return b
}

func (f *FS) answer(unique uint64, errno int32, data []byte) {
	b := make([]byte, 16, 16+len(data))
	binary.LittleEndian.PutUint32(b, uint32(16+len(data)))
	binary.LittleEndian.PutUint32(b[4:], uint32(errno))
	binary.LittleEndian.PutUint64(b[8:], unique)
	_, _ = unix.Write(f.fd, append(b, data...))
}

// Folder makes one to mount on below dir.
func Folder(dir string) (string, error) {
	d := filepath.Join(dir, "hung")
	return d, os.MkdirAll(d, 0o755)
}
