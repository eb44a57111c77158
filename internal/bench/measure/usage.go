// SPDX-License-Identifier: Apache-2.0

// Package measure runs commands in turns and reports what they took, with confidence intervals and the
// machine's noise.
package measure

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Usage is what a process and its children took.
type Usage struct {
	Wall, CPU time.Duration
	RSS       int64 // largest, bytes
}

// Once runs a command, for at most limit. What it writes is dropped; the error has what it said of itself.
func Once(limit time.Duration, argv ...string) (u Usage, err error) {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	start := time.Now()
	err = cmd.Run()
	u.Wall = time.Since(start)
	if s := cmd.ProcessState; s != nil {
		u.CPU = s.UserTime() + s.SystemTime()
		if ru, ok := s.SysUsage().(*syscall.Rusage); ok {
			u.RSS = ru.Maxrss << 10
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("it was stopped after %v", limit)
	} else if err != nil {
		err = fmt.Errorf("%w: %s", err, lastWords(said.String()))
	}
	return u, err
}

// lastWords returns the line of what a program said that tells why it ended, the last one if none does.
func lastWords(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\r' || r == '\n' })
	for _, l := range slices.Backward(lines) {
		if strings.Contains(l, "rror") || strings.Contains(l, "memory") {
			return l[:min(len(l), 300)]
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}
