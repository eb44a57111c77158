// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzRequests asks a server for anything, under any host: it gives the page and the runs' sections to this
// machine's loopback, and nothing else to anybody.
func FuzzRequests(f *testing.F) {
	runs := []*Run{trial(f, "one-step", "a.pinf"), trial(f, "empty", "b.pinf")}
	h := Local(Handler("profinfer", runs))
	for _, path := range []string{"/", "/data/0/stat", "/data/1/stat", "/data/2/stat", "/data/-1/stat",
		"/data/0/../1/stat", "/data/0/%2e%2e/stat", "/data/00/stat",
		"/data/0x0/stat", "/data/0//stat", "//data/0/stat", "/data/0/" +
			runs[0].names[len(runs[0].names)-1], "/data/9223372036854775808/stat", "/data/0/\x00", "/?a=b#c"} {
		f.Add("GET", path, "localhost")
	}
	for _, host := range []string{"127.0.0.1:7070", "localhost", "[::1]:1", "evil.example",
		"127.0.0.1.evil.example", "", "::1", "[localhost]", "localhost:x"} {
		f.Add("GET", "/data/0/stat", host)
	}
	f.Add("POST", "/", "localhost")
	f.Add("HEAD", "/", "localhost")
	f.Fuzz(func(t *testing.T, method, path, host string) {
		u, err := url.Parse(path)
		if err != nil || u.Path == "/" && len(path) > 4 { // the page again: it takes its time
			return
		}
		r := &http.Request{Method: method, URL: u, RequestURI: path, Host: host, Header: http.Header{},
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		name, _, ok := strings.Cut(host, ":")
		local := ok && (name == "127.0.0.1" || name == "localhost") || host == "127.0.0.1" ||
			host == "localhost" || strings.Contains(host, "::")
		switch {
		case w.Code >= 500:
			t.Fatalf("status %d", w.Code)
		case w.Code != http.StatusOK:
			return
		case method != "GET" && method != "HEAD":
			t.Fatalf("%s is answered", method)
		case !local && !strings.Contains(host, "127."):
			t.Fatalf("%q is served", host)
		case u.Path == "/":
			if !strings.HasPrefix(w.Body.String(), "<!doctype html>") ||
				w.Header().Get("Content-Security-Policy") == "" {
				t.Fatal("no page")
			}
			return
		}
		for _, run := range runs {
			for _, b := range run.sections {
				if slices.Equal(b, w.Body.Bytes()) && w.Header().Get("X-Content-Type-Options") == "nosniff" {
					return
				}
			}
		}
		t.Fatalf("%q gives %d bytes that are no section", path, w.Body.Len())
	})
}
