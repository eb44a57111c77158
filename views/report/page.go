// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/profinfer/profinfer/internal/clean"
)

//go:embed bundle
var bundle embed.FS

func asset(name string) string {
	b, err := bundle.ReadFile("bundle/" + name)
	if err != nil {
		panic(err) // embedded at build time
	}
	return string(b)
}

// index is what the page reads first.
type index struct {
	Schema int        `json:"schema_version"`
	Tool   string     `json:"tool"`
	Served bool       `json:"served"` // sections are fetched from data/RUN/NAME; false: they are in the page
	Runs   []indexRun `json:"runs"`
}

type indexRun struct {
	Label    string         `json:"label"`
	File     string         `json:"file"`
	Sections map[string]int `json:"sections"` // gzipped size in bytes by name
}

func newIndex(tool string, runs []*Run, served bool) index {
	x := index{Schema: Schema, Tool: tool, Served: served}
	for _, r := range runs {
		ir := indexRun{Label: r.Label, File: r.File, Sections: map[string]int{}}
		for n, b := range r.sections {
			ir.Sections[n] = len(b)
		}
		x.Runs = append(x.Runs, ir)
	}
	return x
}

// hash is the CSP source expression that allows an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// loader is the code that runs first: it unpacks the worker's code and the page's own, which are in the page
// gzipped like the recording's sections. They are 300 KB, in a page that would otherwise have 640 KB without
// any recording.
const loader = `(async () => {
  const text = async (id) => {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0))
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).text()
  }
  try {
    document.getElementById('worker').textContent = await text('worker')
    const app = document.createElement('script')
    app.textContent = await text('code')
    document.body.append(app)
  } catch (e) {
    document.getElementById('loading').textContent =
      'This page cannot be shown (a browser of 2023 or newer is needed): ' + e
  }
})()`

// packed returns a text gzipped, as base64. The result is deterministic.
func packed(text string) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := io.WriteString(z, text); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// policy is the page's Content-Security-Policy: only its own code, and no requests (if served: only to its
// own server). Even a name that became markup could not run code.
func policy(app, css string, served bool) string {
	connect := "'none'"
	if served {
		connect = "'self'"
	}
	return "default-src 'none'; script-src " + hash(loader) + " " + hash(app) + "; style-src " + hash(css) +
		"; worker-src blob:; img-src data: blob:; font-src data:; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'"
}

// Write writes the page with all its data. tool names its producer ("profinfer 0.4").
func Write(w io.Writer, tool string, runs []*Run) error {
	return write(w, tool, runs, false)
}

const pageBegin = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="`

// IsPage reports whether a file, by its beginning, can be a page written by Write.
func IsPage(begin []byte) bool { return bytes.HasPrefix(begin, []byte(pageBegin)) }

func write(w io.Writer, tool string, runs []*Run, served bool) error {
	app, css, worker, licenses := asset("app.js"), asset("app.css"), asset("worker.js"), asset("LICENSES.txt")
	idx, err := json.Marshal(newIndex(tool, runs, served)) // escapes <, > and &
	if err != nil {
		return err
	}
	code, err := packed(app)
	if err != nil {
		return err
	}
	if worker, err = packed(worker); err != nil {
		return err
	}
	b := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(b, pageBegin+`%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>%s</title>
<style>%s</style>
</head>
<body>
<div id="app"></div>
<p id="loading">Reading the recording. If this stays, the file is truncated: its end is missing.</p>
<noscript>This page draws its views with JavaScript, all of which is inside this file. It is switched off here.</noscript>
<script type="application/json" id="index">%s</script>
<script type="text/plain" id="worker">%s</script>
<template id="licenses">%s</template>
`, html.EscapeString(policy(app, css, served)), html.EscapeString(title(runs)), css, idx, worker, html.EscapeString(licenses))
	if !served {
		for i, r := range runs {
			for _, n := range r.names {
				fmt.Fprintf(b, `<script type="text/plain" id="s/%d/%s">`, i, html.EscapeString(n))
				e := base64.NewEncoder(base64.StdEncoding, b)
				if _, err := e.Write(r.sections[n]); err != nil {
					return err
				}
				if err := e.Close(); err != nil {
					return err
				}
				b.WriteString("</script>\n")
			}
		}
	}
	fmt.Fprintf(b, "<script type=\"text/plain\" id=\"code\">%s</script>\n<script>%s</script>\n</body>\n</html>\n", code, loader)
	return b.Flush()
}

func title(runs []*Run) string {
	var names []string
	for _, r := range runs {
		names = append(names, clean.Title(r.File))
	}
	return strings.Join(names, " · ") + " · profinfer"
}

// Handler serves the page at / and its data below /data/.
func Handler(tool string, runs []*Run) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		secure(w)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_ = write(w, tool, runs, true) // the client has gone: nothing to report to
	})
	mux.HandleFunc("GET /data/{run}/{name...}", func(w http.ResponseWriter, r *http.Request) {
		secure(w)
		n, err := strconv.Atoi(r.PathValue("run"))
		if err != nil || n < 0 || n >= len(runs) {
			http.NotFound(w, r)
			return
		}
		b, ok := runs[n].sections[path.Clean(r.PathValue("name"))]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Cache-Control", "no-store") // another trace may be served here tomorrow
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b)
	})
	return mux
}

func secure(w http.ResponseWriter) {
	// the page's own policy is in the page, and cannot contain this
	w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
}

// Local passes only requests that name this machine's loopback as their host. Otherwise a page of another
// site whose name was made to point here (DNS rebinding) could read the recording.
func Local(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "only this machine's own loopback is served", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
