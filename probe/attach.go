// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/internal/safeopen"
	"github.com/profinfer/profinfer/target"
)

// Attachment is one process with its probes. Sites can be added while the process runs.
type Attachment struct {
	s         *Session
	pid       int
	proc      int
	owner     uint32 // proc, and which of the processes that had this number
	layout    uint32
	numbers   []uint32 // of its sites
	links     []link.Link
	ops       []*opGroup
	mode      Mode
	sequences []uint64 // see SetRoutingPlaces
	stopped   bool
	left      *positions // set when its probes were detached
	released  bool
	// Ready is when the last probe that observes parts of steps was in place: a step that began later is
	// observed completely.
	Ready int64
	// Sites are those attached so far, keyed by the index in marks.
	Sites map[uint32]engine.Site
}

// Process registers a process: from now on the scheduling of its threads is recorded. Nothing is probed yet.
func (s *Session) Process(pid int, l *engine.Layout) (*Attachment, error) {
	proc, owner, err := s.process(pid)
	if err != nil {
		return nil, err
	}
	a := &Attachment{s: s, pid: pid, proc: proc, owner: owner, layout: uint32(proc),
		Sites: make(map[uint32]engine.Site)}
	if err = a.SetLayout(l); err == nil {
		err = a.resetFilter()
	}
	if err == nil {
		if err = s.objs.Targets.Put(uint32(pid), uint16(proc+1)); err != nil {
			err = fmt.Errorf("process %d: registering it: %w", pid, err)
		}
	}
	if err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}

// SetLayout replaces the layout with that of a more complete plan.
func (a *Attachment) SetLayout(l *engine.Layout) error {
	if err := a.s.objs.Layouts.Put(a.layout, kernelLayoutOf(l)); err != nil {
		return fmt.Errorf("process %d: its layout: %w", a.pid, err)
	}
	return nil
}

// batchKey: one link attaches all sites of one file, program and role.
type batchKey struct {
	order  int
	file   int
	role   engine.Role
	ret    bool
	opened string
}

// Attach probes the sites; files says where to open the file of each. It attaches all of them, or none and
// returns an error. Sites already attached must not be passed again.
func (a *Attachment) Attach(files []engine.File, sites []engine.Site) error {
	groups := make(map[batchKey][]engine.Site)
	var order []batchKey
	for _, site := range sites {
		if site.File < 0 || site.File >= len(files) {
			return fmt.Errorf("process %d: site %s lies in file %d of %d", a.pid, site.Where, site.File,
				len(files))
		}
		k := batchKey{handlingOf[site.Role].order, site.File, site.Role, site.Return, files[site.File].Open}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], site)
	}
	slices.SortStableFunc(order, func(x, y batchKey) int { return x.order - y.order })
	if err := a.s.room(a.pid, len(sites)); err != nil {
		return err
	}
	links, ops, first := len(a.links), len(a.ops), len(a.numbers)
	for _, k := range order {
		if err := a.attachGroup(files[k.file], k, groups[k]); err != nil {
			for _, l := range a.links[links:] {
				l.Close()
			}
			for _, g := range a.ops[ops:] {
				g.close()
				g.held.Close()
			}
			a.links, a.ops = a.links[:links], a.ops[:ops]
			// marks may refer to them: they are reused after all others
			for _, id := range a.numbers[first:] {
				delete(a.Sites, id)
			}
			return err
		}
		if k.role != engine.RoleStepBegin && !files[k.file].Unmapped {
			a.Ready = Now()
		}
	}
	return nil
}

func (a *Attachment) attachGroup(f engine.File, k batchKey, sites []engine.Site) error {
	g := &opGroup{file: f, key: k, sites: sites}
	for _, site := range sites {
		id := a.s.site()
		a.numbers = append(a.numbers, id)
		if err := a.s.objs.Sites.Put(id, a.kernelSite(&site)); err != nil {
			return fmt.Errorf("process %d: site %s: %w", a.pid, site.Where, err)
		}
		a.Sites[id] = site
		g.addrs = append(g.addrs, site.Offset)
		g.cookies = append(g.cookies, uint64(id))
	}
	held, err := openAnalysed(f)
	if err != nil {
		return a.openError(f, err)
	}
	g.key.opened = fmt.Sprintf("/proc/self/fd/%d", held.Fd())
	if k.role.Needs() == engine.LevelOp {
		g.held = held
		a.ops = append(a.ops, g)
		if !a.mode.wants(k.role) {
			return nil
		}
		return a.open(g)
	}
	defer held.Close()
	if err := a.open(g); err != nil {
		return err
	}
	a.links = append(a.links, g.links...)
	return nil
}

