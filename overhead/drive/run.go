// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/profinfer/profinfer/overhead"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/target"
)

const (
	usualSettle = 500 * time.Millisecond
	// rest is the pause between a recorder's end and the next span: the kernel removes probes.
	rest = 300 * time.Millisecond
	// startup is roughly how long a recorder takes until its probes are in place; only for the estimate.
	startup = time.Second
	// Time that an attached process has to compute its first steps.
	idleFor = time.Minute
	// Steps that an engine must have computed before measuring starts: it is then warm.
	firstSteps = 5
)

// run is a running measurement.
type run struct {
	opt     Options
	dir     string
	pid     int
	command *target.Command
	clock   *child
	spans   []overhead.Span
	dropped map[string]string // excluded states, and why
	failed  map[string]int    // consecutive failures
	began   time.Time
	// the current round, and how long the previous ones took
	round    int
	perRound time.Duration
	lastErr  *RecorderError
}

// Run measures until all rounds are done, the engine ends, or ctx is done. Except on the errors below, what
// was measured so far is reported.
//
// Errors: a *RecorderError (a privilege is missing, no engine was found, none of the states can be measured),
// a *target.LaunchError, Interrupted.
func Run(ctx context.Context, opt Options) (*overhead.Report, error) {
	// Children die with the thread that started them, so it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir, err := os.MkdirTemp("", "profinfer-overhead-")
	if err != nil {
		return nil, fmt.Errorf("no room for recordings: %w; TMPDIR names another folder", err)
	}
	defer os.RemoveAll(dir)
	r := &run{opt: opt, dir: dir, pid: opt.PID, dropped: make(map[string]string),
		failed: make(map[string]int)}
	defer r.stop(ctx)
	if len(opt.Command) > 0 {
		if r.command, err = target.Launch(opt.Command, nil); err != nil {
			return nil, err
		}
		r.pid = r.command.PID
	}
	if err := r.startClock(ctx); err != nil {
		return nil, err
	}
	if err := r.waitForSteps(ctx); err != nil {
		return nil, err
	}
	rounds, ended := r.rounds(ctx)
	return r.report(ctx, rounds, ended)
}

func (r *run) clockFile() string { return filepath.Join(r.dir, "clock.pinf") }

func (r *run) say(p Progress) {
	if r.opt.Progress != nil {
		r.opt.Progress(p)
	}
}

func (r *run) warn(format string, a ...any) {
	if r.opt.Warn != nil {
		r.opt.Warn(fmt.Sprintf(format, a...))
	}
}

// commandDone is closed when the command has ended; nil if there is none.
func (r *run) commandDone() <-chan struct{} {
	if r.command == nil {
		return nil
	}
	return r.command.Done()
}

const (
	tooEarly = "the engine ended before anything could be measured"
	noEngine = "the command ended before an engine was found"
	moreToDo = "\n  give it more to do: measuring takes minutes"
)

