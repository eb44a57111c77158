// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	building sync.Once
	program  string
)

// profinfer builds the program once.
func profinfer(t testing.TB) string {
	t.Helper()
	building.Do(func() {
		dir, err := os.MkdirTemp("", "profinfer")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "profinfer")
		if out, err := exec.Command("go", "build", "-o", path,
			"../../cmd/profinfer").CombinedOutput(); err != nil {
			t.Fatalf("building profinfer: %v\n%s", err, out)
		}
		program = path
	})
	if program == "" {
		t.Fatal("profinfer could not be built")
	}
	return program
}

func TestMain(m *testing.M) {
	status := m.Run()
	if program != "" {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(status)
}

// server is a running profinfer serve.
type server struct {
	printed string // the address with the token
	url     string // without it
	cmd     *exec.Cmd
	errs    bytes.Buffer
}

func serve(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(profinfer(t),
		append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)}
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if s.printed = strings.TrimSpace(line); err != nil ||
		!regexp.MustCompile(`^http://127\.0\.0\.1:\d+/\?token=\w{20,}$`).MatchString(s.printed) {
		t.Fatalf("it printed %q (%v); %s", line, err, &s.errs)
	}
	s.url, _, _ = strings.Cut(s.printed, "?")
	return s
}

// interrupt ends the server and returns its exit status.
func (s *server) interrupt(t *testing.T) int {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case <-done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
		return -1
	}
}

func get(t *testing.T, client *http.Client, address, host string) (int, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b
}

// serve shows the same views on loopback, to nobody else, until it is interrupted.
func TestServe(t *testing.T) {
	file := recorded(t, "plain")
	s := serve(t, "-i", file, "-i", recorded(t, "names"))
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	for _, path := range []string{"", "?token=x", "data/0/stat"} {
		if got, said := get(t, client, s.url+path, ""); got != 403 ||
			!strings.Contains(string(said), "Open the whole address") {
			t.Errorf("/%s without the token: status %d: %s", path, got, said)
		}
	}
	if got, _ := get(t, client, s.printed, ""); got != 200 {
		t.Errorf("the printed address: status %d", got)
	}
	for _, c := range []struct {
		path, host string
		want       int
	}{{"", "", 200}, {"", "localhost:" + u.Port(), 403}, {strings.TrimPrefix(s.printed, s.url),
		"evil.example", 403}, {"", "evil.example", 403}, {"", "evil.example:" + u.Port(), 403},
		{"data/0/stat", "evil.example", 403},
		{"data/0/stat", "", 200}, {"data/1/stat", "", 200}, {"data/2/stat", "", 404}, {"data/0/nothing", "",
			404}, {"index.html", "", 404}, {"data/0/../../plain.pinf", "", 404}} {
		if got, _ := get(t, client, s.url+c.path, c.host); got != c.want {
			t.Errorf("/%s with Host %q: status %d, want %d", c.path, c.host, got, c.want)
		}
	}
	// No other address of this machine answers.
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			if c, err := net.DialTimeout("tcp", net.JoinHostPort(n.IP.String(), u.Port()),
				time.Second); err == nil {
				c.Close()
				t.Errorf("it answers on %s", n.IP)
			}
		}
	}
	t.Run("views", func(t *testing.T) {
		suite(t, "views", plan{Pages: []page{{Name: "served", URL: s.printed, Looks: [][3]int{light, smdrk},
			Shows: []string{`<img src=x onerror=alert(1)>`}}}})
	})
	// A browser holds connections open on which it never asked anything.
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if status := s.interrupt(t); status != 0 {
		t.Errorf("status %d after an interrupt; %s", status, &s.errs)
	}
}

// What cannot be served is said, with the status for it.
func TestServeRefuses(t *testing.T) {
	file := recorded(t, "plain")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"serve", "-i", file, "--listen", "0.0.0.0:0"}, 2, "loopback"},
		{[]string{"serve", "-i", file, "--listen", ":0"}, 2, "loopback"},
		{[]string{"serve", "-i", file, "--listen", "example.com:80"}, 2, "loopback"},
		{[]string{"serve", "-i", file, "--listen", "127.0.0.1"}, 2, "port"},
		{[]string{"serve", "-i", file, "--listen", busy.Addr().String()}, 1, "in use"},
		{[]string{"serve", "-i", file + ".no"}, 1, "no such file"},
		{[]string{"report", "-i", file, "-o", file}, 2, "the recording itself"},
		{[]string{"report", "-i", "/dev/null", "-o", filepath.Join(t.TempDir(), "x.html")}, 1, "is a device"},
	} {
		var errs bytes.Buffer
		cmd := exec.Command(profinfer(t), c.args...)
		cmd.Stderr = &errs
		err := cmd.Run()
		var x *exec.ExitError
		if err != nil && !errors.As(err, &x) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: status %d, want %d; it says %q", strings.Join(c.args, " "), got, c.status,
				errs.String())
		}
	}
	if st, err := os.Stat(file); err != nil || st.Size() == 0 {
		t.Errorf("the recording: %v", err)
	}
}

// A torn recording is shown as far as it goes, and that it is torn is said.
func TestReportTorn(t *testing.T) {
	file := recorded(t, "torn")
	var errs bytes.Buffer
	out := filepath.Join(t.TempDir(), "torn.html")
	cmd := exec.Command(profinfer(t), "report", "-i", file, "-o", out)
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil || !strings.Contains(errs.String(), "warning: "+file) {
		t.Errorf("%v: %s", err, &errs)
	}
	if st, err := os.Stat(out); err != nil || st.Size() < 10_000 {
		t.Errorf("the page: %v", err)
	}
}
