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
	r := &CopyRow{PID: int64(c.PID), TID: int64(c.TID), StartNs: c.Start, DurNs: when(c.Dur >= 0, c.Dur), Kind: c.Kind, Async: c.Async,
		Split: when(c.Split >= 0, int64(c.Split)), Tensor: some(c.Tensor, ""), Type: some(c.Type, ""), Bytes: when(c.Bytes >= 0, c.Bytes),
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
}

func (e *exporter) Device(d *profile.DeviceSpan) error {
	if e.name != "device_spans" {
		return nil
	}
	g := d.Graph
	return e.out.Write(&DeviceRow{Graph: g.ID, Step: count(g.Step), Split: int64(g.Split), Backend: some(g.Backend, ""), PID: int64(g.PID),
		TID: int64(d.TID), StartNs: g.Start, DurNs: d.Dur(), SubmitNs: g.Dur, WaitedNs: d.Waited, Before: int64(d.Before)})
}
