// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// FaultRow is one page fault of a thread. Faults that the kernel took for a system call (populating a
// mapping) have no row: stat reports their number.
type FaultRow struct {
	TsNs      int64   `parquet:"ts_ns" doc:"when it was done"`
	DurNs     *int64  `parquet:"dur_ns,optional" doc:"null where the kernel does not tell its begin"`
	PID       int64   `parquet:"pid"`
	TID       int64   `parquet:"tid"`
	CPU       int64   `parquet:"cpu"`
	Major     bool    `parquet:"major" doc:"the thread had to wait for the page"`
	Address   uint64  `parquet:"address"`
	ReadBytes *int64  `parquet:"read_bytes,optional" doc:"that it had read from disk, read-ahead included"`
	Step      *int64  `parquet:"step,optional"`
	OpID      *int64  `parquet:"op_id,optional" doc:"operator that its thread was in; null: none"`
	Class     string  `parquet:"class" doc:"expert, weight, cache, compute, file, program, stack or other"`
	Tensor    *string `parquet:"tensor,optional"`
	Expert    *int64  `parquet:"expert,optional"`
	File      *string `parquet:"file,optional" doc:"mapped there"`
}

// Needs implements profile.Sink.
func (e *exporter) Needs() profile.Needs {
	if e.name == "faults" || e.name == "residency" {
		return profile.NeedFaults
	}
	return 0
}

// Fault implements profile.Sink.
func (e *exporter) Fault(f *profile.Fault) error {
	if e.name != "faults" || f.Kind != trace.FaultMajor && f.Kind != trace.FaultMinor {
		return nil
	}
	r := &FaultRow{TsNs: f.Time, DurNs: some(f.Dur, -1), PID: int64(f.PID), TID: int64(f.TID),
		CPU:   int64(f.CPU),
		Major: f.Kind == trace.FaultMajor, Address: f.Addr, ReadBytes: some(f.Read, -1), OpID: some(f.OpID,
			0),
		Class: string(f.Class), Tensor: some(f.Tensor, ""), File: some(f.File, "")}
	if f.Expert >= 0 {
		r.Expert = when(true, int64(f.Expert))
	}
	if f.Step != nil {
		r.Step = count(f.Step.ID)
	}
	return e.out.Write(r)
}

// Memory implements profile.Sink.
func (e *exporter) Memory(m *trace.Memory) error {
	if e.name == "residency" {
		e.files.Memory(m)
	}
	return nil
}

// ResidencyRow is a tensor whose data is in a file that the process has mapped; a file's last row is its
// remainder outside any tensor.
type ResidencyRow struct {
	PID     int64   `parquet:"pid"`
	File    string  `parquet:"file"`
	Class   string  `parquet:"class" doc:"expert, weight, cache, compute; file: in no tensor that was seen"`
	Tensor  *string `parquet:"tensor,optional"`
	Type    *string `parquet:"type,optional"`
	Offset  *int64  `parquet:"offset,optional" doc:"in the file"`
	Bytes   int64   `parquet:"bytes"`
	InStart *int64  `parquet:"resident_start_bytes,optional" doc:"of these in memory when the recording began; null: not known"`
	InEnd   *int64  `parquet:"resident_end_bytes,optional" doc:"when it ended"`
}

// residency writes how much of the files was in memory.
func (e *exporter) residency() error {
	for _, f := range e.files.Files() {
		for i := range f.Tensors {
			t := &f.Tensors[i]
			if err := e.out.Write(&ResidencyRow{PID: int64(f.PID), File: f.Path, Class: string(t.Class),
				Tensor: some(t.Tensor, ""), Type: some(t.Type, ""),
				Offset: when(true, t.Offset), Bytes: t.Bytes, InStart: t.InStart,
				InEnd: t.InEnd}); err != nil {
				return err
			}
		}
		rest := ResidencyRow{PID: int64(f.PID), File: f.Path, Class: string(profile.MemFile), Bytes: f.Bytes,
			InStart: f.InStart, InEnd: f.InEnd}
		if f.Mapped {
			c := &f.Classes[len(f.Classes)-1]
			if c.Class != profile.MemFile {
				continue // tensors cover it
			}
			rest.Bytes, rest.InStart, rest.InEnd = c.Bytes, c.InStart, c.InEnd
		}
		if err := e.out.Write(&rest); err != nil {
			return err
		}
	}
	return nil
}
