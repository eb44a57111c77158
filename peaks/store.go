// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Peaks are stored in one file per machine, as several machines can share a home directory.

// maxFile bounds the file: usually it has a few KB.
const maxFile = 1 << 20

// folders are where peaks may be stored, the one to write first: the user's cache directory, and one for all
// users, which belongs to root.
func folders() []string {
	const all = "/var/cache/profinfer/peaks"
	user, err := os.UserCacheDir()
	user = filepath.Join(user, "profinfer", "peaks")
	switch {
	case err != nil && os.Geteuid() != 0:
		return []string{all} // read-only; Save reports that
	case err != nil, os.Geteuid() == 0 && os.Getenv("XDG_CACHE_HOME") == "":
		if err != nil {
			return []string{all}
		}
		return []string{all, user}
	}
	return []string{user, all}
}

// Load returns the peaks of this machine, the latest if several are stored; nil if they were never measured.
func Load() (*Peaks, error) {
	m, _ := readMachine(root)
	return load(folders(), &m)
}

func load(dirs []string, m *Machine) (*Peaks, error) {
	var found *Peaks
	var bad error
	for _, dir := range dirs {
		p, err := readFile(filepath.Join(dir, m.key()+".json"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			bad = err
		case !p.Machine.is(m):
			// another machine of the same name: usually one with more memory
		case found == nil || p.Measured.After(found.Measured):
			found = p
		}
	}
	if found == nil && bad != nil {
		return nil, bad
	}
	return found, nil
}

// Compact returns the peaks as JSON that [Parse] reads, without the loops that were tried: what a recording
// stores about its machine.
func (p *Peaks) Compact() ([]byte, error) {
	q := *p
	q.Kernels, q.Warnings = nil, nil
	return json.Marshal(&q)
}

// Save stores peaks for this machine and returns the file's name.
func Save(p *Peaks) (string, error) { return save(folders()[0], p) }

func save(dir string, p *Peaks) (string, error) {
	if err := p.check(); err != nil {
		return "", fmt.Errorf("these peaks are not kept: %w", err)
	}
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("keeping the peaks: %w (set XDG_CACHE_HOME)", err)
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", fmt.Errorf("keeping the peaks: %w (set XDG_CACHE_HOME)", err)
	}
	defer os.Remove(f.Name()) // already gone on success
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	name := filepath.Join(dir, p.Machine.key()+".json")
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return "", fmt.Errorf("keeping the peaks: %w", err)
	}
	return name, nil
}

// readFile reads what Save wrote. For a file with other contents the error says what to do.
func readFile(name string) (*Peaks, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Peaks, error) {
		return nil, fmt.Errorf("the machine's peaks in %s: %w\n  measure again: profinfer peaks", name, err)
	}
	if !st.Mode().IsRegular() {
		return fail(errors.New("not a regular file"))
	}
	f, err := os.Open(name)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fail(err)
	}
	if len(b) > maxFile {
		return fail(fmt.Errorf("larger than %d KB", maxFile>>10))
	}
	p, err := Parse(b)
	if err != nil {
		return fail(err)
	}
	return p, nil
}

// Parse parses peaks from JSON, such as the output of profinfer peaks --json, and rejects impossible figures.
func Parse(b []byte) (*Peaks, error) {
	p := new(Peaks)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("not understood: %w", err)
	}
	if p.SchemaVersion != SchemaVersion {
		return nil, fmt.Errorf("schema_version %d, not %d", p.SchemaVersion, SchemaVersion)
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

// check bounds the values that others plot and compute with.
func (p *Peaks) check() error {
	if len(p.CPUs) > maxCPUs || len(p.Kinds) > 64 || len(p.Kernels) > 256 || len(p.Warnings) > 256 ||
		len(p.Machine.Kinds) > 64 {
		return errors.New("more of something than a machine has")
	}
	if len(p.Points) == 0 {
		return errors.New("no points")
	}
	if p.Measured.IsZero() || p.Measured.Year() > 9999 {
		return errors.New("no date")
	}
	if err := checkPoints(p.Points); err != nil {
		return err
	}
	for i := range p.Kinds {
		if err := checkPoints(p.Kinds[i].Points); err != nil {
			return err
		}
	}
	for _, k := range p.Kernels {
		if !sane(&k.Rate) {
			return fmt.Errorf("%v is no rate", k.Rate)
		}
	}
	for _, v := range []*float64{p.GivenGBps, p.GivenGFlops} {
		if v != nil && !sane(v) {
			return fmt.Errorf("%v is no rate", *v)
		}
	}
	for _, v := range []*float64{p.Others, p.Load} {
		if v != nil && !(*v >= 0 && *v < 1e9) {
			return fmt.Errorf("%v is no share", *v)
		}
	}
	if p.WorkingSet < 0 || p.TookNS < 0 || p.Machine.Memory < 0 || p.Machine.Cache < 0 || p.Machine.CPUs < 0 {
		return errors.New("a size or a time below 0")
	}
	return nil
}

func checkPoints(points []Point) error {
	if len(points) > maxCPUs {
		return errors.New("too many points")
	}
	last := 0
	for i := range points {
		pt := &points[i]
		if pt.Threads <= last || pt.Threads > maxCPUs {
			return fmt.Errorf("%d threads after %d", pt.Threads, last)
		}
		last = pt.Threads
		for _, w := range figures {
			f := *pt.slot(w)
			if f == nil {
				continue
			}
			if !sane(&f.Best) || !sane(&f.Median) || !sane(&f.Worst) || f.Median > f.Best ||
				f.Worst > f.Median || f.Trials < 1 {
				return fmt.Errorf("%d threads: %s is no figure", pt.Threads, w)
			}
			if f.CPU != nil && !(*f.CPU >= 0 && *f.CPU <= 1) {
				return fmt.Errorf("%d threads: %v is no share of CPU time", pt.Threads, *f.CPU)
			}
		}
		if pt.GHz != nil && !(*pt.GHz > 0 && *pt.GHz < 1000) {
			return fmt.Errorf("%v GHz is no clock's rate", *pt.GHz)
		}
	}
	return nil
}

func sane(v *float64) bool { return *v > 0 && *v <= most && !math.IsNaN(*v) }
