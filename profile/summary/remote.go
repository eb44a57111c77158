// SPDX-License-Identifier: Apache-2.0

package summary

import "github.com/profinfer/profinfer/profile"

// Remote sums up what another process on this machine computed for the steps of one phase ([profile.Remote]).
// Times are means per graph, ns. The server's operators and times are counted here and in no other table,
// because they are in no step of its own.
type Remote struct {
	Phase     profile.Phase `json:"phase"`   // of the client's steps; empty: unknown
	Backend   string        `json:"backend"` // that handed the graphs over
	ClientPID int32         `json:"client_pid"`
	ServerPID int32         `json:"server_pid"`
	// ClientComm and ServerComm are the processes' names, empty if unknown.
	ClientComm string `json:"client_comm"`
	ServerComm string `json:"server_comm"`
	Steps      int64  `json:"steps"`  // of the client, with such graphs
	Graphs     int64  `json:"graphs"` // handed over, and seen in both processes
	// Unlinked counts the graphs of all phases that this client's backend handed over, to any server, and
	// that no recorded process was seen to compute.
	Unlinked int64 `json:"unlinked_graphs"`
	// Sent is the time from when the client begins to hand the graph over to when the server begins to
	// compute it. Queued is the part of Sent in which the server still computed the previous graph. Server is
	// computing time. Operators is the part of Server in operators, nil where none were recorded.
	Sent      float64  `json:"request_ns"`
	Queued    float64  `json:"server_queue_ns"`
	Computed  float64  `json:"server_ns"`
	Operators *float64 `json:"operators_ns"`
	// Waited counts the graphs that the client was seen to wait for. The other figures are of these: Client
	// is the time from when the client begins to hand over to when it knew the result, Answered the part of
	// it after the server's end, and Wire the part in which the server computed neither this graph nor the
	// previous one. nil if there was none.
	Waited   int64    `json:"waited_graphs"`
	Client   *float64 `json:"client_ns"`
	Answered *float64 `json:"response_ns"`
	Wire     *float64 `json:"rpc_overhead_ns"`
	// ToServer and FromServer are bytes of tensors that a step copied, means of the complete steps; nil:
	// unknown.
	ToServer   *float64 `json:"to_server_bytes_per_step"`
	FromServer *float64 `json:"from_server_bytes_per_step"`
	// StepDur is the mean time from a step's begin to when its results were there, of steps whose wait was
	// seen: the call itself can return long before. TokensPerS is of the same steps. nil: unknown.
	StepDur    *float64 `json:"step_end_to_end_ns"`
	TokensPerS *float64 `json:"tokens_per_s"`
	WaitShare  *float64 `json:"wait_share"` // of the server threads' time in operators
	OffCPU     *float64 `json:"off_cpu_share"`
	// Rows are the server's operators. Shares are of its graphs' time, calls_per_step of the client's steps.
	Rows []Row `json:"rows"`
}

// PerStep is the server's computing time per step.
func (r *Remote) PerStep() float64 {
	return r.Computed * float64(r.Graphs) / float64(max(1, r.Steps))
}
