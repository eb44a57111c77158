// SPDX-License-Identifier: Apache-2.0

package perfetto

import "github.com/profinfer/profinfer/profile"

// flow draws the arrow from a graph that is handed to another process to the graph that this process computes
// for it. Which graphs get an answer is unknown when they begin: an arrow without an end is not drawn.
func (e *exporter) flow(g *profile.Graph) *notes {
	switch {
	case g.Caller != nil:
		n := e.t.notes()
		n.m = n.m.fixed(eventFlowEnd, uint64(g.Caller.ID))
		return n
	case g.HandedOver():
		n := e.t.notes()
		n.m = n.m.fixed(eventFlow, uint64(g.ID))
		return n
	}
	return nil
}

// caller annotates for which process a graph was computed.
func (n *notes) caller(g *profile.Graph) {
	if g.Caller == nil {
		return
	}
	n.int("client_pid", int64(g.Caller.PID))
	n.int("client_graph", g.Caller.ID)
	if s := g.CallerStep; s != nil {
		n.int("client_step", s.ID)
		n.text("client_phase", string(s.Phase))
	}
}
