// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

var errNoPerf = errors.New("perf is not installed here: it is the sampling profiler to compare with (Debian: apt-get install linux-perf; Ubuntu: linux-tools-generic; Fedora: perf)")

// sampler is a perf record under way.
type sampler struct {
	cmd  *exec.Cmd
	log  bytes.Buffer
	path string
}

// startPerf has perf sample a process until that ends, by the CPU time it uses, with times of
// CLOCK_BOOTTIME, as profinfer's are.
func startPerf(pid, rate int, callGraph, path string) (*sampler, error) {
	s := &sampler{path: path}
	s.cmd = exec.Command("perf", "record", "-e", "cpu-clock", "-F", strconv.Itoa(rate), "-k", "boottime",
		"--call-graph", callGraph,
		"-o", path, "-p", strconv.Itoa(pid))
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	return s, s.cmd.Start()
}

// wait returns when the sampled process ended.
func (s *sampler) wait() error {
	err := s.cmd.Wait()
	// perf ends as its child did: killed by its own signal when asked to stop
	if info, statErr := os.Stat(s.path); statErr != nil || info.Size() == 0 {
		return fmt.Errorf("perf record wrote nothing (%v): %s", err, strings.TrimSpace(s.log.String()))
	}
	return nil
}

// sample is one sample of a thread.
type sample struct {
	tid   int32
	time  int64 // ns of CLOCK_BOOTTIME
	chain []frame
}

// samples calls f with each sample of a recording of perf.
func samples(ctx context.Context, path string, f func(*sample)) error {
	// inlined functions are not asked for: perf starts an addr2line for every file then
	cmd := exec.CommandContext(ctx, "perf", "script", "-i", path, "--ns", "--no-inline", "-F",
		"tid,time,ip,sym,dso")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	parseErr := parse(out, f)
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("perf script: %w\n%s", err, strings.TrimSpace(log.String()))
	}
	return parseErr
}

// parse reads what perf script writes: a line "TID SECONDS:" and a line "ADDRESS SYMBOL (FILE)"
// for each frame, then an empty one. A sample's chain is only valid during f.
func parse(r io.Reader, f func(*sample)) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20) // names of C++ templates are long
	var s *sample
	var chain []frame
	end := func() {
		if s != nil && len(chain) > 0 {
			s.chain = chain
			f(s)
		}
		s, chain = nil, chain[:0]
	}
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		switch {
		case line == "":
			end()
		case s == nil:
			id, at, _ := strings.Cut(line, " ")
			tid, err := strconv.ParseInt(id, 10, 32)
			t, err2 := nanoseconds(strings.TrimSuffix(strings.TrimSpace(at), ":"))
			if err != nil || err2 != nil {
				return fmt.Errorf("perf script, line %d: %q is no beginning of a sample", n, line)
			}
			s = &sample{tid: int32(tid), time: t}
		default:
			fr, err := parseFrame(line)
			if err != nil {
				return fmt.Errorf("perf script, line %d: %w", n, err)
			}
			chain = append(chain, fr)
		}
	}
	end()
	return in.Err()
}

func parseFrame(line string) (frame, error) {
	address, name, _ := strings.Cut(line, " ")
	ip, err := strconv.ParseUint(address, 16, 64)
	if err != nil {
		return frame{}, fmt.Errorf("%q is no frame of a chain", line)
	}
	// Of addresses, those with the highest bit are the kernel's, on amd64 and arm64.
	f := frame{symbol: strings.TrimSpace(name), kernel: ip > math.MaxInt64}
	// the file is in brackets at the end; symbols have some too, and files can
	for _, begin := range []string{" (/", " ([", " ("} {
		if i := strings.LastIndex(f.symbol, begin); i >= 0 && strings.HasSuffix(f.symbol, ")") {
			f.symbol, f.file = f.symbol[:i], f.symbol[i+2:len(f.symbol)-1]
			break
		}
	}
	return f, nil
}

// nanoseconds reads seconds with up to 9 decimals.
func nanoseconds(s string) (int64, error) {
	sec, frac, _ := strings.Cut(s, ".")
	if len(frac) > 9 {
		return 0, fmt.Errorf("%q has more than 9 decimals", s)
	}
	a, err := strconv.ParseInt(sec, 10, 64)
	if err != nil || a < 0 || a > math.MaxInt64/2_000_000_000 {
		return 0, fmt.Errorf("%q is no time", s)
	}
	b, err := strconv.ParseUint((frac + "000000000")[:9], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no time", s)
	}
	return a*1e9 + int64(b), nil
}
