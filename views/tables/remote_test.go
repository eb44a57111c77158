// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// handedOver is a recording of a client and its server; of the first step the client was not seen to wait.
func handedOver(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	r := profiletest.Remote{Steps: 2, Marks: func(step int, ms []trace.Mark) []trace.Mark {
		return slices.DeleteFunc(ms, func(m trace.Mark) bool { return step == 0 && m.Time == 41_000 })
	}}
	if err := r.Record(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRemoteGraphs(t *testing.T) {
	b := handedOver(t)
	got := rows(t, export(t, b, "remote_graphs", "ndjson"))
	want := map[string]any{"graph": "5", "server_graph": "6", "step": "2", "split": "1", "backend": "RPC",
		"pid": "700", "server_pid": "900", "server_tid": "900",
		"start_ns": "2030000", "request_ns": "20000", "server_queue_ns": "0", "server_ns": "400000",
		"response_ns": "50000", "client_ns": "470000", "waited_ns": "459000", "n_nodes": "3"}
	if len(got) != 2 {
		t.Fatalf("%d rows", len(got))
	}
	for i, r := range got {
		for k, w := range want {
			v := r[k]
			if n, ok := v.(json.Number); ok {
				v = n.String()
			}
			if i == 1 && v != w {
				t.Errorf("%s is %v, want %v", k, v, w)
			}
		}
	}
	for _, k := range []string{"response_ns", "client_ns", "waited_ns"} {
		if v, ok := got[0][k]; !ok || v != nil {
			t.Errorf("nobody was seen to wait: %s is %v", k, v)
		}
	}
	callers := 0
	for _, r := range rows(t, export(t, b, "graphs", "ndjson")) {
		if r["pid"].(json.Number).String() == "900" {
			if r["caller"] == nil || r["caller_step"] == nil || r["step"] != nil {
				t.Errorf("the server's graph %v: caller %v in step %v", r["graph"], r["caller"],
					r["caller_step"])
			}
			callers++
		} else if r["caller"] != nil {
			t.Errorf("graph %v of the client has caller %v", r["graph"], r["caller"])
		}
	}
	if callers != 2 {
		t.Errorf("%d graphs of the server", callers)
	}
}
