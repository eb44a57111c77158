// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// trial loads a recording of profiletest under a file name.
func trial(t testing.TB, name, file string) *Run {
	t.Helper()
	tr, ok := profiletest.TrialNamed(name)
	if !ok {
		t.Fatalf("no trial %q", name)
	}
	var b bytes.Buffer
	if err := tr.Write(&b); err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	run, err := Load(file, func(s profile.Sink) (*profile.Header, error) { return profile.Replay(r, s) })
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func unpack(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const badFile = "dir/</title><script>alert(1)</script>\u202e\x1b[31m\xff.pinf"

// Whatever a recording says stands in sections, which are base64: nothing of it can be markup. The file's
// name, which stands in the page as it is, is escaped.
func TestPageIsData(t *testing.T) {
	run := trial(t, "names", badFile)
	var b bytes.Buffer
	if err := Write(&b, `tool <b>"`, []*Run{run, trial(t, "plain", "b.pinf")}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if n := strings.Count(page, "<script"); n != 4+len(run.names)*2 {
		t.Errorf("%d scripts: index, worker, %d sections, the code and what unpacks it are expected", n,
			len(run.names)*2)
	}
	if strings.Contains(page, "alert(") {
		t.Error("a name stands in the page")
	}
	if m := regexp.MustCompile(`<title>(.*?)</title>`).FindStringSubmatch(page); m == nil ||
		m[1] != "script&gt;\\u202e\\u001b[31m\uFFFD.pinf · b.pinf · profinfer" {
		t.Errorf("title %q", m)
	}
	if !strings.Contains(page, "Jason Miller") {
		t.Error("the page has no licences of what is bundled with it")
	}
	// A licence may name its home: it is text that nothing reads but a person.
	page = regexp.MustCompile(`(?s)<template id="licenses">.*?</template>`).ReplaceAllString(page, "")
	for _, word := range []string{"http://", "https://"} {
		at := strings.Index(page, word)
		for at >= 0 {
			end := min(len(page), at+60)
			if s := page[at:end]; !strings.HasPrefix(s, "http://www.w3.org/") {
				t.Errorf("the page names an address: %q", s)
			}
			next := strings.Index(page[end:], word)
			if next < 0 {
				break
			}
			at = end + next
		}
	}
}

// What is embedded must not end the element that it stands in.
func TestAssets(t *testing.T) {
	for name, bad := range map[string]string{
		"app.js": "(?i)</script|<!--", "worker.js": "(?i)</script|<!--",
		"app.css": "(?i)</style|@import|url\\((?!data)",
	} {
		text := asset(name)
		bad = strings.ReplaceAll(bad, "(?!data)", "[^d]")
		if at := regexp.MustCompile(bad).FindStringIndex(text); at != nil {
			t.Errorf("%s has %q", name, text[at[0]:min(len(text), at[0]+80)])
		}
	}
	if l := asset("LICENSES.txt"); !strings.HasPrefix(l, "@dagrejs/") && !strings.HasPrefix(l, "preact ") {
		t.Errorf("licences begin with %.40q", l)
	}
}

// The policy lets in the page's own code by its hash, and nothing else.
func TestPolicy(t *testing.T) {
	p := policy("code", "style", false)
	for _, want := range []string{"default-src 'none'",
		"script-src " + hash(loader) + " " + hash("code") + ";", "style-src " + hash("style") +
			";", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(p, want) {
			t.Errorf("no %q in %q", want, p)
		}
	}
	if h := hash("code"); h != "'sha256-VpTQii5T/8rgwxA+Wtb2B2q9lg6x+KVldwQLwQKPcCs='" {
		t.Errorf("hash %s", h)
	}
	if strings.Contains(p, "unsafe") || strings.Contains(p, "*") || strings.Contains(p, "http") {
		t.Errorf("%q", p)
	}
	if !strings.Contains(policy("code", "style", true), "connect-src 'self'") {
		t.Error("a served page may not fetch its data")
	}
}

// The page's statistics are those of stat --json.
func TestStatSection(t *testing.T) {
	var got map[facts.By]json.RawMessage
	if err := json.Unmarshal(unpack(t, trial(t, "plain", "a.pinf").sections["stat"]), &got); err != nil {
		t.Fatal(err)
	}
	tr, _ := profiletest.TrialNamed("plain")
	var b bytes.Buffer
	if err := tr.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, by := range groupings {
		r, err := trace.NewReader(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		s := stat.New(stat.Options{By: by})
		h, err := profile.Replay(r, s)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(s.Finish(h))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got[by]) {
			t.Errorf("by %s: the page has other figures than stat --json", by)
		}
	}
}

// Every trial can be loaded and written.
func TestTrials(t *testing.T) {
	for _, tr := range profiletest.Trials() {
		t.Run(tr.Name, func(t *testing.T) {
			if tr.Large && testing.Short() {
				t.Skip("large")
			}
			run := trial(t, tr.Name, tr.Name+".pinf")
			var b bytes.Buffer
			if err := Write(&b, "test", []*Run{run}); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", b.Len())
			if limit := 12 << 20; b.Len() > limit {
				t.Errorf("the page has %d bytes", b.Len())
			}
		})
	}
}

func TestLabel(t *testing.T) {
	for _, c := range []struct{ trial, want string }{{"plain", "llama q4_0, 2 threads"},
		{"one-thread", "llama q4_0, 1 thread"}, {"empty", ""}} {
		if got := trial(t, c.trial, "a.pinf").Label; got != c.want {
			t.Errorf("%s: label %q, want %q", c.trial, got, c.want)
		}
	}
}

func TestHandler(t *testing.T) {
	run := trial(t, "plain", "a.pinf")
	srv := httptest.NewServer(Local(Handler("test", []*Run{run})))
	defer srv.Close()
	get := func(path, host string) (*http.Response, []byte) {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(res.Body); err != nil {
			t.Fatal(err)
		}
		return res, b.Bytes()
	}
	res, body := get("/", "")
	if res.StatusCode != 200 || !strings.Contains(string(body), `"served":true`) ||
		strings.Contains(string(body), `id="s/0/`) {
		t.Errorf("/: status %d", res.StatusCode)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "frame-ancestors 'none'",
		"Referrer-Policy": "no-referrer", "Access-Control-Allow-Origin": ""} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	res, body = get("/data/0/stat", "")
	if res.StatusCode != 200 || !bytes.Equal(body, run.sections["stat"]) ||
		res.Header.Get("Content-Encoding") != "" {
		t.Errorf("data: status %d, %d bytes", res.StatusCode, len(body))
	}
	for _, path := range []string{"/nothing", "/data/", "/data/1/stat", "/data/-1/stat", "/data/x/stat",
		"/data/0/nothing", "/data/0/../../etc/passwd", "/data/0/%2e%2e%2fstat", "/data/99999999999999999999/stat"} {
		if res, _ := get(path, ""); res.StatusCode != 404 {
			t.Errorf("%s: status %d", path, res.StatusCode)
		}
	}
	for host, want := range map[string]int{"localhost": 200, "localhost:99": 200, "127.0.0.1": 200,
		"127.9.9.9:1": 200, "[::1]:7070": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:7070": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "10.0.0.1": 403, "[fe80::1]": 403, "0.0.0.0:7070": 403, "::": 403, "2130706433": 403} {
		if res, _ := get("/", host); res.StatusCode != want {
			t.Errorf("Host %s: status %d, want %d", host, res.StatusCode, want)
		}
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, srv.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := srv.Client().Do(req); err != nil || res.StatusCode != 405 {
		t.Errorf("POST: %v", err)
	}
}

// Without the token nothing is shown; with it once, all is, and the address is clean.
func TestGuard(t *testing.T) {
	const token = "K7QX2M5A"
	srv := httptest.NewServer(Local(Guard(token, Handler("test", []*Run{trial(t, "plain", "a.pinf")}))))
	defer srv.Close()
	other := httptest.NewServer(Local(Guard("ANOTHER", Handler("test", nil)))) // the same host, as cookies go
	defer other.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	do := func(method, address string, cookies ...*http.Cookie) (*http.Response, string) {
		req, err := http.NewRequestWithContext(context.Background(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cookies {
			req.AddCookie(c)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(b)
	}
	for _, path := range []string{"/", "/?token=", "/?token=k7qx2m5a", "/?token=K7QX2M5", "/?token=K7QX2M5AB",
		"/?Token=" + token, "/data/0/stat", "/data/0/stat?token=x", "/nothing", "//evil.example/?token=x"} {
		res, body := do("GET", srv.URL+path)
		if res.StatusCode != 403 || !strings.Contains(body,
			"Open the whole address that profinfer serve printed") || len(res.Cookies()) > 0 ||
			strings.Contains(body, token) {
			t.Errorf("%s: status %d: %s", path, res.StatusCode, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if res, _ := do(method, srv.URL+"/?token="+token); res.StatusCode != 403 {
			t.Errorf("%s: status %d", method, res.StatusCode)
		}
	}
	res, body := do("GET", srv.URL+"/?a=1&token="+token)
	if res.StatusCode != 303 || res.Header.Get("Location") != "/?a=1" || len(res.Cookies()) != 1 ||
		body != "" || res.Header.Get("Referrer-Policy") != "no-referrer" ||
		res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d: %v %q", res.StatusCode, res.Header, body)
	}
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge != 0 ||
		!c.Expires.IsZero() || c.Domain != "" {
		t.Errorf("cookie %+v", c)
	}
	if res, _ := do("GET", srv.URL+"//evil.example/?token="+token); res.StatusCode != 403 ||
		res.Header.Get("Location") != "" {
		t.Errorf("status %d, sent to %q", res.StatusCode, res.Header.Get("Location"))
	}
	for path, want := range map[string]int{"/": 200, "/data/0/stat": 200, "/nothing": 404,
		"/?token=old": 200} {
		for _, method := range []string{"GET", "HEAD"} {
			if res, _ := do(method, srv.URL+path, &http.Cookie{Name: "other", Value: "x"},
				c); res.StatusCode != want {
				t.Errorf("%s %s with the cookie: status %d, want %d", method, path, res.StatusCode, want)
			}
		}
	}
	if res, _ := do("POST", srv.URL+"/", c); res.StatusCode != 405 {
		t.Errorf("POST with the cookie: status %d", res.StatusCode)
	}
	if res, _ := do("GET", srv.URL+"/",
		&http.Cookie{Name: c.Name, Value: "K7QX2M5B"}); res.StatusCode != 403 {
		t.Errorf("another's value: status %d", res.StatusCode)
	}
	if res, _ := do("GET", other.URL+"/", c); res.StatusCode != 403 {
		t.Errorf("the cookie at another that serves: status %d", res.StatusCode)
	}
	if res, _ := do("GET", other.URL+"/?token=ANOTHER"); len(res.Cookies()) != 1 ||
		res.Cookies()[0].Name == c.Name {
		t.Error("two that serve have one cookie, and take it from each other")
	}
}
