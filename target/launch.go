// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// LaunchError says why a command could not be started.
type LaunchError struct {
	Command string
	// Status is what a shell would exit with: 127 not found, 126 found but not to be run.
	Status int
	Err    error
}

func (e *LaunchError) Error() string {
	if e.Status == 127 {
		if strings.ContainsRune(e.Command, '/') {
			return fmt.Sprintf("%s: there is no such file", e.Command)
		}
		return fmt.Sprintf("%s: command not found in PATH", e.Command)
	}
	return fmt.Sprintf("%s: cannot be run: %v", e.Command, e.Err)
}

func (e *LaunchError) Unwrap() error { return e.Err }

// Command is a command that was started.
type Command struct {
	PID  int
	cmd  *exec.Cmd
	done chan struct{}
	st   int
	err  error

	account    Account // when it had ended
	accountErr error
}

// Launch starts a command as a shell would: standard input, output and error are
// profinfer's own, and so is the process group, so that an interrupt from the terminal reaches both
// (the caller must not die of it). env nil means profinfer's own environment. An
// error is a *LaunchError.
func Launch(argv, env []string) (*Command, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, &LaunchError{Command: "", Status: 127, Err: errors.New("no command given")}
	}
	path, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		status := 126
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			status = 127
		}
		return nil, &LaunchError{Command: argv[0], Status: status, Err: plain(err)}
	}
	c := &Command{done: make(chan struct{})}
	c.cmd = &exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	pidfd := -1
	c.cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	if err := c.cmd.Start(); err != nil {
		e := &LaunchError{Command: argv[0], Status: 126, Err: plain(err)}
		if errors.Is(err, fs.ErrNotExist) { // the file is there: its interpreter is not
			e.Err = errors.New("its interpreter (of a script) or loader does not exist")
		}
		return nil, e
	}
	c.PID = c.cmd.Process.Pid
	go func() {
		defer close(c.done)
		// Wait comes when there is an exit to take: to one who waits, a child that is held
		// (see Hold) by another thread of the same process seems to have changed.
		if pidfd >= 0 {
			fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
			for {
				if n, err := unix.Poll(fds, -1); n > 0 || err != nil && err != unix.EINTR {
					break
				}
			}
			unix.Close(pidfd)
		}
		// it has ended and was not waited for: now its counts are final, and still to be had
		c.account, c.accountErr = ProcessAccount(c.PID)
		c.st, c.err = exitStatus(c.cmd.Wait())
	}()
	return c, nil
}

// plain is the bare reason of an error: "permission denied".
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var x *exec.Error
	if errors.As(err, &x) {
		return x.Err
	}
	return err
}

// exitStatus turns what Wait returned into a shell's status: the command's own, or 128
// and the number of the signal that ended it.
func exitStatus(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	var x *exec.ExitError
	if !errors.As(err, &x) {
		return 1, fmt.Errorf("waiting for the command: %w", err)
	}
	if ws, ok := x.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return x.ExitCode(), nil
}

// Done is closed when the command has ended.
func (c *Command) Done() <-chan struct{} { return c.done }

// Account waits for the command to end and gives what the kernel had counted for it by then.
func (c *Command) Account() (Account, error) {
	<-c.done
	return c.account, c.accountErr
}

// Wait waits for the command to end and gives its status as a shell would: its own, or
// 128+n where signal n ended it. It can be called more than once.
func (c *Command) Wait() (int, error) {
	<-c.done
	return c.st, c.err
}

// Signal sends the command a signal. One that has ended is no error.
func (c *Command) Signal(sig os.Signal) error {
	err := c.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
