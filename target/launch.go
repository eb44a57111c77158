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

// LaunchError reports why a command could not be started.
type LaunchError struct {
	Command string
	// Status is what a shell would exit with: 127 not found, 126 found but not executable.
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

// Command is a command that Launch started.
type Command struct {
	PID  int
	cmd  *exec.Cmd
	done chan struct{}
	st   int
	err  error

	account    Account // at its end
	accountErr error
}

// Launch starts a command as a shell would. The command shares profinfer's standard input, output and error,
// and its process group, so that an interrupt from the terminal reaches both (the caller must survive it).
// env nil means profinfer's own environment. The error is a *LaunchError.
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
		if errors.Is(err, fs.ErrNotExist) { // the file exists, but its interpreter does not
			e.Err = errors.New("its interpreter (of a script) or loader does not exist")
		}
		return nil, e
	}
	c.PID = c.cmd.Process.Pid
	go func() {
		defer close(c.done)
		// Wait only once there is an exit: a waiting parent would see a state change of a child that another
		// thread of the same process holds (see Hold).
		if pidfd >= 0 {
			fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
			for {
				if n, err := unix.Poll(fds, -1); n > 0 || err != nil && err != unix.EINTR {
					break
				}
			}
			unix.Close(pidfd)
		}
		// it has ended and was not waited for: its counts are final and still available
		c.account, c.accountErr = ProcessAccount(c.PID)
		c.st, c.err = exitStatus(c.cmd.Wait())
	}()
	return c, nil
}

// plain is an error's bare reason: "permission denied".
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

// exitStatus turns the result of Wait into a shell's status: the command's own, or 128 plus the number of the
// signal that ended it.
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

// Account waits for the command to end and returns what the kernel counted for it.
func (c *Command) Account() (Account, error) {
	<-c.done
	return c.account, c.accountErr
}

// Wait waits for the command to end and returns its status as a shell would: its own, or 128+n if signal n
// ended it. It can be called more than once.
func (c *Command) Wait() (int, error) {
	<-c.done
	return c.st, c.err
}

// Signal sends the command a signal. If the command has ended, that is not an error.
func (c *Command) Signal(sig os.Signal) error {
	err := c.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
