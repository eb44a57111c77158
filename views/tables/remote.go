// SPDX-License-Identifier: Apache-2.0

package tables

import "github.com/profinfer/profinfer/profile"

// RemoteRow is a graph that one process handed to another one on this machine.
type RemoteRow struct {
	Graph       int64   `parquet:"graph" doc:"the client's, of table graphs"`
	ServerGraph int64   `parquet:"server_graph" doc:"the one that the server computed for it, of table graphs"`
	Step        *int64  `parquet:"step,optional" doc:"the client's"`
	Split       int64   `parquet:"split"`
	Backend     *string `parquet:"backend,optional" doc:"that handed it over"`
	PID         int64   `parquet:"pid" doc:"the client"`
	ServerPID   int64   `parquet:"server_pid"`
	ServerTID   int64   `parquet:"server_tid"`
	StartNs     int64   `parquet:"start_ns" doc:"handing over began"`
	SentNs      int64   `parquet:"request_ns" doc:"until the server began to compute it"`
	QueuedNs    int64   `parquet:"server_queue_ns" doc:"of it, while the server still computed the graph before"`
	ServerNs    int64   `parquet:"server_ns" doc:"the server computed"`
	AnsweredNs  *int64  `parquet:"response_ns,optional" doc:"from the server's end until the client had waited for it; null: that was not seen"`
	ClientNs    *int64  `parquet:"client_ns,optional" doc:"from start_ns until the client had waited for it"`
	WaitedNs    *int64  `parquet:"waited_ns,optional" doc:"of it, how long a thread of the client waited at its end"`
	NNodes      *int64  `parquet:"n_nodes,optional"`
}

// Remote takes a graph that one process computed for another.
func (e *exporter) Remote(r *profile.Remote) error {
	if e.name != "remote_graphs" {
		return nil
	}
	row := &RemoteRow{Graph: r.Client.ID, ServerGraph: r.Server.ID, Step: count(r.Client.Step),
		Split: int64(r.Client.Split), Backend: some(r.Client.Backend, ""),
		PID: int64(r.Client.PID), ServerPID: int64(r.Server.PID), ServerTID: int64(r.Server.TID),
		StartNs: r.Client.Start, SentNs: r.Sent(),
		QueuedNs: r.Queued, ServerNs: r.Server.Dur, NNodes: count(r.Client.NNodes)}
	if a, ok := r.Answered(); ok {
		whole := r.Done - r.Client.Start
		row.AnsweredNs, row.ClientNs, row.WaitedNs = &a, &whole, &r.Waited
	}
	return e.out.Write(row)
}
