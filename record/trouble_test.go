// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/record/internal/budget"
	"github.com/profinfer/profinfer/target"
	"github.com/profinfer/profinfer/target/watch"
	"github.com/profinfer/profinfer/trace"
)

// written is a recorder that writes into memory, without a kernel side.
func written(t *testing.T) (*recorder, *[]string, func() []trace.Block) {
	t.Helper()
	var buf bytes.Buffer
	var warned []string
	r := &recorder{w: trace.NewWriter(&buf), procs: map[int]*process{}, dirty: map[int]bool{},
		threads: map[threadKey]bool{}, looked: map[int]Looked{}}
	r.opt.Level = engine.LevelOp
	r.opt.Warn = func(s string) { warned = append(warned, s) }
	r.meta = trace.Meta{SchemaVersion: SchemaVersion}
	if err := r.w.Meta(r.meta); err != nil {
		t.Fatal(err)
	}
	return r, &warned, func() (out []trace.Block) {
		t.Helper()
		if err := r.w.Close(trace.End{}); err != nil {
			t.Fatal(err)
		}
		data := buf.Bytes()
		if _, err := profile.Replay(reader(t, data), profile.BaseSink{}); err != nil {
			t.Errorf("the recording cannot be replayed: %v", err)
		}
		rd := reader(t, data)
		for {
			b, err := rd.Next()
			if errors.Is(err, io.EOF) {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
	}
}

func reader(t *testing.T, data []byte) *trace.Reader {
	t.Helper()
	rd, err := trace.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return rd
}

func losses(blocks []trace.Block) (out []trace.Loss) {
	for _, b := range blocks {
		if b.Loss != nil {
			out = append(out, *b.Loss)
		}
	}
	return out
}

// A graph that no trace can define is told without its nodes, and the recording goes on.
func TestShapeTooLarge(t *testing.T) {
	r, warned, end := written(t)
	p := newProcess(7)
	p.info.Comm = "engine"
	r.procs[7] = p
	s := &trace.Shape{PID: 7, ID: 5, NNodes: 140_000, Nodes: make([]trace.Node, 140_000)}
	for i := range s.Nodes {
		s.Nodes[i] = trace.Node{Op: "ADD", Type: "f32", ViewSrc: -1, Addr: uint64(i) + 1, Executes: true}
	}
	p.learn.Define(s)
	if err := r.writeShape(p, s); err != nil {
		t.Fatalf("the recording ends: %v", err)
	}
	if _, shapes := p.learn.Waiting(); shapes != 0 || !p.oversize {
		t.Error("its order is to be learned, and cannot be told")
	}
	if err := r.w.Marks([]trace.Mark{{Time: 10, PID: 7, TID: 7, Kind: trace.MarkGraphBegin, Shape: 5,
		NNodes: 140_000},
		{Time: 20, PID: 7, TID: 7, Kind: trace.MarkGraphEnd}}); err != nil {
		t.Fatal(err)
	}
	if err := r.w.Hits([]trace.Hit{{Time: 12, PID: 7, TID: 7, Kind: trace.HitOpBegin, Arg: 3},
		{Time: 13, PID: 7, TID: 7, Kind: trace.HitOpEnd}}); err != nil {
		t.Fatal(err)
	}
	blocks := end()
	found := false
	for _, b := range blocks {
		if b.Shape != nil {
			found = true
			if b.Shape.ID != 5 || len(b.Shape.Nodes) != 0 || !strings.Contains(b.Shape.Incomplete, "140000") {
				t.Errorf("%+v", b.Shape)
			}
		}
	}
	l := losses(blocks)
	if !found || len(l) != 1 || l[0].What != "definitions" || l[0].Events != 140_000 ||
		!strings.Contains(l[0].Of, "engine (7)") {
		t.Errorf("shape told: %v, losses %+v", found, l)
	}
	if len(*warned) != 1 {
		t.Errorf("warned of %q", *warned)
	}
}

// A command line that no trace can hold is cut.
func TestLongCommandLine(t *testing.T) {
	r, _, end := written(t)
	words := slices.Repeat([]string{"x"}, 200_000)
	if err := r.w.Process(trace.Process{PID: 1, Cmdline: words}); err == nil {
		t.Fatal("the whole of it can be written: nothing is tried here")
	}
	for _, w := range [][]string{words, {"engine", strings.Repeat("\x01", 6<<20)}} {
		got := shortened(w)
		if err := r.w.Process(trace.Process{PID: 1, Cmdline: got}); err != nil {
			t.Errorf("cut to %d words: %v", len(got), err)
		}
		if !strings.Contains(got[len(got)-1], "more words") {
			t.Errorf("it is not said to be cut: %q", got[len(got)-1][:20])
		}
	}
	if got := shortened([]string{"a", "b"}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	end()
}

// A process's trouble is counted and named; that of the trace, and a privilege that is missing, end the
// recording.
func TestTrouble(t *testing.T) {
	r, warned, end := written(t)
	p := newProcess(9)
	p.info.Comm = "engine"
	for i := range 2 * maxTold {
		q := newProcess(100 + i)
		q.info.Comm = "engine"
		if err := r.leaveOut(q, fmt.Errorf("process %d: its ggml has no operator NO_SUCH",
			q.pid)); err != nil {
			t.Fatal(err)
		}
		if q.failed == nil {
			t.Fatal("it is tried again")
		}
	}
	if len(*warned) != maxTold+1 {
		t.Errorf("%d lines at the terminal, want %d and one that says that there are more", len(*warned),
			maxTold)
	}
	r.wait(p, fmt.Errorf("process 9: too many: %w", probe.ErrFull))
	r.wait(p, fmt.Errorf("process 9: too many: %w", probe.ErrFull))
	r.procs[9] = p
	r.admit()
	if !r.dirty[9] {
		t.Error("what was given back is of no use to one that waits")
	}
	for range 2 {
		if err := r.waited(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.trouble(p, "probes", 3,
		&probe.Missing{What: "attaching a uprobe is not permitted"}); err == nil {
		t.Error("a missing privilege is taken for one process's trouble")
	}
	if r.prog.Missed != 2*maxTold+1 {
		t.Errorf("%d processes were missed", r.prog.Missed)
	}
	if r.nothing(0) != r.troubled {
		t.Error("where nothing was recorded, the first trouble is why")
	}
	l := losses(end())
	if len(l) != 2*maxTold+1 || l[0].Of != "engine (100): it is not recorded: process 100: its ggml has no operator NO_SUCH" || !strings.Contains(l[len(l)-1].Of, "engine (9)") {
		t.Errorf("%d losses, %+v, %+v", len(l), l[0], l[len(l)-1])
	}
	if err := r.trouble(p, "probes", 3, errors.New("any")); err == nil {
		t.Error("a trace that is closed is taken for one process's trouble")
	}
}

// Processes that were over before they were looked at are told by the files that they mapped.
func TestMissed(t *testing.T) {
	r, _, end := written(t)
	lib, tool := fileKey{1, 10}, fileKey{1, 11}
	gone := func(pid int, files ...fileKey) {
		p := newProcess(pid)
		p.info.Comm = "x"
		for _, f := range files {
			p.maps(target.Mapping{Dev: f.dev, Inode: f.inode})
		}
		if err := r.over(p, int64(pid)); err != nil {
			t.Fatal(err)
		}
	}
	gone(1, tool)
	gone(2, tool, lib)
	gone(3)
	r.engineFiles([]engine.File{{Dev: 1, Inode: 10}}) // learned later
	gone(4, lib)
	if err := r.tellMissed(); err != nil {
		t.Fatal(err)
	}
	late := newProcess(5)
	late.info.Comm, late.unheld = "x", true
	if err := r.unseen(late); err != nil {
		t.Fatal(err)
	}
	late.computes = true
	if err := r.unseen(late); err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, l := range losses(end()) {
		of = append(of, l.Of[:5])
	}
	if !slices.Equal(of, []string{"x (2)", "x (4)", "x (5)"}) || r.prog.Missed != 3 {
		t.Errorf("told: %q, %d missed", of, r.prog.Missed)
	}
}

// Names of threads that change, and numbers that another thread gets.
func TestThreadNames(t *testing.T) {
	r, _, end := written(t)
	pid := os.Getpid()
	r.procs[pid] = newProcess(pid)
	r.thread(int32(pid), 77) // ended already: it has no name
	event := func(k watch.EventKind, tid int, comm string) {
		t.Helper()
		if err := r.happened(watched{Event: watch.Event{Kind: k, PID: pid, TID: tid,
			Comm: comm}}); err != nil {
			t.Fatal(err)
		}
	}
	event(watch.EventComm, 77, "worker")
	event(watch.EventComm, 78, "not seen yet")
	event(watch.EventThread, 77, "")
	if len(r.threads) != 0 {
		t.Error("the name of a thread's former owner is kept")
	}
	r.thread(int32(pid), 77)
	event(watch.EventExec, pid, "program")
	var names []string
	for _, b := range end() {
		for _, x := range b.Threads {
			names = append(names, fmt.Sprint(x.TID, x.Comm))
		}
	}
	if !slices.Equal(names, []string{"77", "77worker", "77"}) {
		t.Errorf("%q", names)
	}
}

// A process whose probes could not be changed is not learned from any more: nobody would take what is kept
// for that.
func TestStuckLearnsNothing(t *testing.T) {
	r, _, end := written(t)
	p := newProcess(7)
	p.gov = budget.New(0, 0, 1000)
	p.plan = &engine.Plan{}
	p.att = &probe.Attachment{}
	p.info.Sites = []trace.Site{{Role: trace.RoleGraphBegin, Backend: trace.BackendCPU}}
	p.cpus = 1 << 16
	r.procs[7] = p
	graphs := func(n int) {
		for i := range n {
			at := int64(10 * i)
			r.observe(p, &trace.Mark{Time: at, PID: 7, TID: 7, Kind: trace.MarkGraphBegin}, &probe.Events{})
			if err := r.writeHits(&probe.Events{Hits: []trace.Hit{{Time: at + 1, PID: 7, TID: 7,
				Kind: trace.HitOpEnd}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.threads[threadKey{7, 7}] = true
	graphs(1)
	if n, _ := p.learn.Waiting(); n != 2 {
		t.Fatalf("of a mark and a hit of a process %d are kept to learn from", n)
	}
	p.stuck = true
	p.learn.Forget()
	graphs(1000)
	if n, _ := p.learn.Waiting(); n != 0 {
		t.Errorf("%d marks and hits are kept", n)
	}
	end()
}

// Marks of the program that a process ran before are counted where they would be taken for the new one's, and
// written where not.
func TestStrayMarks(t *testing.T) {
	r, _, end := written(t)
	old := newProcess(7)
	old.att, old.computes, old.plan = &probe.Attachment{}, true, &engine.Plan{}
	old.index[3] = 0
	old.info.Sites = []trace.Site{{Backend: "CPU"}}
	r.ended = []*process{old}
	r.procs[7] = newProcess(7) // it has executed something that is not probed yet
	r.threads[threadKey{7, 7}] = true
	var e *probe.Events
	write := func() {
		e = &probe.Events{Marks: []trace.Mark{{Time: 1, PID: 7, TID: 7, Kind: trace.MarkGraphBegin, Site: 3}}}
		if err := r.writeMarks(e); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if r.strays != 0 || len(e.Marks) != 1 {
		t.Errorf("%d marks written, %d strays: it is the program before's alone", len(e.Marks), r.strays)
	}
	r.procs[7].att = &probe.Attachment{}
	write()
	if r.strays != 1 || len(e.Marks) != 0 {
		t.Errorf("%d marks written, %d strays: sites are the new program's now", len(e.Marks), r.strays)
	}
	delete(r.procs, 7)
	r.ended = nil
	write()
	if r.strays != 2 {
		t.Errorf("%d strays: nobody knows this process", r.strays)
	}
	end()
}

// A file that cannot be probed is left out, the others are probed.
func TestAttachFails(t *testing.T) {
	if err := probe.Check(); err != nil {
		if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, err := probe.Open(probe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, warned, end := written(t)
	r.session = s
	p := newProcess(os.Getpid())
	p.plan = &engine.Plan{}
	if p.att, err = s.Process(p.pid, &engine.Layout{}); err != nil {
		t.Fatal(err)
	}
	defer p.att.Detach()
	files := []engine.File{{Path: "/bin/sh", Open: "/bin/sh", Inode: 1},
		{Path: "bad", Open: "/proc/version", Inode: 2}}
	sites := []engine.Site{{File: 1, Role: engine.RoleStepBegin, Where: "nowhere"},
		{File: 0, Offset: 0x10, Role: engine.RoleGraphBegin, Where: "header"}}
	for range 2 { // what was refused is not tried again
		if err := r.attach(p, files, sites); err != nil {
			t.Fatalf("the recording ends: %v", err)
		}
	}
	if len(p.info.Sites) != 1 || p.info.Sites[0].Where != "header" || len(*warned) != 1 ||
		!strings.Contains((*warned)[0], "bad") {
		t.Errorf("sites %+v, warned of %q", p.info.Sites, *warned)
	}
	if l := losses(end()); len(l) != 1 || l[0].What != "probes" || l[0].Events != 1 {
		t.Errorf("losses %+v", l)
	}
}

// A process that lives on without its main thread, which took its probes along, is told once.
func TestOrphans(t *testing.T) {
	r, _, end := written(t)
	p := newProcess(7)
	p.info.Comm, p.orphan = "x", 5
	p.attached[siteKey{}] = true
	r.procs[7] = p
	for _, now := range []int64{6, orphanAfter + 5, orphanAfter + 6} {
		if err := r.orphans(now); err != nil {
			t.Fatal(err)
		}
	}
	if l := losses(end()); len(l) != 1 || l[0].What != "probes" {
		t.Errorf("%+v", l)
	}
}
