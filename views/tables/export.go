// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/memory"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/trace"
)

// Export replays the trace of r and writes one of its tables to w. It streams: memory is bounded by what is
// in progress in the run and by its graph definitions, not by its length. The header reports what the trace
// lacks, even where the table does not show it.
func Export(r *trace.Reader, name, format string, w io.Writer) (*profile.Header, error) {
	return ExportPart(r, nil, name, format, w)
}

// ExportPart is [Export] of a part of the recording; nil: all of it.
func ExportPart(r *trace.Reader, part *profile.Chosen, name, format string, w io.Writer) (*profile.Header,
	error) {
	if _, err := NewWriter(io.Discard, name, format); err != nil {
		return nil, err
	}
	e := &exporter{name: name, meta: r.Meta}
	// What is there of the metadata when the first row is written.
	e.out = &late{open: func() (RowWriter, error) { return NewWriter(w, name, format, columns(e.seen())...) }}
	var pool *profile.OpPool
	if write := e.rowsOfOps(); write != nil {
		pool = &profile.OpPool{}
		e.rows = newOpRows(pool, write)
		defer e.rows.close()
	}
	h, err := profile.ReplayPart(r, e, part, pool)
	if e.rows != nil {
		// What could not be written is the reason that the replay ended.
		if err := e.rows.close(); err != nil {
			return nil, err
		}
		e.now = r.Meta()
	}
	if err != nil {
		return nil, err
	}
	if err := e.rest(h); err != nil {
		return nil, err
	}
	return h, e.out.Close()
}

// columns returns the names of the counters' columns: the events' own, with _ for characters that SQL does
// not allow in a name.
func columns(m *trace.Meta) []string {
	if m == nil {
		return nil
	}
	var names []string
	for i := range m.Counters {
		name := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, m.Counters[i].Name)
		for slices.Contains(names, name) {
			name += "_"
		}
		names = append(names, name)
	}
	return names
}

// late opens a writer at the first row: the columns are known only once the recording is being read.
type late struct {
	open func() (RowWriter, error)
	w    RowWriter
}

func (l *late) writer() (err error) {
	if l.w == nil {
		l.w, err = l.open()
	}
	return err
}

func (l *late) Write(row any) error {
	if err := l.writer(); err != nil {
		return err
	}
	return l.w.Write(row)
}

func (l *late) Close() error {
	if err := l.writer(); err != nil {
		return err
	}
	return l.w.Close()
}

// exporter turns a replay into the rows of one table.
type exporter struct {
	profile.BaseSink
	name    string
	out     RowWriter
	rows    *opRows            // nil: the table has none of operators
	meta    func() *trace.Meta // of the reader, for the replay's goroutine
	now     *trace.Meta        // of the rows that are written
	thread  threadRow
	derive  facts.Deriver
	noSched int // 0: unknown so far, 1: scheduling was recorded, 2: it was not
	shapes  map[*profile.Shape]bool

	requests *requests.Builder
	files    memory.Residency
}

// seen returns the metadata as far as it is known for the row that is written.
func (e *exporter) seen() *trace.Meta {
	if e.rows != nil {
		return e.now
	}
	return e.meta()
}

// offCPUKnown reports whether off-CPU time could be seen: without scheduling events it is not zero but
// unknown.
func (e *exporter) offCPUKnown() bool {
	if e.noSched == 0 {
		m := e.seen()
		if m == nil {
			return true
		}
		e.noSched = 1
		if m.Extra["sched"] == "off" {
			e.noSched = 2
		}
	}
	return e.noSched == 1
}

// some returns v, or null if it equals the value that stands for unknown.
func some[T comparable](v, unknown T) *T {
	if v == unknown {
		return nil
	}
	return &v
}

// count returns v, or null if it is not positive.
func count[T int | int32 | int64](v T) *int64 {
	if v <= 0 {
		return nil
	}
	n := int64(v)
	return &n
}

func when[T any](known bool, v T) *T {
	if !known {
		return nil
	}
	return &v
}

func (e *exporter) Op(o *profile.Op) error {
	e.shape(o.Shape)
	if e.rows == nil {
		return nil
	}
	var d *facts.Derived
	if e.name == "ops" {
		d = e.derive.Derive(o)
	}
	if !e.rows.add(o, d, e.meta) {
		return errWrite
	}
	return nil
}

