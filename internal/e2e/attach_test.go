// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/internal/recording"
	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
)

// start runs a command until the test ends.
func start(t testing.TB, out io.Writer, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	return cmd
}

// server is a llama-server that answers.
type server struct {
	url string
	pid int
}

func startServer(t testing.TB, model string, args ...string) *server {
	t.Helper()
	e := engines.Debian(t)
	_, inside := engines.Model(t, e, model)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	var log bytes.Buffer
	cmd := start(t, &log, e.Command("llama-server",
		append([]string{"-m", inside, "--port", fmt.Sprint(port), "-c", "512", "--no-webui"}, args...)...)...)
	s := &server{url: fmt.Sprintf("http://127.0.0.1:%d", port), pid: cmd.Process.Pid}
	if !s.up() {
		t.Fatalf("llama-server does not answer:\n%s", log.String())
	}
	return s
}

// up waits until the server answers.
func (s *server) up() bool {
	for range 600 {
		if r, err := http.Get(s.url + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				return true
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// complete asks for n tokens after a prompt of three.
func (s *server) complete(ctx context.Context, seed, n int) ([]int, error) {
	body, _ := json.Marshal(map[string]any{"prompt": []int{seed%200 + 10, seed%7 + 30, 40}, "n_predict": n,
		"return_tokens": true, "temperature": 0, "cache_prompt": false, "ignore_eos": true})
	req, _ := http.NewRequestWithContext(ctx, "POST", s.url+"/completion", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var answer struct {
		Tokens []int `json:"tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || len(answer.Tokens) == 0 {
		return nil, fmt.Errorf("status %d, %d tokens, %v", r.StatusCode, len(answer.Tokens), err)
	}
	return answer.Tokens, nil
}

// whole checks the steps of a recording that began and ended in the middle of a generation.
func whole(t testing.TB, r *run) {
	t.Helper()
	if len(r.steps) == 0 {
		t.Fatal("no step was seen")
	}
	n := map[profile.Phase]int{}
	for _, s := range r.steps {
		if s.Incomplete != "" {
			t.Errorf("step %d: %s", s.ID, s.Incomplete)
		}
		gs := r.graphsOf(s)
		if len(gs) == 0 {
			t.Errorf("step %d has no graph", s.ID)
			continue
		}
		for _, g := range gs {
			if g.Aborted || g.Shape == nil {
				t.Errorf("step %d: its graph is not whole", s.ID)
				continue
			}
			want := 0
			for i := range g.Shape.NNodes {
				if g.Shape.Nodes[i].Executes && g.Shape.FusedInto[i] < 0 {
					want++
				}
			}
			if g.Ops != want {
				t.Errorf("step %d: %d operators of %d", s.ID, g.Ops, want)
			}
		}
		n[s.Phase]++
	}
	for _, l := range recording.Losses(r.header) {
		if l.Why != "cut" {
			t.Errorf("loss: %+v", l)
		}
	}
	t.Logf("steps: %v", n)
}

// Attaching to a server that answers disturbs nothing, tears no step and leaves nothing
// behind, over and over.
func TestAttach(t *testing.T) {
	needBPF(t)
	s := startServer(t, "llama-tiny-vocab", "-t", "1")
	ctx := context.Background()
	const seeds = 3
	var want [seeds][]int
	for i := range want {
		var err error
		if want[i], err = s.complete(ctx, i, 60); err != nil {
			t.Fatal(err)
		}
	}
	rounds, span := 3, "700ms"
	if testkit.All() {
		rounds, span = 6, "1500ms"
	}
	for round := range rounds {
		path := filepath.Join(t.TempDir(), "run.pinf")
		done := make(chan result)
		go func() {
			done <- profinfer(t, "record", "-p", fmt.Sprint(s.pid), "--duration", span, "-o", path)
		}()
		answers := 0
		for busy := true; busy; answers++ {
			got, err := s.complete(ctx, answers%seeds, 60)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want[answers%seeds]) {
				t.Errorf("round %d: another answer than without probes: %v, want %v", round, got,
					want[answers%seeds])
			}
			select {
			case r := <-done:
				if r.status != 0 {
					t.Fatalf("record: status %d: %s", r.status, r.stderr)
				}
				busy = false
			default:
			}
		}
		r := load(t, path)
		whole(t, r)
		if r.header.End == nil {
			t.Error("the trace has no end")
		}
		t.Logf("round %d: %d answers, %d steps", round, answers, len(r.steps))
	}
	if left := probesLeft(t, s.pid); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// probesLeft asks the kernel for links to uprobes in processes that are still there.
func probesLeft(t testing.TB, pids ...int) string {
	t.Helper()
	left, err := probe.Links(pids...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(left, ", ")
}

// killed records a server and kills the recorder after a time of up to most, in which something was written, in
// each round. It returns how much of the recordings' ends is missing at most.
func killed(t *testing.T, rounds int, most time.Duration) (missing time.Duration) {
	t.Helper()
	needBPF(t)
	random := testkit.Rand(t)
	s := startServer(t, "llama-tiny-vocab", "-t", "1")
	ctx := t.Context()
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			s.complete(ctx, i, 100)
		}
	}()
	for round := range rounds {
		path := filepath.Join(t.TempDir(), "run.pinf")
		cmd := exec.Command(program, "record", "-p", fmt.Sprint(s.pid), "-o", path)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		recorded(t, path)
		time.Sleep(time.Duration(random.Int64N(int64(most))))
		killed := probe.Now()
		cmd.Process.Kill()
		cmd.Wait()
		r := load(t, path)
		if len(r.steps) == 0 {
			t.Fatalf("round %d: no step is readable", round)
		}
		last := r.steps[len(r.steps)-1]
		behind := time.Duration(killed - last.Start - last.Dur)
		missing = max(missing, behind)
		t.Logf("round %d: %d steps, the last %v are missing; %s", round, len(r.steps),
			behind.Round(time.Millisecond), r.header.Torn)
		if r.header.End != nil {
			t.Error("a killed recording has an end")
		}
	}
	for range 500 { // the kernel takes the links of a dead process away by itself
		if probesLeft(t, s.pid) == "" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if left := probesLeft(t, s.pid); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if got, err := s.complete(context.Background(), 0, 20); err != nil {
		t.Errorf("the server does not answer any more: %v, %v", got, err)
	}
	return missing
}

// A recorder that is killed leaves a trace that can be read, and no probe.
func TestKill(t *testing.T) { killed(t, 2, 500*time.Millisecond) }

// The trace holds all but the last second.
func TestQuietKill(t *testing.T) {
	if testkit.Quiet(t) {
		return
	}
	if missing := killed(t, 4, 1800*time.Millisecond); missing > time.Second {
		t.Errorf("%v are missing", missing)
	}
}
