// SPDX-License-Identifier: Apache-2.0

package safeopen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links a path may pass through: the kernel's limit.
const maxLinks = 40

// folder is an open folder: another one can take its name, but the descriptor stays the same.
type folder struct {
	fd   int    // O_PATH; -1: none
	path string // for messages
}

// find resolves a path name by name. Its last name need not exist; with mkdir, missing folders on the way are
// created.
func (p *Place) find(path string, mkdir bool) (err error) {
	p.fd = -1
	fail := func(at string, err error) error { return &fs.PathError{Op: "open", Path: at, Err: err} }
	at, rest := ".", strings.Split(path, "/")
	if strings.HasPrefix(path, "/") {
		at = "/"
	}
	dir, err := openAt(unix.AT_FDCWD, at, unix.O_DIRECTORY)
	if err != nil {
		return fail(at, err)
	}
	defer func() {
		if err != nil {
			unix.Close(dir)
		}
	}()
	for links := 0; ; {
		if len(rest) == 0 { // the path of a folder
			p.Name, p.fd, p.path = ".", dir, at
			return nil
		}
		var name string
		name, rest = rest[0], rest[1:]
		if name == "" || name == "." {
			continue
		}
		last := !mkdir && !slices.ContainsFunc(rest, func(s string) bool { return s != "" && s != "." })
		here := filepath.Join(at, name)
		var st unix.Stat_t
		fd, err := openAt(dir, name, unix.O_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) && last {
			p.Name, p.fd, p.path = name, dir, at
			return nil
		}
		if errors.Is(err, unix.ENOENT) && mkdir {
			fd, err = makeFolder(dir, name)
		}
		if err != nil {
			return fail(here, err)
		}
		if err = unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return fail(here, err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			to, err := followed(fd, st.Uid, p.Path, here)
			magic := err == nil && inProc(dir)
			unix.Close(fd)
			if err != nil {
				return err
			}
			if links++; links > maxLinks {
				return fail(path, unix.ELOOP)
			}
			if !magic {
				rest = append(strings.Split(to, "/"), rest...)
				if strings.HasPrefix(to, "/") {
					unix.Close(dir)
					at = "/"
					if dir, err = openAt(unix.AT_FDCWD, at, unix.O_DIRECTORY); err != nil {
						return fail(at, err)
					}
				}
				continue
			}
			// A link as /proc shows it need not have a name: the kernel resolves it.
			if fd, err = openAt(dir, name, 0); err != nil {
				return fail(here, err)
			}
			if last {
				p.Name, p.fd, p.path, p.stream = name, dir, at, os.NewFile(uintptr(fd), p.Path)
				return nil
			}
		} else if last || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			unix.Close(fd)
			if !last {
				return fail(here, unix.ENOTDIR)
			}
			p.Name, p.fd, p.path = name, dir, at
			return nil
		}
		unix.Close(dir)
		dir, at = fd, here
	}
}

// makeFolder creates a folder and opens it. It does not rely on the name: the owner of the parent folder
// could replace it.
func makeFolder(dir int, name string) (int, error) {
	if err := unix.Mkdirat(dir, name, 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	fd, err := openAt(dir, name, unix.O_NOFOLLOW|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	var st, around unix.Stat_t
	if uid, gid, ok := caller(); ok && unix.Fstat(dir, &around) == nil && int(around.Uid) == uid &&
		unix.Fstat(fd, &st) == nil && st.Uid == 0 {
		_ = unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
	}
	return fd, nil
}

// followed reads a link that may be followed.
func followed(fd int, owner uint32, path, link string) (string, error) {
	if !trusted(owner) {
		return "", &LinkError{path, link, owner}
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: link, Err: err}
	}
	return string(b[:n]), nil
}

func inProc(dir int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(dir, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// caller returns the user who called sudo; false: root itself, or not root.
func caller() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	return uid, gid, err == nil && err2 == nil && uid > 0 && gid >= 0 && uid < 1<<32-1 && gid < 1<<32-1
}

// trusted reports whether a link or folder of a user may lead this process: for root only those of root or of
// the user who called sudo. For other users the kernel's own rules suffice, because they cannot be led to
// what they may not access.
func trusted(uid uint32) bool { return os.Geteuid() != 0 || ours(uid) }

func ours(uid uint32) bool {
	who, _, ok := caller()
	return uid == 0 || int(uid) == os.Geteuid() || ok && int(uid) == who
}

// Mine returns an error if a folder belongs to another user and is therefore unfit for programs that root
// will run.
func Mine(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if !trusted(st.Uid) {
		return &ForeignError{dir, fmt.Sprintf("this folder belongs to another user (%d)", st.Uid)}
	}
	return nil
}

// Close closes the folder.
func (p *Place) Close() error {
	if p.stream != nil {
		p.stream.Close()
	}
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return unix.Close(fd)
}

func (p *Place) wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: p.File(name), Err: err}
}

// pin opens a name without touching the file: no driver is called, no pipe waits, no link is followed.
func (p *Place) pin(name string) (*os.File, error) {
	if p.stream != nil && name == p.Name {
		fd, err := unix.FcntlInt(p.stream.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, p.wrap("open", name, err)
		}
		return os.NewFile(uintptr(fd), p.Path), nil
	}
	fd, err := openAt(p.fd, name, unix.O_NOFOLLOW)
	if err != nil {
		return nil, p.wrap("open", name, err)
	}
	return os.NewFile(uintptr(fd), p.File(name)), nil
}

