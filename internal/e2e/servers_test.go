// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/demo/gguf"
	"github.com/profinfer/profinfer/internal/engines"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/requests"
	"github.com/profinfer/profinfer/trace"
)

// answer is what llama-server says of a request.
type answer struct {
	Slot    int32 `json:"id_slot"`
	Timings struct {
		Cached      int64   `json:"cache_n"`
		Prompt      int64   `json:"prompt_n"`
		PromptMs    float64 `json:"prompt_ms"`
		Predicted   int64   `json:"predicted_n"`
		PredictedMs float64 `json:"predicted_ms"`
		Drafted     int64   `json:"draft_n"`
		Accepted    int64   `json:"draft_n_accepted"`
	} `json:"timings"`
	asked time.Time
}

// ask asks for n tokens after a prompt of some tokens that client and number decide; of a client's prompts
// the first half is the same.
func ask(url string, client, number, n int) (answer, error) {
	a := answer{asked: time.Now()}
	prompt := make([]int, 96+32*((client+number)%4))
	for i := range prompt {
		prompt[i] = 10 + (client*37+i*7)%200
		if i >= 24 {
			prompt[i] = 10 + (client*37+i*7+number*11)%200
		}
	}
	body, _ := json.Marshal(map[string]any{"prompt": prompt, "n_predict": n, "temperature": 0,
		"cache_prompt": true, "ignore_eos": true, "id_slot": client})
	r, err := http.Post(url+"/completion", "application/json", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || a.Timings.Predicted == 0 {
		return a, fmt.Errorf("status %d, %v", r.StatusCode, err)
	}
	return a, nil
}

// serve records a llama-server while clients ask it, each for some answers in a row, and returns the
// recording with the answers in the order of the questions.
func serve(t *testing.T, clients, each, n int, args ...string) (path string, answers []answer) {
	t.Helper()
	needBPF(t)
	e := engines.Debian(t)
	port := freePort(t)
	path = filepath.Join(t.TempDir(), "run.pinf")
	command := append([]string{"record", "-o", path, "--"},
		e.Command("llama-server", append([]string{"--port", fmt.Sprint(port), "--no-webui"}, args...)...)...)
	cmd := exec.Command(program, command...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	s := &server{url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	if !s.up() {
		t.Fatalf("llama-server does not answer:\n%s", log.String())
	}
	var all sync.WaitGroup
	var lock sync.Mutex
	for c := range clients {
		all.Go(func() {
			for i := range each {
				a, err := ask(s.url, c, i, n)
				if err != nil {
					t.Error(err)
					return
				}
				lock.Lock()
				answers = append(answers, a)
				lock.Unlock()
			}
		})
	}
	all.Wait()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if ended = true; err != nil {
		t.Fatalf("record: %v\n%s", err, log.String())
	}
	slices.SortFunc(answers, func(a, b answer) int { return a.asked.Compare(b.asked) })
	return path, answers
}

// sequences replays a recording for its requests.
func sequences(t testing.TB, path string) (*requests.Sequences, []requests.Round) {
	t.Helper()
	r, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := requests.New(0)
	b.KeepRounds()
	h, err := profile.Replay(r, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range h.Losses {
		if l.Why == "lost" {
			t.Errorf("loss: %+v", l)
		}
	}
	s := b.Finish(h)
	rounds, _ := b.Rounds()
	return s, rounds
}

// matched finds for each answer the request that profinfer saw: the requests of a slot come in the order in
// which its client asked.
func matched(t *testing.T, s *requests.Sequences, answers []answer) []*requests.Request {
	t.Helper()
	if int(s.Seen) != len(answers) || s.Warmups == 0 {
		t.Fatalf("%d requests and %d warm-ups were seen, the server answered %d", s.Seen, s.Warmups,
			len(answers))
	}
	taken := map[int]bool{}
	out := make([]*requests.Request, len(answers))
	for i, a := range answers {
		at := slices.IndexFunc(s.Requests, func(r requests.Request) bool {
			return !r.Warmup && r.Seq == a.Slot && !taken[int(r.ID)]
		})
		if at < 0 {
			t.Fatalf("no request on slot %d", a.Slot)
		}
		out[i] = &s.Requests[at]
		taken[int(out[i].ID)] = true
	}
	return out
}

// mostly checks that at least three of four figures are within 5 % of what the engine says, and the median:
// where the machine is busy, the server can lose its CPU between a step and its own look at the clock.
func mostly(t *testing.T, what string, ratios []float64) {
	t.Helper()
	slices.Sort(ratios)
	n := 0
	for _, r := range ratios {
		if math.Abs(r-1) <= 0.05 {
			n++
		}
	}
	median := ratios[len(ratios)/2]
	t.Logf("%s by what the server says: %.3f to %.3f, median %.3f; %d of %d within 5 %%", what, ratios[0],
		ratios[len(ratios)-1], median, n, len(ratios))
	if 4*n < 3*len(ratios) || math.Abs(median-1) > 0.05 {
		t.Errorf("%s: only %d of %d are within 5 %% of what the server says: %.3f", what, n, len(ratios),
			ratios)
	}
}

// Four slots under four clients: tokens are the server's own, and so are TTFT and TPOT within 5 %.
func TestServerSlots(t *testing.T) {
	e := engines.Debian(t)
	_, model := engines.Model(t, e, "llama-small-vocab")
	path, answers := serve(t, 4, 3, 48, "-m", model, "-c", "2048", "-np", "4", "-t", "1")
	s, _ := sequences(t, path)
	if s.Sequences != 4 || s.AtOnce < 2 || s.AtOnce > 4 || len(s.Speculation) != 0 {
		t.Errorf("%d sequences, %d at once, %d contexts speculate", s.Sequences, s.AtOnce, len(s.Speculation))
	}
	var ttft, tpot []float64
	reused := 0
	for i, r := range matched(t, s, answers) {
		g := &answers[i].Timings
		if r.Prompt == nil || *r.Prompt != g.Prompt || r.Cached == nil || *r.Cached != g.Cached ||
			r.Generated == nil || *r.Generated != g.Predicted || r.AtLeast {
			t.Errorf("slot %d: %+v; the server says prompt %d, cached %d, predicted %d", r.Seq, r, g.Prompt,
				g.Cached, g.Predicted)
			continue
		}
		if g.Cached > 0 {
			reused++
		}
		ttft = append(ttft, float64(*r.TTFT)/1e6/g.PromptMs)
		tpot = append(tpot, *r.TPOT/1e6/(g.PredictedMs/float64(g.Predicted-1)))
	}
	if len(ttft) == 0 {
		t.FailNow()
	}
	if reused == 0 {
		t.Error("no request had a cached prompt: that was not tested")
	}
	mostly(t, "TTFT", ttft)
	mostly(t, "TPOT", tpot)
	out := profinfer(t, "stat", "-i", path)
	if out.status != 0 {
		t.Error(out.stderr)
	}
	t.Log("\n" + out.stdout)
}

// draftModels returns a target and its draft: the same weights as 16-bit numbers and in four bits, so that
// they mostly agree.
func draftModels(t *testing.T) (target, draft string) {
	t.Helper()
	e := engines.Debian(t)
	dir, err := engines.Dir()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := demo.Model("llama-tiny-vocab")
	if err != nil {
		t.Fatal(err)
	}
	spec.Type = gguf.F16
	path, err := demo.Ensure(context.Background(), e.ModelDir(filepath.Join(dir, "models")), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(filepath.Dir(path), "llama-tiny-vocab-f16-to-q4_0.gguf")
	if target, err = e.Inside(path); err != nil {
		t.Fatal(err)
	}
	if draft, err = e.Inside(small); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(small); err != nil {
		c := e.Command("llama-quantize", target, draft, "q4_0")
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("llama-quantize: %v\n%s", err, out)
		}
	}
	return target, draft
}

// Drafted and accepted tokens are those that the tool itself prints; of the last round no batch tells.
func TestSpeculativeSimple(t *testing.T) {
	needBPF(t)
	e := engines.Debian(t)
	target, draft := draftModels(t)
	path := filepath.Join(t.TempDir(), "run.pinf")
	args := append([]string{"record", "-o", path, "--"},
		e.Command("llama-speculative-simple", "--spec-type", "draft-simple", "-m", target, "-md", draft,
			"-p", "hello world this is", "-n", "60", "--temp", "0", "-c", "512", "-t", "1", "-td", "1")...)
	var out result
	for range 8 { // the tool's log is cut at random as it ends
		if out = profinfer(t, args...); out.status != 0 {
			t.Fatal(out.stderr)
		}
		if strings.Contains(out.stdout+out.stderr, "n_accept") {
			break
		}
	}
	printed := func(name string) int64 {
		m := regexp.MustCompile(name + ` *= *(\d+)`).FindStringSubmatch(out.stdout + out.stderr)
		if m == nil {
			t.Fatalf("the tool does not print %s:\n%s", name, out.stderr)
		}
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return n
	}
	s, rounds := sequences(t, path)
	if len(s.Speculation) != 1 || s.Seen != 1 {
		t.Fatalf("%+v", s)
	}
	c := s.Speculation[0]
	if c.DraftCtx == nil || *c.DraftCtx == c.Ctx || c.Model == nil || c.DraftModel == nil ||
		*c.Model == *c.DraftModel {
		t.Errorf("target and draft are not told apart: %+v", c)
	}
	unseen := c.Drafted - c.SeenDrafted
	t.Logf("%d of %d seen accepted in %d rounds, %d not seen; the tool says %d of %d", c.Accepted,
		c.SeenDrafted, c.Seen, unseen, printed("n_accept"), printed("n_drafted"))
	if c.Drafted != printed("n_drafted") || c.Rounds-c.Seen > 1 || c.Accepted > printed("n_accept") ||
		c.Accepted+unseen < printed("n_accept") {
		t.Errorf("%+v", c)
	}
	if c.Accepted == 0 || c.Accepted == c.SeenDrafted {
		t.Error("nothing, or all, was accepted: that tests little")
	}
	if int64(len(rounds)) != c.Rounds {
		t.Errorf("%d rounds of %d", len(rounds), c.Rounds)
	}
	// Steps of the two contexts are interleaved: between two that verify lie those of the draft.
	r := load(t, path)
	for i := 1; i < len(rounds); i++ {
		n := 0
		for _, st := range r.steps {
			if st.ID > rounds[i-1].Step && st.ID < rounds[i].Step && st.Ctx == *c.DraftCtx &&
				st.Phase == profile.Decode {
				n++
			}
		}
		if n != int(rounds[i].Drafted) {
			t.Errorf("%d steps of the draft before round %d, which verifies %d tokens", n, i,
				rounds[i].Drafted)
		}
	}
	text := profinfer(t, "stat", "-i", path)
	t.Log("\n" + text.stdout)
}

// A server whose slots speculate says of each request how many tokens it drafted and accepted.
func TestServerSpeculates(t *testing.T) {
	target, draft := draftModels(t)
	path, answers := serve(t, 3, 2, 30, "-m", target, "-md", draft, "--spec-type", "draft-simple", "-c",
		"2048", "-np", "3", "-t", "1", "-td", "1")
	s, _ := sequences(t, path)
	if len(s.Speculation) != 1 || s.Speculation[0].DraftCtx == nil {
		t.Fatalf("%+v", s)
	}
	known := 0
	for i, r := range matched(t, s, answers) {
		g := &answers[i].Timings
		if r.Rounds == nil || *r.Drafted != g.Drafted || *r.Accepted > g.Accepted ||
			*r.Accepted+*r.Unseen < g.Accepted || *r.Generated > g.Predicted ||
			!r.AtLeast && (*r.Generated != g.Predicted || *r.Accepted != g.Accepted) {
			t.Errorf("slot %d: %+v; the server says %+v", r.Seq, r, g)
			continue
		}
		if !r.AtLeast {
			known++
		}
	}
	t.Logf("%d of %d requests wholly known; %+v", known, len(answers), s.Speculation[0])
	text := profinfer(t, "stat", "-i", path)
	t.Log("\n" + text.stdout)
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
