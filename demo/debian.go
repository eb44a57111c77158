// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profinfer/profinfer/internal/safeopen"
)

// DebianFolder is the usual name of the folder that [Debian] fills.
const DebianFolder = "debian-sid"

// Tools are Debian's packages with the programs for users (llama-bench, llama-server). Tests adds those that
// profinfer's own tests need. Offload has a backend for GPUs with a device that computes on the CPU, and one
// for other machines with the server that computes there. BLAS is the backend for matmuls over many tokens.
var (
	Tools = []string{"llama.cpp-tools"}
	Tests = []string{"llama.cpp-tools", "llama.cpp-examples", "llama.cpp-tests"}

	BLAS    = []string{"llama.cpp-tools", "libggml0-backend-blas"}
	Offload = []string{"llama.cpp-tools", "libggml0-backend-vulkan", "mesa-vulkan-drivers",
		"libggml0-backend-rpc", "llama.cpp-tools-extra"}
)

// A complete root contains this file, which lists the requested packages.
const completeFile = ".complete"

// Debian installs packages of Debian's unstable release and their dependencies into root, a directory for
// chroot. It uses its own apt configuration: nothing is installed on this system, and its package lists are
// unchanged. If everything is already there it returns at once. Downloads from before an interruption are
// kept and not repeated.
//
// It needs apt and dpkg on this system, and root to run what it installs.
func Debian(ctx context.Context, root string, packages []string, progress Progress) (Engine, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Engine{}, err
	}
	e := Engine{Root: root}
	if !e.lacks(packages) {
		if err := e.verify(ctx); err != nil {
			return Engine{}, fmt.Errorf("llama.cpp in %s does not run (remove the folder to have it made again): %w", root, err)
		}
		return e, nil
	}
	if err := safeopen.MkdirAll(root); err != nil {
		return Engine{}, err
	}
	for _, dir := range []string{root, filepath.Dir(root)} { // its programs are run
		if err := safeopen.Mine(dir); err != nil {
			return Engine{}, fmt.Errorf("%w; name another folder with --cache", err)
		}
	}
	unlock, err := lock(ctx, root+".lock", progress)
	if err != nil {
		return Engine{}, err
	}
	defer unlock()
	if !e.lacks(packages) { // another process was faster
		return e, e.verify(ctx)
	}
	for _, p := range e.packages() { // never remove what another user of the directory has
		if !slices.Contains(packages, p) {
			packages = append(slices.Clone(packages), p)
		}
	}
	if err := e.install(ctx, packages, progress); err != nil {
		return Engine{}, fmt.Errorf("installing Debian's llama.cpp in %s: %w", root, err)
	}
	if err := e.verify(ctx); err != nil {
		return Engine{}, fmt.Errorf("installed Debian's llama.cpp in %s, but it does not run: %w", root, err)
	}
	os.RemoveAll(root + ".apt") // 200 MB, read only once
	list := strings.Join(packages, "\n") + "\n"
	return e, os.WriteFile(filepath.Join(root, completeFile), []byte(list), 0o644)
}

// DebianInstalled returns the engine in root if [Debian] has installed all of packages
// there.
func DebianInstalled(root string, packages []string) (Engine, bool) {
	e := Engine{Root: root}
	return e, !e.lacks(packages)
}

// packages returns the requested packages that are completely installed.
func (e Engine) packages() []string {
	list, _ := os.ReadFile(filepath.Join(e.Root, completeFile))
	return strings.Fields(string(list))
}

func (e Engine) lacks(packages []string) bool {
	have := e.packages()
	return slices.ContainsFunc(packages, func(p string) bool { return !slices.Contains(have, p) })
}

// install downloads and unpacks packages into the engine's root.
func (e Engine) install(ctx context.Context, packages []string, progress Progress) error {
	if err := needSpace(e.Root, 600<<20); err != nil {
		return err
	}
	a, err := newApt(ctx, e.Root+".apt", progress)
	defer os.Remove(a.conf())
	if err != nil {
		return err
	}
	progress.report("reading Debian's package lists", 0, 0)
	if _, err := run(ctx, a.env(), "apt-get", "update", "-q"); err != nil {
		return err
	}
	debs, err := a.download(ctx, packages, progress)
	if err != nil {
		return err
	}
	// as in Debian's base-files
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(e.Root, "usr", dir), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(e.Root, dir)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	for _, dir := range []string{"dev", "etc", "models", "proc", "root", "run", "sys"} {
		if err := os.MkdirAll(filepath.Join(e.Root, dir), 0o755); err != nil {
			return err
		}
	}
	tmp := filepath.Join(e.Root, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for i, deb := range debs {
		progress.report("unpacking Debian's packages", int64(i), int64(len(debs)))
		if _, err := run(ctx, nil, "dpkg", "-x", deb, e.Root); err != nil {
			return err
		}
	}
	return dropSetID(e.Root)
}

// dropSetID removes set-ID bits from programs, which would give anyone who starts them their owner's
// privileges: nobody updates these programs.
func dropSetID(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		st, err := d.Info()
		if err != nil || st.Mode()&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
			return err
		}
		return os.Chmod(path, st.Mode().Perm())
	})
}

