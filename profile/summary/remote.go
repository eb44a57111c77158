// SPDX-License-Identifier: Apache-2.0

package summary

import "github.com/profinfer/profinfer/profile"

// Remote sums up what the steps of one phase had another process on this machine compute ([profile.Remote]).
// Times are means of a graph, ns. Operators and times of the server are counted here and in no other table:
// they are in no step of its own.
type Remote struct {
	Phase     profile.Phase `json:"phase"`   // of the client's steps; empty: not known
	Backend   string        `json:"backend"` // that handed the graphs over
	ClientPID int32         `json:"client_pid"`
	ServerPID int32         `json:"server_pid"`
	// ClientComm and ServerComm are the processes' names, empty if not known.
	ClientComm string `json:"client_comm"`
	ServerComm string `json:"server_comm"`
	Steps      int64  `json:"steps"`  // of the client, with such graphs
	Graphs     int64  `json:"graphs"` // handed over and seen in both processes
	// Unlinked counts the graphs of all phases that this client's backend handed over, to whichever server,
	// and that no process that was recorded was seen to compute.
	Unlinked int64 `json:"unlinked_graphs"`
	// Sent: from the begin of handing over to the begin of computing, of it Queued while the server still
	// computed the graph before. Server: computing. Operators: of it in operators, nil where none were
	// recorded.
	Sent      float64  `json:"sent_ns"`
	Queued    float64  `json:"queued_ns"`
	Computed  float64  `json:"server_ns"`
	Operators *float64 `json:"operators_ns"`
	// Waited counts the graphs that the client was seen to wait for. Of these: Client from the begin of
	// handing over to when it knew, Answered of it after the server's end, Wire what of Client the server did
	// not compute nor still compute before; nil if there was none.
	Waited   int64    `json:"waited_graphs"`
	Client   *float64 `json:"client_ns"`
	Answered *float64 `json:"answered_ns"`
	Wire     *float64 `json:"wire_ns"`
	// ToServer and FromServer are bytes of tensors that a step copied, means of the steps that were wholly
	// seen; nil: not known.
	ToServer   *float64 `json:"to_server_bytes_per_step"`
	FromServer *float64 `json:"from_server_bytes_per_step"`
	// StepDur is the mean time from a step's begin to when its results were there, of steps with a wait that
	// was seen: the call itself can return long before. TokensPerS is of the same steps. nil: not known.
	StepDur    *float64 `json:"step_until_done_ns"`
	TokensPerS *float64 `json:"tokens_per_s"`
	WaitShare  *float64 `json:"wait_share"` // of the server's threads' time in operators
	OffCPU     *float64 `json:"off_cpu_share"`
	// Rows are the server's operators; share is of its graphs' time, calls_per_step of the client's steps.
	Rows []Row `json:"rows"`
}

// PerStep is what the server computed a step.
func (r *Remote) PerStep() float64 {
	return r.Computed * float64(r.Graphs) / float64(max(1, r.Steps))
}
