// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLaunchStatus(t *testing.T) {
	for _, c := range []struct {
		script string
		want   int
	}{{"exit 0", 0}, {"exit 3", 3}, {"exit 255", 255}, {"kill -TERM $$", 128 + 15}, {"kill -KILL $$",
		128 + 9}, {`test "$X" = y`, 0}} {
		cmd, err := Launch([]string{"sh", "-c", c.script}, append(os.Environ(), "X=y"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if st, err := cmd.Wait(); err != nil || st != c.want {
				t.Errorf("%s: %d, %v; want %d", c.script, st, err, c.want)
			}
		}
		select {
		case <-cmd.Done():
		default:
			t.Error("not done after Wait")
		}
		if err := cmd.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("a signal to a command that has ended: %v", err)
		}
	}
}

// What a command counted is known when it has ended, and is that of its whole life.
func TestLaunchAccount(t *testing.T) {
	cmd, err := Launch([]string{"sh", "-c", "exit 0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := cmd.Account()
	if err != nil || a.Minor < 20 || a.Major < 0 { // a shell that starts touches dozens of pages
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := ProcessAccount(cmd.PID); err == nil {
		t.Error("it was not waited for")
	}
}

// TestLaunchGroup: an interrupt from the terminal goes to the whole process group.
func TestLaunchGroup(t *testing.T) {
	cmd, err := Launch([]string{"sleep", "20"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	group, err := unix.Getpgid(cmd.PID)
	if err != nil || group != unix.Getpgrp() {
		t.Errorf("process group %d, %v; want %d", group, err, unix.Getpgrp())
	}
	select {
	case <-cmd.Done():
		t.Error("ended by itself")
	case <-time.After(20 * time.Millisecond):
	}
	if err := cmd.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if st, err := cmd.Wait(); err != nil || st != 130 {
		t.Errorf("interrupted: %d, %v; want 130", st, err)
	}
}

func TestLaunchErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		argv   []string
		status int
		say    string
	}{
		{nil, 127, ""},
		{[]string{""}, 127, ""},
		{[]string{"profinfer-no-such-command"}, 127, "not found in PATH"},
		{[]string{dir + "/none"}, 127, "no such file"},
		{[]string{write("plain", "x", 0o644)}, 126, "permission denied"},
		{[]string{dir}, 126, "cannot be run"},
		{[]string{write("script", "#!/no/such/interpreter\n", 0o755)}, 126, "interpreter"},
		{[]string{write("garbage", "\x00\x01\x02", 0o755)}, 126, "exec format error"},
	} {
		cmd, err := Launch(c.argv, nil)
		var le *LaunchError
		if cmd != nil || !errors.As(err, &le) || le.Status != c.status ||
			!strings.Contains(err.Error(), c.say) {
			t.Errorf("%q: %v (%+v); want status %d and %q", c.argv, err, le, c.status, c.say)
		}
	}
}