// apt is a private environment for apt: sources, lists, state, cache.
type apt struct{ dir string }

func (a apt) conf() string  { return filepath.Join(a.dir, "apt.conf") }
func (a apt) env() []string { return []string{"APT_CONFIG=" + a.conf()} }

func newApt(ctx context.Context, dir string, progress Progress) (apt, error) {
	a := apt{dir: dir}
	arch, err := run(ctx, nil, "dpkg", "--print-architecture")
	if err != nil {
		return a, fmt.Errorf("%w: llama.cpp is fetched with apt and dpkg, as Debian and Ubuntu have them; elsewhere install it so that llama-bench is on the PATH", err)
	}
	for _, d := range []string{"lists/partial", "archives/partial", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return a, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "state/status"), nil, 0o644); err != nil {
		return a, err
	}
	keyring, err := keyring(ctx, dir, progress)
	if err != nil {
		return a, err
	}
	mirror, err := mirror(ctx, dir, progress)
	if err != nil {
		return a, err
	}
	source := fmt.Sprintf("deb [arch=%s signed-by=%s] %s sid main\n", strings.TrimSpace(arch), keyring,
		mirror)
	if err := os.WriteFile(filepath.Join(dir, "sources.list"), []byte(source), 0o644); err != nil {
		return a, err
	}
	// The system's network settings (proxies, certificates) apply here too; its hooks and sources must not.
	acquire, err := run(ctx, nil, "apt-config", "dump", "Acquire::http", "Acquire::https")
	if err != nil {
		return a, err
	}
	// A mirror that is not updated daily has a list of sid past its Valid-Until, which is a week: a month is
	// allowed (apt.conf(5)), so that nobody in between can serve an older one. apt's own download user cannot
	// be used: it may not enter this directory, which is below root's home or in a directory only for root,
	// and in a user namespace it may not exist.
	conf := acquire + fmt.Sprintf(`
APT::Architecture "%[1]s"; #clear APT::Architectures; APT::Architectures { "%[1]s"; };
APT::Install-Recommends "false"; APT::Sandbox::User "root";
#clear Acquire::Languages; Acquire::Languages { "none"; }; Acquire::Retries "3";
Acquire::Min-ValidTime "2678400";
Dir::Etc::SourceList "%[2]s/sources.list"; Dir::Etc::SourceParts "/dev/null"; Dir::Etc::Parts "/dev/null";
Dir::Etc::Main "/dev/null"; Dir::Etc::Preferences "/dev/null"; Dir::Etc::PreferencesParts "/dev/null";
Dir::State "%[2]s/state"; Dir::State::status "%[2]s/state/status"; Dir::State::Lists "%[2]s/lists";
Dir::Cache "%[2]s"; Dir::Cache::archives "%[2]s/archives"; Dir::Log "%[2]s";
`, strings.TrimSpace(arch), dir)
	if err := os.Remove(a.conf()); err != nil && !os.IsNotExist(err) {
		return a, err
	}
	return a, os.WriteFile(a.conf(), []byte(conf), 0o600) // a proxy's address can contain a password
}

// keyring returns the file with the keys of Debian's archive: this system's, or one
// unpacked from its package (on Ubuntu).
func keyring(ctx context.Context, dir string, progress Progress) (string, error) {
	const file = "usr/share/keyrings/debian-archive-keyring.gpg"
	got, err := systemFile(ctx, dir, "debian-archive-keyring", file, progress)
	if err != nil {
		return "", fmt.Errorf("the keys of Debian's archive are not here: %w\ninstall the package debian-archive-keyring", err)
	}
	return got, nil
}

