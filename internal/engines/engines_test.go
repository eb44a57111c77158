// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/demo/gguf"
	"github.com/profinfer/profinfer/internal/testkit"
)

func output(t *testing.T, argv []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// llama-bench accepts every model that has a name and computes its tokens.
func TestBench(t *testing.T) {
	e := Debian(t)
	for _, s := range demo.Models() {
		if s.Layers > 8 || s.Vocabulary && s.Layers > 4 {
			continue // the large one is like the small one
		}
		t.Run(s.Name, func(t *testing.T) {
			if s.Name != "llama-tiny" && s.Name != "moe-tiny-vocab" {
				testkit.Long(t)
			}
			_, model := Model(t, e, s.Name)
			argv := e.Command("llama-bench", "-m", model, "-p", "8", "-n", "4", "-r", "1", "-t", "1", "-o",
				"json")
			argv = append([]string{"sh", "-c", `exec "$@" 2>/dev/null`, "sh"}, argv...)
			var rows []struct {
				Prompt int     `json:"n_prompt"`
				Gen    int     `json:"n_gen"`
				Params uint64  `json:"model_n_params"`
				Speed  float64 `json:"avg_ts"`
			}
			if err := json.Unmarshal([]byte(output(t, argv)), &rows); err != nil {
				t.Fatal(err)
			}
			if len(rows) != 2 || rows[0].Prompt != 8 || rows[1].Gen != 4 || rows[0].Speed <= 0 ||
				rows[1].Speed <= 0 || rows[0].Params < 1e6 {
				t.Errorf("llama-bench says %+v", rows)
			}
		})
	}
}

// Every architecture and type gives finite values in every node.
func TestValues(t *testing.T) {
	e := Debian(t)
	base, err := demo.Model("llama-tiny-vocab")
	if err != nil {
		t.Fatal(err)
	}
	base.Layers = 2
	var specs []demo.Spec
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0, gguf.Q4_K, gguf.Q6_K} {
		s := base
		s.Type = typ
		specs = append(specs, s)
	}
	for _, arch := range []string{"llama", "qwen2", "qwen2moe", "qwen3moe", "olmoe", "gemma2"} {
		s := base
		s.Arch, s.Name = arch, arch
		s.Tied = !strings.Contains(arch, "moe") || arch == "qwen3moe"
		if strings.Contains(arch, "moe") {
			s.FF, s.Experts, s.Used, s.ExpertFF = 0, 16, 4, 128
		}
		switch arch {
		case "qwen2moe":
			s.SharedFF = 256
		case "olmoe":
			s.KV = s.Heads
		case "gemma2":
			s.Window = 128
		}
		specs = append(specs, s)
	}
	dir, err := os.MkdirTemp(mkdir(t, e.ModelDir("")), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for i, s := range specs {
		s.Name = fmt.Sprintf("%d-%s", i, s.Name)
		t.Run(s.FileName(), func(t *testing.T) {
			path := filepath.Join(dir, s.FileName())
			if err := demo.Write(path, s); err != nil {
				t.Fatal(err)
			}
			model, err := e.Inside(path)
			if err != nil {
				t.Fatal(err)
			}
			out := output(t, e.Command("llama-eval-callback", "-m", model, "-t", "1", "-p", "abcd", "-c", "256"))
			sums := regexp.MustCompile(`(?m)^ *sum = (\S+)$`).FindAllStringSubmatch(out, -1)
			if len(sums) < 10 {
				t.Fatalf("only %d nodes:\n%.2000s", len(sums), out)
			}
			for _, sum := range sums {
				if strings.ContainsAny(sum[1], "naif") {
					t.Fatalf("a node's sum is %s", sum[1])
				}
			}
		})
	}
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The server answers, and the same request has the same answer.
func TestServer(t *testing.T) {
	e := Debian(t)
	_, model := Model(t, e, "llama-tiny-vocab")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	argv := e.Command("llama-server", "-m", model, "-t", "2", "-c", "256", "--port", port)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		cmd.Wait()
		if t.Failed() {
			t.Logf("llama-server: %s", log.String())
		}
	}()
	for {
		resp, err := http.Get("http://" + addr + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case <-ctx.Done():
			t.Fatal("no answer")
		case <-time.After(100 * time.Millisecond):
		}
	}
	var answers []string
	for range 2 {
		resp, err := http.Post("http://"+addr+"/completion", "application/json",
			strings.NewReader(`{"prompt":[1,2,3],"n_predict":8,"return_tokens":true,"temperature":0}`))
		if err != nil {
			t.Fatal(err)
		}
		var r struct{ Tokens []int }
		err = json.NewDecoder(resp.Body).Decode(&r)
		resp.Body.Close()
		if err != nil || len(r.Tokens) != 8 {
			t.Fatalf("%s, %d tokens, %v", resp.Status, len(r.Tokens), err)
		}
		answers = append(answers, fmt.Sprint(r.Tokens))
	}
	if answers[0] != answers[1] {
		t.Errorf("the same request was answered with %q", answers)
	}
}

// Every npm build computes the same tokens of the same model, every time.
func TestNPM(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"llama-tiny-vocab", "moe-tiny-vocab"} {
		s, err := demo.Model(name)
		if err != nil {
			t.Fatal(err)
		}
		model, err := demo.Ensure(context.Background(), dir, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		var first string
		for _, v := range Versions {
			t.Run(name+" "+v, func(t *testing.T) {
				lines := strings.Split(strings.TrimSpace(output(t,
					NPM(t, v).Command(model, 16, 6, 2, "--repeat", "2"))), "\n")
				if len(lines) != 2 || lines[0] != lines[1] || len(strings.Fields(lines[0])) != 6 {
					t.Fatalf("two rounds of 6 tokens gave %q", lines)
				}
				if first == "" {
					first = lines[0]
				}
				if lines[0] != first {
					t.Errorf("tokens %s, of another version %s", lines[0], first)
				}
			})
		}
	}
}

func TestVersionNames(t *testing.T) {
	for _, v := range []string{"", "latest", "3.1.1 evil", "../x"} {
		if _, err := InstallNPM(context.Background(), t.TempDir(), v, nil); err == nil {
			t.Errorf("version %q is accepted", v)
		}
	}
}
