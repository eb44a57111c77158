// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Engine is an installation of llama.cpp.
type Engine struct {
	// Root is the directory to chroot into; empty if the programs are this system's own.
	Root    string
	Version string // llama-bench's version, in one line
}

// Provide returns an engine for the demo: this system's own llama.cpp if llama-bench is found and works,
// otherwise Debian's, downloaded to a directory below dir if it is not there yet (see [Debian]).
func Provide(ctx context.Context, dir string, progress Progress) (Engine, error) {
	if e, ok := Installed(ctx); ok {
		return e, nil
	}
	return Debian(ctx, filepath.Join(dir, DebianFolder), Tools, progress)
}

// Installed returns this system's own llama.cpp, if there is one that runs.
func Installed(ctx context.Context) (Engine, bool) {
	if _, err := exec.LookPath("llama-bench"); err != nil {
		return Engine{}, false
	}
	e := Engine{}
	return e, e.verify(ctx) == nil
}

// Cache returns the directory for downloads and generated files: profinfer in the user's cache directory.
func Cache() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		if os.Geteuid() != 0 {
			return "", fmt.Errorf("no cache folder: %w (set HOME or XDG_CACHE_HOME)", err)
		}
		base = "/var/cache" // root without HOME: a service or a container
		own := filepath.Join(base, "profinfer")
		if err := closed(own); err != nil {
			return "", err
		}
	}
	return filepath.Join(base, "profinfer"), nil
}

// closed creates a directory, or takes an existing one of root's, and makes it inaccessible to others: it
// contains programs that nobody updates, and a tmp that everybody could write to.
func closed(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil || !os.IsExist(err) {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is no folder", dir)
	}
	return os.Chmod(dir, 0o700) // only root puts anything into the directory above it
}

// Command returns the command line that runs a program of the engine, such as llama-bench. File names in args
// are as seen by the program: see [Engine.Inside].
func (e Engine) Command(name string, args ...string) []string {
	if e.Root == "" {
		return append([]string{name}, args...)
	}
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		chroot = "/usr/sbin/chroot" // not on every PATH
	}
	program := name
	for _, pattern := range []string{"/usr/bin/", "/usr/libexec/*/llama.cpp-tests/",
		"/usr/libexec/*/llama/bin/"} {
		if found, _ := filepath.Glob(filepath.Join(e.Root, pattern, name)); len(found) > 0 {
			program = strings.TrimPrefix(found[0], filepath.Clean(e.Root))
		}
	}
	return append([]string{chroot, e.Root, program}, args...)
}

// ModelDir returns the directory for models that the engine's programs can see: one in its root, or dir if it
// has none.
func (e Engine) ModelDir(dir string) string {
	if e.Root == "" {
		return dir
	}
	return filepath.Join(e.Root, "models")
}

// Inside returns the name of the file at path as seen by the engine's programs. It fails if the file is
// outside the engine's root.
func (e Engine) Inside(path string) (string, error) {
	if e.Root == "" {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(e.Root, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is outside of %s, where the engine runs: copy it to %s", path, e.Root,
			e.ModelDir(""))
	}
	return "/" + rel, nil
}

// verify runs llama-bench and sets Version.
func (e *Engine) verify(ctx context.Context) error {
	argv := e.Command("llama-bench", "--version")
	out, err := run(ctx, nil, argv...)
	if err != nil {
		if e.Root != "" && os.Geteuid() != 0 {
			return fmt.Errorf("%w\nonly root can run programs in %s: try with sudo", err, e.Root)
		}
		return err
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "version") {
			e.Version = strings.TrimSpace(line)
			return nil
		}
	}
	e.Version = strings.TrimSpace(lastLines(out, 1))
	return nil
}

// run runs a command to completion and returns its stdout and stderr. Its error contains the end of
// them, which usually says why.
func run(ctx context.Context, env []string, argv ...string) (string, error) {
	return runIn(ctx, "", env, argv...)
}

// runIn is run with a working directory.
func runIn(ctx context.Context, dir string, env []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C.UTF-8"), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	what := strings.Join(argv, " ")
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not installed here", argv[0])
	}
	if tail := lastLines(string(out), 8); tail != "" {
		return "", fmt.Errorf("%s: %w:\n%s", what, err, tail)
	}
	return "", fmt.Errorf("%s: %w", what, err)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