// startClock starts the recording of steps that serves as the clock in all spans. With a command it is
// retried until the engine is loaded.
func (r *run) startClock(ctx context.Context) error {
	wait := 200 * time.Millisecond
	for {
		c, err := start([]string{r.opt.Program, "record", "--level", "step", "--no-sched", "-p",
			strconv.Itoa(r.pid), "-o", r.clockFile()})
		if err != nil {
			return err
		}
		r.clock = c
		// a recorder that found an engine keeps running
		for began := time.Now(); !c.ended(); {
			if steps, h, err := readClock(r.clockFile()); err == nil &&
				(len(steps) > 0 || len(h.Processes) > 0) || time.Since(began) > 5*time.Second {
				return nil
			}
			r.say(Progress{Waiting: "looking for an engine"})
			if !hold(ctx, 200*time.Millisecond, c, r.commandDone()) {
				break
			}
		}
		if ctx.Err() != nil {
			return Interrupted{}
		}
		if !c.ended() {
			c.end()
		}
		f := c.failure()
		if f == nil {
			f = &RecorderError{Status: 1, Text: tooEarly + moreToDo}
		}
		if r.command == nil {
			return f
		}
		if f.Status != 4 {
			select {
			case <-r.command.Done():
				if steps, h, err := readClock(r.clockFile()); err != nil || len(steps) == 0 &&
					len(h.Processes) == 0 {
					return &RecorderError{Status: 4,
						Text: noEngine + "\n  " + strings.ReplaceAll(f.Text, "\n", "\n  ")}
				}
				return &RecorderError{Status: 1, Text: tooEarly + moreToDo}
			default:
				return f
			}
		}
		if !hold(ctx, wait, nil, r.commandDone()) {
			if ctx.Err() != nil {
				return Interrupted{}
			}
			return &RecorderError{Status: f.Status,
				Text: noEngine + "\n  " + strings.ReplaceAll(f.Text, "\n", "\n  ")}
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// waitForSteps waits until the engine computes.
func (r *run) waitForSteps(ctx context.Context) error {
	began := time.Now()
	for {
		steps, _, err := readClock(r.clockFile())
		if err == nil && len(steps) >= firstSteps {
			return nil
		}
		waited := time.Since(began)
		if r.command == nil && waited > idleFor && len(steps) == 0 {
			return &RecorderError{Status: 1,
				Text: fmt.Sprintf("the engine computed nothing in %v\n  give it work while it is measured: a server wants requests", idleFor)}
		}
		p := Progress{Waiting: "waiting for the engine to compute"}
		if r.command == nil && waited > 3*time.Second && len(steps) == 0 {
			p.Waiting += " (a server wants requests)"
		}
		r.say(p)
		if !hold(ctx, 500*time.Millisecond, nil, r.clock.done, r.commandDone()) {
			if ctx.Err() != nil {
				return Interrupted{}
			}
			r.clock.end()
			text := tooEarly
			if f := r.clock.failure(); f != nil {
				text += "\n  " + f.Text
			}
			return &RecorderError{Status: 1, Text: text + moreToDo}
		}
	}
}

// rounds runs the states in turn. It returns how many rounds were started, and why it ended early.
func (r *run) rounds(ctx context.Context) (n int, ended string) {
	r.began = time.Now()
	if why := r.idle(ctx, 0); why != "" {
		return 0, why
	}
	for n = 1; n <= r.opt.Rounds; n++ {
		for i := range r.opt.States {
			// a different order in each round: no state always follows the same one
			s := &r.opt.States[(i+n-1)%len(r.opt.States)]
			if r.dropped[s.Name] != "" {
				continue
			}
			if why := r.hold(ctx, s, n); why != "" {
				return n, why
			}
			if len(r.dropped) == len(r.opt.States) {
				return n, "no state could be made"
			}
			if why := r.wait(ctx, rest, nil); why != "" {
				return n, why
			}
			if why := r.idle(ctx, n); why != "" {
				return n, why
			}
		}
	}
	return r.opt.Rounds, ""
}

// wait waits, and returns what ended it early, if anything did.
func (r *run) wait(ctx context.Context, d time.Duration, c *child) string {
	if hold(ctx, d, c, r.clock.done, r.commandDone()) {
		return ""
	}
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case r.command != nil:
		return "the command ended"
	}
	return "the process ended"
}

// idle makes a span with only the clock running.
func (r *run) idle(ctx context.Context, round int) string {
	r.say(r.progress(round, ""))
	s := overhead.Span{From: now()}
	why := r.wait(ctx, r.opt.Span, nil)
	s.To = now()
	if why == "" {
		r.spans = append(r.spans, s)
	}
	return why
}

// progress estimates the remaining time from the past.
func (r *run) progress(round int, state string) Progress {
	var each time.Duration // per round
	for _, s := range r.opt.States {
		each += max(s.Span, r.opt.Span) + r.opt.Span + max(s.Settle, usualSettle) + rest + startup
	}
	total := r.opt.Span + time.Duration(r.opt.Rounds)*each
	if past := time.Since(r.began); round > 1 {
		// as fast as until now; the parts of a round differ in length
		if r.round != round {
			r.round, r.perRound = round, past/time.Duration(round-1)
		}
		total = time.Duration(r.opt.Rounds) * r.perRound
	}
	return Progress{State: state, Round: max(round, 1), Rounds: r.opt.Rounds,
		Left: max(0, total-time.Since(r.began))}
}

// hold makes a span in which a state is active.
func (r *run) hold(ctx context.Context, s *State, round int) (why string) {
	r.say(r.progress(round, s.Name))
	at := now()
	var span overhead.Span
	var err error
	if s.Other != nil {
		span, why, err = r.other(ctx, s)
	} else {
		span, why, err = r.record(ctx, s)
	}
	if why != "" {
		return why
	}
	span.State = s.Name
	if err == nil {
		r.failed[s.Name] = 0
		r.spans = append(r.spans, span)
		return ""
	}
	span.From, span.To, span.Failed = at, now(), err.Error()
	r.spans = append(r.spans, span)
	r.failed[s.Name]++
	var f *RecorderError
	if errors.As(err, &f) {
		r.lastErr = f
		// permanent: an unknown flag, a missing privilege
		if f.Status == 2 || f.Status == 4 && r.failed[s.Name] == 3 {
			r.dropped[s.Name] = f.Text
			if len(r.opt.States) > 1 {
				r.warn("%s is left out: %s", s.Name, f.Text)
			}
		}
	}
	return ""
}

// record runs profinfer's recorder for a span.
func (r *run) record(ctx context.Context, s *State) (span overhead.Span, why string, err error) {
	settle := s.Settle
	if settle == 0 {
		settle = usualSettle
	}
	file := filepath.Join(r.dir, "state.pinf")
	// the duration starts when it is attached; it is slightly longer, so that the span ends first
	length := max(s.Span, r.opt.Span)
	d := settle + length + 2*sampleEvery
	argv := append([]string{r.opt.Program, "record"}, s.Flags...)
	argv = append(argv, "-p", strconv.Itoa(r.pid), "-o", file, "--duration", d.String())
	c, err := start(argv)
	if err != nil {
		return span, "", err
	}
	why = r.wait(ctx, time.Minute+d, c)
	if !c.ended() {
		c.end()
	}
	if why != "" {
		return span, why, nil
	}
	if f := c.failure(); f != nil {
		return span, "", f
	}
	span, err = examine(file, s, settle.Nanoseconds(), length.Nanoseconds())
	if err == nil {
		span.CPU = c.cpuIn(span.From, span.To)
	}
	os.Remove(file)
	return span, "", err
}

// other runs a program that is not profinfer for a span.
func (r *run) other(ctx context.Context, s *State) (span overhead.Span, why string, err error) {
	span.Traced, span.CPU = -1, -1
	argv, err := s.Other.Argv(r.pid)
	if err != nil {
		r.dropped[s.Name] = err.Error()
		return span, "", err
	}
	c, err := start(argv)
	if err != nil {
		r.dropped[s.Name] = err.Error()
		return span, "", err
	}
	defer c.end()
	if why = r.wait(ctx, s.Other.Ready, c); why != "" {
		return span, why, nil
	}
	span.From = now()
	c.sample(span.From)
	why = r.wait(ctx, max(s.Span, r.opt.Span), c)
	span.To = now()
	c.sample(span.To)
	span.CPU = c.cpuIn(span.From, span.To)
	early := c.ended()
	c.end()
	switch f := c.failure(); {
	case why != "":
		return span, why, nil
	case f != nil:
		return span, "", f
	case early:
		return span, "", errors.New("it ended by itself")
	}
	n, err := s.Other.Hits(c.out.b)
	if err == nil && n == 0 {
		err = errors.New("it counted nothing")
	}
	return span, "", err
}

// report ends the clock and compares the spans.
func (r *run) report(ctx context.Context, rounds int, ended string) (*overhead.Report, error) {
	r.say(Progress{Waiting: "reading what was recorded"})
	r.clock.end()
	if f := r.clock.failure(); f != nil {
		return nil, &RecorderError{Status: f.Status,
			Text: "the recording that tells the time failed: " + f.Text}
	}
	if len(r.dropped) == len(r.opt.States) && r.lastErr != nil {
		return nil, r.lastErr
	}
	steps, h, err := readClock(r.clockFile())
	if err != nil {
		return nil, err
	}
	names := make([]string, len(r.opt.States))
	for i := range r.opt.States {
		names[i] = r.opt.States[i].Name
	}
	rep := overhead.Analyse(steps, r.spans, names)
	for i := range rep.States {
		rep.States[i].Flags = r.opt.States[i].Flags
	}
	rep.PID, rep.Rounds, rep.SpanNS, rep.Ended = r.pid, rounds, r.opt.Span.Nanoseconds(), ended
	describe(rep, h)
	if ended == "interrupted" && rep.StepNS == nil {
		return rep, Interrupted{}
	}
	return rep, nil
}

func describe(rep *overhead.Report, h *profile.Header) {
	rep.Tool, rep.CPU, rep.Cores, rep.Kernel = h.Meta.Tool, h.Meta.CPU, h.Meta.Cores, h.Meta.Kernel
	for _, p := range h.Processes {
		if rep.Command == "" || int(p.PID) == rep.PID {
			rep.Command = p.Comm
		}
	}
}

// stop ends what was started. A command that received the terminal's interrupt may end by itself.
func (r *run) stop(ctx context.Context) {
	if r.clock != nil && !r.clock.ended() {
		r.clock.end()
	}
	if r.command == nil {
		return
	}
	patience := time.Duration(0)
	if ctx.Err() != nil {
		patience = 2 * time.Second
	}
	for _, s := range []struct {
		wait time.Duration
		sig  syscall.Signal
	}{{patience, syscall.SIGTERM}, {10 * time.Second, syscall.SIGKILL}} {
		select {
		case <-r.command.Done():
			return
		case <-time.After(s.wait):
			r.command.Signal(s.sig)
		}
	}
	r.command.Wait()
}