// errWrite ends a replay whose rows cannot be written.
var errWrite = errors.New("the table cannot be written")

func (e *exporter) Graph(g *profile.Graph) error {
	e.shape(g.Shape)
	if e.name == "residency" {
		e.files.Graph(g)
	}
	if e.name != "graphs" {
		return nil
	}
	r := &GraphRow{Graph: g.ID, Step: count(g.Step), PID: int64(g.PID), Split: int64(g.Split),
		Backend: some(g.Backend, ""),
		StartNs: g.Start, DurNs: g.Dur, NNodes: count(g.NNodes)}
	if g.Shape != nil {
		r.Shape = count(g.Shape.Index)
	}
	if g.Caller != nil {
		r.Caller, r.CallerStep = &g.Caller.ID, count(g.Caller.Step)
	}
	return e.out.Write(r)
}

// Choice writes the tokens' choices in a layer.
func (e *exporter) Choice(c *profile.Choice) error {
	if e.name != "experts" {
		return nil
	}
	r := ExpertRow{Layer: some(int64(c.Layer), -1), Node: int64(c.Node)}
	if c.Step != nil {
		r.Step = count(c.Step.ID)
	}
	if c.Graph != nil {
		r.Graph = count(c.Graph.ID)
	}
	if c.Shape != nil {
		r.Shape = count(c.Shape.Index)
	}
	for i, n := range c.Chosen {
		row := r
		row.Token, row.Rank = int64(i/c.Used), int64(i%c.Used)
		known := n != profile.UnknownExpert
		row.Expert, row.Slot = when(known && !c.Slots, int64(n)), when(known && c.Slots, int64(n))
		if err := e.out.Write(&row); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) Step(s *profile.Step) error {
	if b := e.sequences(); b != nil {
		return b.Step(s)
	}
	if e.name != "steps" {
		return nil
	}
	return e.out.Write(&StepRow{Step: s.ID, PID: int64(s.PID), Ctx: some(s.Ctx, 0),
		Phase: some(string(s.Phase), ""), StartNs: s.Start, DurNs: s.Dur,
		NTokens: when(s.NTokens >= 0, int64(s.NTokens)), NSeqs: when(s.NSeqs >= 0, int64(s.NSeqs)),
		Untraced: some(s.Untraced, ""), Incomplete: some(s.Incomplete, "")})
}

func (e *exporter) Result(s *profile.Step) error {
	if b := e.sequences(); b != nil {
		return b.Result(s)
	}
	return nil
}

func (e *exporter) Sched(s *trace.Sched) error {
	if e.name != "sched" {
		return nil
	}
	r := &SchedRow{TsNs: s.Time, Event: "switch", CPU: int64(s.CPU), PrevTID: int64(s.PrevTID),
		NextTID: int64(s.NextTID), NextComm: s.NextComm, HeldNs: when(s.Held > 0, s.Held)}
	switch s.Kind {
	case trace.SchedSwitch:
		r.PrevState = when(true, stateLetter(s.PrevState))
	case trace.SchedWakeup:
		r.Event = "wakeup"
	case trace.SchedLook:
		r.Event = "running"
	default:
		return nil // of a later version
	}
	return e.out.Write(r)
}

// stateLetter returns a task state's letter as in ps: the kernel's __task_state_index
// (include/linux/sched.h).
func stateLetter(s uint32) string {
	const (
		report = 0x7f
		dead   = 0x80
		idle   = 0x402 // uninterruptible, and not counted as load
		rtLock = 0x1000
	)
	switch {
	case s&idle == idle:
		return "I"
	case s&rtLock != 0:
		return "D"
	case s&report == 0 && s&dead != 0:
		return "X"
	}
	i := 0
	for b := s & report; b != 0; b >>= 1 {
		i++
	}
	return "RSDTtXZP"[i : i+1]
}

// shape notes a graph definition for the tables that are written at the end, when it is known which of its
// nodes ran.
func (e *exporter) shape(s *profile.Shape) {
	if s == nil || s.Shape == nil || e.name != "nodes" && e.name != "edges" {
		return
	}
	if e.shapes == nil {
		e.shapes = map[*profile.Shape]bool{}
	}
	e.shapes[s] = true
}

// rest writes what is known only at the end of the run.
func (e *exporter) rest(h *profile.Header) error {
	switch e.name {
	case "runs":
		return e.out.Write(runRow(h))
	case "threads":
		for _, t := range h.Threads {
			if err := e.out.Write(&ThreadRow{PID: int64(t.PID), TID: int64(t.TID), Comm: some(t.Comm, ""),
				Role: t.Role}); err != nil {
				return err
			}
		}
	case "losses":
		for _, l := range h.Losses {
			if err := e.out.Write(&LossRow{StartNs: l.Start, EndNs: l.End, Why: l.Why,
				Events: count(int64(min(l.Events, 1<<63-1))), What: some(l.What, ""), Of: some(l.Of,
					"")}); err != nil {
				return err
			}
		}
	case "sequences", "rounds":
		return e.writeSequences(h)
	case "residency":
		return e.residency()
	case "nodes", "edges":
		shapes := make([]*profile.Shape, 0, len(e.shapes))
		for s := range e.shapes {
			shapes = append(shapes, s)
		}
		slices.SortFunc(shapes, func(a, b *profile.Shape) int { return int(a.Index - b.Index) })
		for _, s := range shapes {
			if err := e.nodes(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *exporter) nodes(s *profile.Shape) error {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if e.name == "edges" {
			for j, src := range n.Src {
				if src < 0 || slices.Contains(n.Src[:j], src) {
					continue // outside the definition; the same tensor twice
				}
				if err := e.out.Write(&EdgeRow{Shape: s.Index, From: int64(src), To: int64(i)}); err != nil {
					return err
				}
			}
			continue
		}
		r := &NodeRow{Shape: s.Index, Node: int64(i), Kind: "node", Name: n.Name, Op: n.Op, Type: n.Type,
			Ne0: n.Ne[0], Ne1: n.Ne[1], Ne2: n.Ne[2], Ne3: n.Ne[3], Src: n.Src, Data: some(n.Data, 0)}
		if i >= s.NNodes {
			r.Kind = "leaf"
		}
		if i < len(s.Executed) {
			r.Executed = s.Executed[i]
		}
		if i < len(s.FusedInto) && s.FusedInto[i] >= 0 {
			r.FusedInto = when(true, int64(s.FusedInto[i]))
		}
		if err := e.out.Write(r); err != nil {
			return err
		}
	}
	return nil
}

func runRow(h *profile.Header) *RunRow {
	m := &h.Meta
	r := &RunRow{CPU: some(m.CPU, ""), Cores: count(m.Cores), Kernel: some(m.Kernel, ""),
		Level: some(m.Level, "")}
	command := m.Command
	if len(h.Processes) > 0 {
		p := &h.Processes[0]
		r.Engine, r.EngineVersion, r.GGMLVersion = some(p.Engine, ""), some(p.EngineVersion, ""),
			some(p.GGMLVersion, "")
		r.PID = when(true, int64(p.PID))
		if len(command) == 0 {
			command = p.Cmdline
		}
	}
	if len(command) > 0 {
		r.Command = when(true, shellQuote(command))
	}
	var lost, throttled int64
	uncounted := false
	for _, l := range h.Losses {
		switch l.Why {
		case trace.WhyLost:
			lost += int64(l.Events)
			uncounted = uncounted || l.Events == 0
		case trace.WhyThrottled:
			throttled += l.End - l.Start
		}
	}
	if h.End != nil {
		lost = max(lost, int64(h.End.Lost))
	}
	r.LostEvents, r.ThrottledNs = when(!uncounted || lost > 0, lost), &throttled
	r.ProbeCostNs = probeCost(h)
	if h.Part != nil {
		part := h.Part.String()
		r.Part = &part
	}
	return r
}

// probeCost is the cost of the most expensive kind of operator probe that was placed or, without any, of the
// most expensive probe.
func probeCost(h *profile.Header) *int64 {
	var ops, most int64
	for i := range h.Processes {
		for _, s := range h.Processes[i].Sites {
			c := h.Meta.ProbeCost[s.Class]
			most = max(most, c)
			if s.Role.OfOperators() {
				ops = max(ops, c)
			}
		}
	}
	if ops > 0 {
		return &ops
	}
	return count(most)
}

// shellQuote joins a command's words so that a shell would parse them back.
func shellQuote(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		plain := w != "" && strings.IndexFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
				strings.ContainsRune("@%+=:,./-_", r))
		}) < 0
		if plain {
			b.WriteString(w)
		} else {
			b.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "'")
		}
	}
	return b.String()
}
