// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FileID identifies a file in its current state: an inode number is reused for the next file, and a file can
// be rewritten in place. The zero value is no file.
type FileID struct {
	Dev, Inode   uint64 // as in stat
	Size         int64
	Ctime, Mtime int64 // ns
}

// Identify identifies an open file.
func Identify(f *os.File) (FileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return FileID{}, &fs.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return FileID{Dev: uint64(st.Dev), Inode: st.Ino, Size: st.Size, Ctime: unix.TimespecToNsec(st.Ctim),
		Mtime: unix.TimespecToNsec(st.Mtim)}, nil
}

// IdentifyMapped is Identify for a file that a process has mapped. It uses only what the kernel knows: the
// file is not opened, and no file server is asked.
func IdentifyMapped(pid int, m Mapping) (FileID, error) {
	link := fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End)
	id, err := identifyPath(link)
	if err == nil && id.mapped(m) {
		return id, nil
	}
	if m.Deleted {
		return FileID{}, errors.Join(err,
			fmt.Errorf("%s, which process %d has mapped, has no name", m.Path, pid))
	}
	for _, name := range namesOf(pid, m.Path) {
		if id, err = identifyPath(name); err == nil && id.mapped(m) {
			return id, nil
		}
	}
	return FileID{}, errors.Join(err,
		fmt.Errorf("%s, which process %d has mapped, is not to be found", m.Path, pid))
}

func identifyPath(path string) (FileID, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS,
		&st); err != nil {
		return FileID{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	ns := func(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
	return FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino, Size: int64(st.Size),
		Ctime: ns(st.Ctime), Mtime: ns(st.Mtime)}, nil
}

// mapped reports whether this is the file of a mapping. Filesystems with a device number for each subvolume
// or layer (btrfs, overlay: major 0) show a different one in maps than in stat: there the inode must do.
func (id FileID) mapped(m Mapping) bool {
	return id.Inode == m.Inode && (id.Dev == m.Dev || unix.Major(m.Dev) == 0 || unix.Major(id.Dev) == 0)
}
