// SPDX-License-Identifier: Apache-2.0

package safeopen

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

func openAt(dir int, name string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// pin opens a path without touching its target: no driver is called, no pipe waits.
func pin(dir int, path string, flags int) (*os.File, fs.FileInfo, error) {
	fd, err := openAt(dir, path, flags)
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return pinned(fd, path)
}

func pinned(fd int, path string) (*os.File, fs.FileInfo, error) {
	f := os.NewFile(uintptr(fd), path)
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// reopen opens a pinned file.
func reopen(f *os.File, flags int) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flags|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flags|unix.O_CLOEXEC, 0)
	}
	if err == unix.ENOENT {
		err = fmt.Errorf("%w: there is no /proc here", err)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// Input opens a file or a pipe for reading. A device is not touched, and root does not wait for a pipe of
// another user.
func Input(path string) (*os.File, error) {
	f, st, err := pin(unix.AT_FDCWD, path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch sys, _ := st.Sys().(*syscall.Stat_t); {
	case st.Mode().IsRegular(), st.IsDir(), st.Mode()&fs.ModeNamedPipe != 0 && trusted(sys.Uid):
	case st.Mode()&fs.ModeNamedPipe != 0:
		return nil, &ForeignError{path, fmt.Sprintf("a pipe that belongs to another user (%d)", sys.Uid)}
	default:
		return nil, &SpecialError{path, st.Mode()}
	}
	return reopen(f, os.O_RDONLY|unix.O_NOCTTY)
}

// Regular opens a regular file for reading. check, if set, is called on the file before it is opened.
func Regular(path string, check func(fs.FileInfo) error) (*os.File, error) {
	f, st, err := pin(unix.AT_FDCWD, path, 0)
	if err != nil {
		return nil, err
	}
	return regular(f, st, check)
}

// RegularIn is Regular for a path as named by a process with that root directory. It cannot leave that
// directory, nor reach a file of the kernel's own (/proc, /sys). It needs Linux 5.6.
func RegularIn(root *os.File, path string, check func(fs.FileInfo) error) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(root.Fd()), path, how)
	// EAGAIN: something was renamed while the path was resolved
	for tries := 0; tries < 10 && (err == unix.EINTR || err == unix.EAGAIN); tries++ {
		fd, err = unix.Openat2(int(root.Fd()), path, how)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f, st, err := pinned(fd, path)
	if err != nil {
		return nil, err
	}
	return regular(f, st, func(st fs.FileInfo) error {
		if err := check(st); err != nil {
			return err
		}
		if ofKernel(f) {
			return &SpecialError{path, fs.ModeIrregular}
		}
		return nil
	})
}

// ofKernel reports whether a file is the kernel's own.
func ofKernel(f *os.File) bool {
	var on unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &on) != nil || slices.Contains(kernels, int64(on.Type))
}

// kernels are file systems whose regular files are the kernel's own: reading one can have side effects.
var kernels = []int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
	unix.SECURITYFS_MAGIC, unix.PSTOREFS_MAGIC,
	unix.EFIVARFS_MAGIC, unix.BPF_FS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.SELINUX_MAGIC, unix.SMACK_MAGIC}

func regular(f *os.File, st fs.FileInfo, check func(fs.FileInfo) error) (*os.File, error) {
	defer f.Close()
	if check != nil {
		if err := check(st); err != nil {
			return nil, err
		}
	}
	if !st.Mode().IsRegular() {
		return nil, &SpecialError{f.Name(), st.Mode()}
	}
	return reopen(f, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
}