// openAnalysed opens the file in which the sites were found. Under its name there may be another file by now,
// or a pipe, in which the offsets are meaningless.
func openAnalysed(f engine.File) (*os.File, error) {
	file, err := safeopen.Regular(f.Open, nil)
	var special *safeopen.SpecialError
	if errors.As(err, &special) {
		return nil, fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	id, err := target.Identify(file)
	was := f.ID
	if err == nil && was != (target.FileID{}) &&
		(id.Dev != was.Dev || id.Inode != was.Inode || id.Size != was.Size || id.Mtime != was.Mtime) {
		err = fmt.Errorf("another file has its name: %w", fs.ErrNotExist)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// open attaches the group's sites.
func (a *Attachment) open(g *opGroup) error {
	ex, err := link.OpenExecutable(g.key.opened)
	if err != nil {
		return a.openError(g.file, err)
	}
	prog := a.s.program(g.key.role)
	if a.s.multi {
		attach := ex.UprobeMulti
		if g.key.ret {
			attach = ex.UretprobeMulti
		}
		l, err := attach(nil, prog, &link.UprobeMultiOptions{Addresses: g.addrs, Cookies: g.cookies,
			PID: uint32(a.pid)})
		if err != nil {
			return a.attachError(g.file, g.sites[0], err)
		}
		g.links = append(g.links, l)
		return nil
	}
	attach := ex.Uprobe
	if g.key.ret {
		attach = ex.Uretprobe
	}
	for i := range g.addrs {
		l, err := attach("", prog, &link.UprobeOptions{Address: g.addrs[i], Cookie: g.cookies[i], PID: a.pid})
		if err != nil {
			g.close()
			return a.attachError(g.file, g.sites[i], err)
		}
		g.links = append(g.links, l)
	}
	return nil
}

func (a *Attachment) openError(f engine.File, err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %s: %w", a.pid, f.Path, ErrGone)
	}
	return fmt.Errorf("process %d: opening %s to probe it: %w", a.pid, f.Path, err)
}

// ErrGone means that the process ended, or unmapped the file, before it was probed.
var ErrGone = errors.New("it is gone")

func (a *Attachment) attachError(f engine.File, site engine.Site, err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", a.pid, ErrGone)
	}
	err = fmt.Errorf("process %d: probing %s in %s: %w", a.pid, site.Where, f.Path, err)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return privilege("attaching a uprobe", err)
	}
	return err
}

func (a *Attachment) kernelSite(s *engine.Site) *kernelSite {
	k := &kernelSite{Tgid: uint32(a.pid), Owner: a.owner, Layout: a.layout,
		Kind: uint16(handlingOf[s.Role].kind), Batch: uint8(s.Batch)}
	if s.Phase == "encode" {
		k.Encodes = 1
	}
	k.A.Kind, k.A.Reg, k.A.Stack = uint8(s.A.Kind), s.A.Reg, s.A.Stack
	k.B.Kind, k.B.Reg, k.B.Stack = uint8(s.B.Kind), s.B.Reg, s.B.Stack
	k.C.Kind, k.C.Reg, k.C.Stack = uint8(s.C.Kind), s.C.Reg, s.C.Stack
	k.D.Kind, k.D.Reg, k.D.Stack = uint8(s.D.Kind), s.D.Reg, s.D.Stack
	return k
}

// Stop ends the recording of the process's scheduling at once and silences its probes: a program that it
// executes can map the same files, and is probed anew.
func (a *Attachment) Stop() error {
	if a.stopped {
		return nil
	}
	a.stopped = true
	for id, site := range a.Sites {
		k := a.kernelSite(&site)
		k.Tgid = 0
		if err := a.s.objs.Sites.Put(id, k); err != nil {
			return fmt.Errorf("process %d: silencing site %s: %w", a.pid, site.Where, err)
		}
	}
	if err := a.s.objs.Targets.Delete(uint32(a.pid)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("process %d: ending the recording of its scheduling: %w", a.pid, err)
	}
	return nil
}

// Detach stops recording and removes all probes. Events left in the rings can still be drained. The probes
// are removed in no particular order, so what is observed from here on is incomplete. It takes some tens of
// milliseconds; once Stop was called, it can run in parallel with anything else.
func (a *Attachment) Detach() error {
	for _, g := range a.ops {
		a.links = append(a.links, g.links...)
		g.links = nil
		g.held.Close()
	}
	a.ops = nil
	errs := make([]error, len(a.links)+1)
	errs[len(a.links)] = a.Stop()
	// each waits for kernel grace periods (about 40 ms); in parallel they wait once
	var wg sync.WaitGroup
	for i, l := range a.links {
		wg.Go(func() { errs[i] = l.Close() })
	}
	wg.Wait()
	a.links = nil
	left := a.s.position()
	a.left = &left
	return errors.Join(errs...)
}
