// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/peaks"
)

// peaksVerb runs `profinfer peaks` where nobody's peaks are kept but those in cache.
func peaksVerb(t *testing.T, cache string, args ...string) result {
	t.Helper()
	const kept = "/var/cache/profinfer/peaks" // for all users
	argv := append([]string{program, "peaks"}, args...)
	if _, err := os.Stat(kept); err == nil {
		hide := []string{"unshare", "-m", "sh", "-c", "mount -t tmpfs none " + kept + ` && exec "$@"`, "sh"}
		if out, err := exec.Command(hide[0], append(hide[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("%s exists and cannot be hidden here, which takes root: %s", kept, bytes.TrimSpace(out))
		}
		argv = append(hide, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var x *exec.ExitError
	if err != nil && !errors.As(err, &x) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestPeaksVerb(t *testing.T) {
	cache := t.TempDir()
	for _, args := range [][]string{{"--show"}, {"--show", "--json"}} {
		r := peaksVerb(t, cache, args...)
		if r.status != 1 || r.stdout != "" || !strings.Contains(r.stderr, "never measured") ||
			!strings.Contains(r.stderr, "profinfer peaks") {
			t.Errorf("%v without peaks: status %d, %q, %q", args, r.status, r.stdout, r.stderr)
		}
	}
	for _, c := range []struct {
		args []string
		say  string
	}{
		{[]string{"--threads", "0"}, "--threads"},
		{[]string{"--threads", "1,-2"}, "--threads"},
		{[]string{"--threads", "many"}, "threads"},
		{[]string{"--trials", "2"}, "--trials"},
		{[]string{"--trial", "1us"}, "--trial"},
		{[]string{"--show", "--threads", "1"}, "--show measures nothing"},
		{[]string{"--show", "--no-save"}, "--show measures nothing"},
		{[]string{"now"}, "now"},
		{[]string{"--no-such-flag"}, "--no-such-flag"},
	} {
		r := peaksVerb(t, cache, c.args...)
		if r.status != 2 || r.stdout != "" || !strings.Contains(r.stderr, c.say) {
			t.Errorf("%v: status %d, %q, %q; want 2 and %q", c.args, r.status, r.stdout, r.stderr, c.say)
		}
	}
	quick := []string{"--json", "--threads", "1", "--trial", "1ms", "--trials", "3"}
	read := func(r result) *peaks.Peaks {
		t.Helper()
		if r.status != 0 {
			t.Fatalf("status %d: %s", r.status, r.stderr)
		}
		p := &peaks.Peaks{}
		if err := json.Unmarshal([]byte(r.stdout), p); err != nil {
			t.Fatalf("%v in %s", err, r.stdout)
		}
		if p.SchemaVersion != peaks.SchemaVersion || len(p.Points) != 1 || p.Points[0].Threads != 1 ||
			p.Points[0].Read == nil || p.Points[0].Read.Best <= 0 ||
			p.Points[0].F32 == nil || p.Points[0].F32.Best <= 0 {
			t.Errorf("peaks %s", r.stdout)
		}
		return p
	}
	read(peaksVerb(t, cache, append(quick, "--no-save")...))
	if kept, _ := filepath.Glob(filepath.Join(cache, "profinfer", "peaks", "*")); len(kept) != 0 {
		t.Errorf("--no-save kept %v", kept)
	}
	measured := peaksVerb(t, cache, quick...)
	if p := read(measured); !strings.Contains(measured.stderr, "kept in "+cache) || p.Machine.CPUs < 1 {
		t.Errorf("%q, %+v", measured.stderr, p.Machine)
	}
	if shown := peaksVerb(t, cache, "--show", "--json"); shown.stdout != measured.stdout {
		t.Errorf("--show has\n%s\nmeasured was\n%s", shown.stdout, measured.stdout)
	}
	if text := peaksVerb(t, cache, "--show"); text.status != 0 || !strings.Contains(text.stdout, "GB/s") ||
		strings.Contains(text.stdout, "{") {
		t.Errorf("%d %s", text.status, text.stdout)
	}
}