// mirror returns the address of the Debian mirror that this system uses, or else debootstrap's default (on
// Ubuntu).
func mirror(ctx context.Context, dir string, progress Progress) (string, error) {
	targets, err := run(ctx, nil, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(targets) {
		if uri := strings.TrimSpace(line); path.Base(uri) == "debian" {
			return uri, nil
		}
	}
	script, err := systemFile(ctx, dir, "debootstrap", "usr/sbin/debootstrap", progress)
	if err != nil {
		return "", fmt.Errorf("no Debian mirror is known here: none is among apt's sources (%w)\nadd one to them, or install the package debootstrap, which knows one", err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if uri, ok := strings.CutPrefix(strings.TrimSpace(line), "DEF_MIRROR="); ok {
			return strings.Trim(uri, `"'`), nil
		}
	}
	return "", fmt.Errorf("no Debian mirror is known here: none is among apt's sources, nor in %s", script)
}

// systemFile returns the path of a file from a package of this system: as installed, or unpacked below dir
// without installing it.
func systemFile(ctx context.Context, dir, pkg, file string, progress Progress) (string, error) {
	unpacked := filepath.Join(dir, pkg)
	for _, p := range []string{"/" + file, filepath.Join(unpacked, file)} {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	progress.report("fetching "+pkg, 0, 0)
	// This system's sources, but separate lists and cache: it may never have updated its own.
	own := filepath.Join(dir, "own")
	defer os.RemoveAll(own)
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(own, d), 0o755); err != nil {
			return "", err
		}
	}
	apt := []string{"apt-get", "-q", "-oDir::State::Lists=" + own + "/lists",
		"-oDir::Cache=" + own + "/cache", "-oAPT::Sandbox::User=root"}
	if _, err := run(ctx, nil, append(apt, "update")...); err != nil {
		return "", err
	}
	// it writes to its working directory
	if _, err := runIn(ctx, own, nil, append(apt, "download", pkg)...); err != nil {
		return "", err
	}
	debs, _ := filepath.Glob(filepath.Join(own, pkg+"_*.deb"))
	if len(debs) != 1 {
		return "", fmt.Errorf("apt-get download %s left %d files", pkg, len(debs))
	}
	if _, err := run(ctx, nil, "dpkg", "-x", debs[0], unpacked); err != nil {
		return "", err
	}
	p := filepath.Join(unpacked, file)
	_, err := os.Stat(p)
	return p, err
}

// download downloads the packages and all their dependencies, and returns their files.
func (a apt) download(ctx context.Context, packages []string, progress Progress) ([]string, error) {
	args := append([]string{"apt-get", "install", "-y", "-qq"}, packages...)
	list, err := run(ctx, a.env(), append(args, "--print-uris")...)
	if err != nil {
		return nil, err
	}
	_, total := parseURIs(list)
	archives := filepath.Join(a.dir, "archives")
	if err := needSpace(archives, total); err != nil {
		return nil, err
	}
	before := folderSize(archives)
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				progress.report("downloading Debian's llama.cpp", min(folderSize(archives)-before, total),
					total)
			}
		}
	}()
	_, err = run(ctx, a.env(), append(args, "--download-only")...)
	close(done)
	<-stopped
	if err != nil {
		return nil, err
	}
	// exactly the set that apt chose, without files of an earlier run in the directory
	sim, err := run(ctx, a.env(), append(args, "--print-uris", "-oAcquire::ForceHash=SHA256",
		"-oDir::Cache::archives="+filepath.Join(a.dir, "none"))...)
	if err != nil {
		return nil, err
	}
	packaged, _ := parseURIs(sim)
	if len(packaged) == 0 {
		return nil, fmt.Errorf("apt chose no package for %s", strings.Join(packages, " "))
	}
	var debs []string
	for _, p := range packaged {
		deb := filepath.Join(archives, p.name)
		if err := sameSum(deb, p.sum); err != nil {
			return nil, err
		}
		debs = append(debs, deb)
	}
	return debs, nil
}

// sameSum checks a file against its sum in the signed lists, as printed by apt-get --print-uris. apt itself
// checks what it downloads, but of a file from an interrupted run only the size. A file with another sum is
// removed.
func sameSum(path, want string) error {
	algorithm, sum, _ := strings.Cut(want, ":")
	if algorithm != "SHA256" {
		return fmt.Errorf("apt names no SHA-256 sum of %s, but %q", filepath.Base(path), want)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		os.Remove(path)
		return fmt.Errorf("%s is not the file that Debian's lists name (it is removed): try again", path)
	}
	return nil
}

// packageFile is a package's file, with its sum from the signed lists (ALGORITHM:HEX; empty: none).
type packageFile struct{ name, sum string }

// parseURIs parses the lines 'URI' FILE SIZE SUM of apt-get --print-uris, one per missing package: it returns
// the files and their total size in bytes.
func parseURIs(list string) (files []packageFile, total int64) {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) < 3 || !strings.HasPrefix(f[0], "'") {
			continue
		}
		if p := (packageFile{name: filepath.Base(f[1])}); filepath.Ext(p.name) == ".deb" {
			if len(f) > 3 {
				p.sum = f[3]
			}
			files = append(files, p)
		}
		if n, err := strconv.ParseInt(f[2], 10, 64); err == nil && n > 0 && n < math.MaxInt64-total {
			total += n
		}
	}
	return files, total
}

// folderSize returns the total size of the files in dir and below, as far as they are accessible.
func folderSize(dir string) int64 {
	var n int64
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
