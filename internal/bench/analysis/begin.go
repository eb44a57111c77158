// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/profinfer/profinfer/internal/bench/measure"
)

// begin measures what a recording takes before and after the engine computes.
func begin(t *measure.Table, dir string) error {
	path := filepath.Join(dir, "short.pinf")
	short, err := engine(context.Background(), "llama-tiny-vocab", "llama-completion", "-t", "1", "-n", "4",
		"-c", "256", "--no-warmup", "-no-cnv", "--temp", "0", "-p", "a b c d")
	if err != nil {
		return err
	}
	alone := func() (measure.Usage, error) { return measure.Once(t.Limit, short...) }
	u, err := alone()
	if err != nil {
		return fmt.Errorf("%s: %w", short, err)
	}
	if err := t.Add(measure.Figure{
		Name:   fmt.Sprintf("record adds to a command of %.2f s", u.Wall.Seconds()),
		Before: alone, Run: t.Command(append([]string{"record", "-o", path, "--"}, short...)...), NoRSS: true,
	}); err != nil {
		return err
	}
	pid, url, stop, err := server()
	if err != nil {
		return err
	}
	defer stop()
	attach := t.Command("record", "-p", fmt.Sprint(pid), "--duration", "300ms", "-o", path)
	run := func(program string) (measure.Usage, error) {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go func() { // there is something to record
			for ctx.Err() == nil {
				if err := ask(ctx, url); err != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		}()
		return attach(program)
	}
	return t.Add(measure.Figure{Name: "attach to a server for 0.3 s", Run: run})
}

// server starts a llama-server that answers.
func server() (pid int, url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, "", nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	argv, err := engine(context.Background(), "llama-tiny-vocab", "llama-server", "-t", "1", "-c", "512",
		"--no-webui", "--port", fmt.Sprint(port))
	if err != nil {
		return 0, "", nil, err
	}
	var log bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return 0, "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	url = fmt.Sprintf("http://127.0.0.1:%d/completion", port)
	for range 600 {
		if ask(context.Background(), url) == nil {
			return cmd.Process.Pid, url, stop, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return 0, "", nil, fmt.Errorf("llama-server does not answer:\n%s", log.String())
}

func ask(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(`{"prompt":"a b","n_predict":8}`))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	return nil
}