// Lstat describes a name; for a stream of this process, what it leads to.
func (p *Place) Lstat(name string) (fs.FileInfo, error) {
	f, err := p.pin(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && p.stream != nil && name == p.Name && st.Mode().IsRegular() {
		return streamed{st}, nil
	}
	return st, err
}

// streamed is a regular file that is reached as a stream of this process: it has no name that another file
// could take.
type streamed struct{ fs.FileInfo }

func (s streamed) Mode() fs.FileMode { return s.FileInfo.Mode() | fs.ModeIrregular }

// Open opens a regular file for reading.
func (p *Place) Open(name string) (*os.File, error) { return p.open(name, os.O_RDONLY) }

func (p *Place) open(name string, flags int) (*os.File, error) {
	f, err := p.pin(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &SpecialError{p.File(name), st.Mode()}
	}
	return reopen(f, flags)
}

// Create creates a new file, and fails if the name exists. A private file belongs to the user who called sudo
// if the folder is that user's or root's, a public one if the folder is that user's.
func (p *Place) Create(name string, mode fs.FileMode) (*os.File, error) {
	fd, err := unix.Openat(p.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		uint32(mode.Perm()))
	if err != nil {
		return nil, p.wrap("open", name, err)
	}
	f := os.NewFile(uintptr(fd), p.File(name))
	p.hand(f, mode)
	return f, nil
}

// Unnamed creates a file without a name (O_TMPFILE), which the kernel deletes if the process is killed before
// [Place.LinkFile] names it. Not every file system supports it.
func (p *Place) Unnamed(mode fs.FileMode) (*os.File, error) {
	if AllNamed {
		return nil, errors.ErrUnsupported
	}
	fd, err := unix.Openat(p.fd, ".", unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, uint32(mode.Perm()))
	if err != nil {
		return nil, p.wrap("open", ".", err)
	}
	f := os.NewFile(uintptr(fd), p.Path)
	if _, err := os.Stat(inSelf(f)); err != nil { // there would be no way to name it
		f.Close()
		return nil, err
	}
	p.hand(f, mode)
	return f, nil
}

// LinkFile names an unnamed file, and fails if the name exists.
func (p *Place) LinkFile(f *os.File, name string) error {
	return p.wrap("link", name, unix.Linkat(unix.AT_FDCWD, inSelf(f), p.fd, name, unix.AT_SYMLINK_FOLLOW))
}

func inSelf(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// hand gives a new file to the user who called sudo. Where that is impossible (some network file systems) it
// stays root's.
func (p *Place) hand(f *os.File, mode fs.FileMode) {
	uid, gid, ok := caller()
	var st unix.Stat_t
	if !ok || unix.Fstat(p.fd, &st) != nil || int(st.Uid) != uid && (st.Uid != 0 || mode&0o077 != 0) {
		return
	}
	_ = f.Chown(uid, gid)
}

// Empty opens an existing file to rewrite it in place. That is permitted only for a private file: one of this
// user's or root's, with no other name, and after removing the permissions of others.
func (p *Place) Empty(name string, mode fs.FileMode) (*os.File, error) {
	f, err := p.open(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	sys, _ := st.Sys().(*syscall.Stat_t)
	switch {
	case err != nil:
	case !ours(sys.Uid):
		err = &ForeignError{p.File(name), fmt.Sprintf("it belongs to another user (%d)", sys.Uid)}
	case sys.Nlink != 1:
		err = &ForeignError{p.File(name), "it has another name (a hard link), under which it would be lost"}
	default:
		if err = f.Chmod(mode); err == nil {
			p.hand(f, mode)
			err = f.Truncate(0)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Replaceable returns why a regular file must not be replaced by another: a user without write permission may
// not replace it either, and in folders such as /tmp only its owner may.
func (p *Place) Replaceable(name string) error {
	f, err := p.pin(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var st, dir unix.Stat_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Fstat(p.fd, &dir)); err != nil {
		return err
	}
	me := os.Geteuid()
	if dir.Mode&unix.S_ISVTX != 0 && me != 0 && int(dir.Uid) != me && int(st.Uid) != me {
		return &ForeignError{p.File(name),
			fmt.Sprintf("it belongs to another user (%d), and nobody else can replace it in this folder",
				st.Uid)}
	}
	w, err := p.open(name, os.O_RDWR)
	if err != nil {
		return err
	}
	return w.Close()
}

// Stream opens a pipe or a character device for writing, if it belongs to this process, its user, the user
// who called sudo, or root.
func (p *Place) Stream() (*os.File, error) {
	f, err := p.pin(p.Name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m := st.Mode()
	flags := os.O_WRONLY | unix.O_NOCTTY
	switch sys, _ := st.Sys().(*syscall.Stat_t); {
	case p.stream != nil && m.IsRegular():
		flags |= os.O_APPEND
	case m&fs.ModeNamedPipe == 0 && m&fs.ModeCharDevice == 0:
		return nil, &SpecialError{p.Path, m}
	case p.stream == nil && !trusted(sys.Uid):
		return nil, &ForeignError{p.Path,
			fmt.Sprintf("%s that belongs to another user (%d)", kind(m), sys.Uid)}
	}
	return reopen(f, flags)
}

// Rename renames a file within the folder, replacing an existing one.
func (p *Place) Rename(from, to string) error {
	return p.wrap("rename", to, unix.Renameat(p.fd, from, p.fd, to))
}

// Link adds a name to a file.
func (p *Place) Link(from, to string) error {
	return p.wrap("link", to, unix.Linkat(p.fd, from, p.fd, to, 0))
}

// Remove removes a name.
func (p *Place) Remove(name string) error {
	return p.wrap("remove", name, unix.Unlinkat(p.fd, name, 0))
}

// List returns the folder's entries.
func (p *Place) List() ([]fs.DirEntry, error) {
	fd, err := unix.Openat(p.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Dir(p.Path), Err: err}
	}
	d := os.NewFile(uintptr(fd), p.path)
	defer d.Close()
	return d.ReadDir(-1)
}
