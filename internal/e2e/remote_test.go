// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/trace"
)

// output collects what a process writes while others read it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// rpcServer starts ggml's RPC server and returns its process, its address and what it says.
func rpcServer(t *testing.T, e demo.Engine) (*exec.Cmd, string, *output) {
	t.Helper()
	port := fmt.Sprint(freePort(t))
	argv := e.Command("ggml-rpc-server", "-p", port, "-d", "CPU", "-t", "1")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), "GGML_RPC_DEBUG=1")
	var log output
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			return cmd, "127.0.0.1:" + port, &log
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer: %v\n%s", err, tailOf(log.String(), 20))
		}
	}
}

// remoteRun keeps the remote graphs of a recording too.
type remoteRun struct {
	run
	remote []*profile.Remote
}

func (r *remoteRun) Remote(x *profile.Remote) error {
	r.remote = append(r.remote, x)
	return nil
}

// A client that has its model computed by an RPC server on this machine, both in one recording: each graph
// that it hands over is one graph of the server's, with the same nodes, computed between handing over and the
// client's knowing; as many as the server says it computed.
func TestRPC(t *testing.T) {
	e := engines.Offload(t)
	needBPF(t)
	_, inside := engines.Model(t, e, "llama-small")
	server, address, log := rpcServer(t, e)
	path := filepath.Join(t.TempDir(), "run.pinf")
	res := profinfer(t, append([]string{"record", "-o", path, "-p", fmt.Sprint(server.Process.Pid), "--"},
		e.Command("llama-bench", "-m", inside, "--rpc", address, "-ngl", "99", "-p", "64", "-n", "64", "-r",
			"1", "-t", "1", "-o", "json")...)...)
	if res.status != 0 {
		t.Fatalf("record: status %d\n%s%s", res.status, tailOf(res.stdout, 20), tailOf(res.stderr, 20))
	}
	rd, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	r := &remoteRun{}
	if r.header, err = profile.Replay(rd, r); err != nil {
		t.Fatal(err)
	}
	for _, l := range recording.Losses(r.header) {
		t.Errorf("loss: %+v", l)
	}

	var handed, served []*profile.Graph
	for _, g := range r.graphs {
		switch {
		case g.PID == int32(server.Process.Pid):
			served = append(served, g)
		case g.Backend == "RPC":
			handed = append(handed, g)
		}
	}
	said := strings.Count(log.String(), "[graph_compute]") + strings.Count(log.String(), "[graph_recompute]")
	if said == 0 || len(served) != said {
		t.Errorf("%d graphs of the server were recorded, it says that it computed %d", len(served), said)
	}
	// the backend's functions are watched 10 to 60 ms after its first graph
	if len(handed) < 64 || len(r.remote) != len(handed) {
		t.Fatalf("%d graphs were handed over, %d of them linked; the server computed %d", len(handed),
			len(r.remote), len(served))
	}
	first := r.remote[0].Server
	late := 0
	for _, g := range served {
		if g.Start >= first.Start && g.Caller == nil {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d graphs of the server after the first that was linked have no caller", late)
	}
	phases := map[profile.Phase]int{}
	ops := map[*profile.Graph]int64{}
	for _, o := range r.ops {
		if o.Graph.Caller != nil {
			ops[o.Graph] += o.Dur
		}
	}
	for i, x := range r.remote {
		c, s := x.Client, x.Server
		if c != handed[i] || s.Caller != c || s.CallerStep == nil || s.CallerStep.ID != c.Step {
			t.Fatalf("link %d: graph %d of step %d to graph %d, caller %v", i, c.ID, c.Step, s.ID,
				s.CallerStep)
		}
		phases[s.CallerStep.Phase]++
		if i > 0 && s.Start < r.remote[i-1].Server.Start+r.remote[i-1].Server.Dur {
			t.Errorf("link %d: the server's graphs are not in order", i)
		}
		if a, ok := x.Answered(); !ok || s.Start < c.Start || a < 0 {
			t.Errorf("link %d: the server computed from %d to %d, the client handed over at %d and knew at %d", i, s.Start, s.Start+s.Dur, c.Start, x.Done)
		}
		if i > 0 && c.Start < r.remote[i-1].Done {
			t.Errorf("link %d: handed over before the one before was done", i)
		}
		if d := ops[s]; d <= 0 || d > s.Dur {
			t.Errorf("link %d: operators of %d ns in a graph of %d", i, d, s.Dur)
		}
		if c.Shape == nil || s.Shape == nil || c.Shape.NNodes != s.Shape.NNodes {
			t.Fatalf("link %d: other graphs: %v, %v", i, c.Shape, s.Shape)
		}
		for n := range c.Shape.NNodes {
			a, b := &c.Shape.Nodes[n], &s.Shape.Nodes[n]
			if a.Op != b.Op || a.Type != b.Type || a.Ne != b.Ne || a.Name != b.Name {
				t.Fatalf("link %d, node %d: %s %s %s %v, the server has %s %s %s %v", i, n, a.Name, a.Op,
					a.Type, a.Ne, b.Name, b.Op, b.Type, b.Ne)
			}
		}
	}
	if phases[profile.Decode] < 60 || phases[profile.Prefill] == 0 {
		t.Errorf("links by phase: %v", phases)
	}

	// the time with the wait is what llama-bench measures
	var bench []benched
	if err := json.Unmarshal([]byte(res.stdout), &bench); err != nil {
		t.Fatalf("%v\n%s", err, res.stdout)
	}
	stat := statOf(t, path)
	for _, b := range bench {
		if b.Gen > 0 {
			sameRate(t, stat, r.steps, 64, b.TPS, 0.15)
		}
	}
	for _, x := range stat.Remote {
		if x.Phase != profile.Decode {
			continue
		}
		for _, b := range bench {
			if b.Gen > 0 && (x.TokensPerS == nil || math.Abs(*x.TokensPerS/b.TPS-1) > 0.15) {
				t.Errorf("decode at %v t/s, llama-bench says %.1f", x.TokensPerS, b.TPS)
			}
		}
		if x.Client == nil || x.Wire == nil || *x.Wire <= 0 || *x.Client < x.Computed || x.Operators == nil ||
			*x.Operators > x.Computed {
			t.Errorf("%+v", x)
		}
		if x.FromServer == nil || *x.FromServer != 4*16384 { // the logits
			t.Errorf("bytes from the server: %v", x.FromServer)
		}
		if !t.Failed() {
			t.Logf("%d links; decode: client %.2f ms, server %.2f ms, wire %.0f µs; %.1f t/s", len(r.remote),
				*x.Client/1e6, x.Computed/1e6, *x.Wire/1e3, *x.TokensPerS)
		}
		return
	}
	t.Errorf("no decode among %+v", stat.Remote)
}
