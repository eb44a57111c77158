// SPDX-License-Identifier: Apache-2.0

package tables

import "github.com/profinfer/profinfer/profile"

// CopyRow is one call that moves a tensor's data between memories.
type CopyRow struct {
	Step    *int64  `parquet:"step,optional"`
	Split   *int64  `parquet:"split,optional" doc:"the graph of the step that comes next"`
	PID     int64   `parquet:"pid"`
	TID     int64   `parquet:"tid"`
	StartNs int64   `parquet:"start_ns"`
	DurNs   *int64  `parquet:"dur_ns,optional" doc:"of the call; null where its end is not probed"`
	Kind    string  `parquet:"kind" doc:"set (from the host's memory), get (to it) or copy"`
	Async   bool    `parquet:"async" doc:"the call may return before the data are there"`
	Tensor  *string `parquet:"tensor,optional" doc:"the one that is written; of get, that is read"`
	Type    *string `parquet:"type,optional"`
	Bytes   *int64  `parquet:"bytes,optional"`
	From    *string `parquet:"from,optional" doc:"a backend, or host"`
	To      *string `parquet:"to,optional" doc:"a backend, or host"`
}

func (e *exporter) Copy(c *profile.Copy) error {
	if e.name != "copies" {
		return nil
	}
	r := &CopyRow{PID: int64(c.PID), TID: int64(c.TID), StartNs: c.Start, DurNs: when(c.Dur >= 0, c.Dur),
		Kind: c.Kind, Async: c.Async,
		Split: when(c.Split >= 0, int64(c.Split)), Tensor: some(c.Tensor, ""), Type: some(c.Type,
			""), Bytes: when(c.Bytes >= 0, c.Bytes),
		From: some(c.From, ""), To: some(c.To, "")}
	if c.Step != nil {
		r.Step = count(c.Step.ID)
	}
	return e.out.Write(r)
}

// DeviceRow is a graph on a backend other than the CPU, from its submission to when the host saw it done.
type DeviceRow struct {
	Graph    int64   `parquet:"graph"`
	Step     *int64  `parquet:"step,optional"`
	Split    int64   `parquet:"split"`
	Backend  *string `parquet:"backend,optional"`
	PID      int64   `parquet:"pid"`
	TID      int64   `parquet:"tid" doc:"the thread that waited for it"`
	StartNs  int64   `parquet:"start_ns" doc:"its submission began"`
	DurNs    int64   `parquet:"dur_ns" doc:"until the wait for the backend ended: at least what the device took"`
	SubmitNs int64   `parquet:"submit_ns" doc:"of it, what the call that submits took"`
	WaitedNs int64   `parquet:"waited_ns" doc:"of it, how long the thread waited at its end"`
	Before   int64   `parquet:"before" doc:"graphs of this backend before it that were not waited for by themselves"`

	DoneBy       string `parquet:"done_by" doc:"the function whose return told that it was done; synchronize: the backend's own"`
	Queue        *int64 `parquet:"queue,optional" doc:"of the latest submission, see submissions; null: submissions were not seen, nor what follows"`
	BeginNs      *int64 `parquet:"begin_ns,optional" doc:"the device could begin: the first submission, or what was before it on the queue was done"`
	BusyNs       *int64 `parquet:"busy_ns,optional" doc:"from begin_ns to the end, without pauses in which nothing of the graph was submitted: at least what the device took, less what earlier work on the queue was seen done late"`
	AddedNs      *int64 `parquet:"added_ns,optional" doc:"of busy_ns, what no span before it has of the same device: sums count nothing twice"`
	Submissions  *int64 `parquet:"submissions,optional" doc:"calls that handed it over"`
	SubmittingNs *int64 `parquet:"submitting_ns,optional" doc:"time of the host in them"`
	Shared       *bool  `parquet:"shared,optional" doc:"it was seen done only together with a later graph of the queue"`
}

func (e *exporter) Device(d *profile.DeviceSpan) error {
	if e.name != "device_spans" {
		return nil
	}
	g := d.Graph
	r := &DeviceRow{Graph: g.ID, Step: count(g.Step), Split: int64(g.Split), Backend: some(g.Backend, ""),
		PID: int64(g.PID),
		TID: int64(d.TID), StartNs: g.Start, DurNs: d.Dur(), SubmitNs: g.Dur, WaitedNs: d.Waited,
		Before: int64(d.Before),
		DoneBy: d.By}
	if d.Queue != nil {
		r.Queue, r.BeginNs, r.BusyNs, r.AddedNs = count(int64(d.Queue.ID)), &d.Begin, &d.Busy, &d.Added
		r.Submissions, r.SubmittingNs, r.Shared = when(true, int64(d.Submissions)), &d.Submit, &d.Shared
	}
	return e.out.Write(r)
}

// SubmissionRow is one call that submitted work to a queue of a device.
type SubmissionRow struct {
	PID     int64   `parquet:"pid"`
	Queue   int64   `parquet:"queue" doc:"its number in the process, from 1"`
	Device  *int64  `parquet:"device,optional" doc:"number of the queue's device in the process, from 1; null: the interface does not tell"`
	Backend *string `parquet:"backend,optional" doc:"whose graphs the queue runs"`
	Graph   *int64  `parquet:"graph,optional" doc:"during which it was called; null: none, copies are handed over so"`
	Step    *int64  `parquet:"step,optional"`
	TID     int64   `parquet:"tid"`
	Call    string  `parquet:"call" doc:"the function"`
	StartNs int64   `parquet:"start_ns" doc:"of the call"`
	CallNs  *int64  `parquet:"call_ns,optional" doc:"how long it took; null: its return was not seen"`
	Work    *int64  `parquet:"work,optional" doc:"batches of work; 0: none, it is there to be waited for; null: unknown"`
	BeginNs *int64  `parquet:"begin_ns,optional" doc:"the device could begin: start_ns, or what was before it on the queue was seen done"`
	DoneNs  *int64  `parquet:"done_ns,optional" doc:"the host knew that it was done: an upper bound; null: nobody waited"`
	DoneBy  *string `parquet:"done_by,optional" doc:"the function whose return told"`
}

func (e *exporter) Submission(s *profile.Submission) error {
	if e.name != "submissions" {
		return nil
	}
	q, seen := s.Queue, s.Done != 0
	r := &SubmissionRow{PID: int64(q.PID), Queue: int64(q.ID), Device: when(q.Device != 0, int64(q.Device)),
		Backend: some(q.Backend, ""),
		Step:    count(s.Step), TID: int64(s.TID), Call: s.Entry, StartNs: s.Start, CallNs: when(s.Call >= 0,
			s.Call),
		Work: when(s.Work >= 0, int64(s.Work)), BeginNs: when(seen, s.Begin), DoneNs: when(seen,
			s.Done), DoneBy: some(s.By, "")}
	if s.Graph != nil {
		r.Graph = count(s.Graph.ID)
	}
	return e.out.Write(r)
}
