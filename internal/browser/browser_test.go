// SPDX-License-Identifier: Apache-2.0

// Package browser tests the page of report and serve in a real browser: Chromium, driven by the
// scripts in web/test. They are skipped where Chromium, Node.js or web/node_modules is missing, and fail
// there where PROFINFER_REQUIRE_BPF=1 says that everything has to run.
package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/report"
)

// need skips the test, or fails it where everything has to run.
func need(t testing.TB, format string, a ...any) {
	t.Helper()
	if os.Getenv("PROFINFER_REQUIRE_BPF") == "1" {
		t.Fatalf(format, a...)
	}
	t.Skipf(format, a...)
}

// tools ends the test where the browser cannot be driven.
func tools(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		need(t, "Node.js is missing: scripts/deps.sh test")
	}
	if _, err := os.Stat("../../web/node_modules/playwright-core"); err != nil {
		need(t, "web/node_modules is missing: make web/node_modules")
	}
	cmd := exec.Command("node", "--input-type=module", "-e",
		"import {browserPath} from './test/browser.mjs'; console.log(browserPath ?? '')")
	cmd.Dir = "../../web"
	out, err := cmd.Output()
	if err != nil {
		need(t, "playwright-core cannot be loaded: %v", err)
	}
	if strings.TrimSpace(string(out)) == "" {
		need(t, "Chromium is missing: apt-get install chromium, or name one in PROFINFER_CHROMIUM")
	}
}

// page is one page for a suite.
type page struct {
	Name     string    `json:"name"`
	URL      string    `json:"url"`
	Looks    [][3]int  `json:"looks,omitempty"` // width, height, dark
	Thorough bool      `json:"thorough,omitempty"`
	Shows    []string  `json:"shows,omitempty"` // texts that have to be found in some view
	Brief    bool      `json:"brief,omitempty"`
	Tables   []tableOf `json:"tables,omitempty"`
	Long     bool      `json:"-"` // for make test-all: much the same is seen on another page
}

var (
	light, dark  = [3]int{1440, 900, 0}, [3]int{1440, 900, 1}
	small, smdrk = [3]int{1000, 700, 0}, [3]int{1000, 700, 1}
)

// plan is what a suite is told.
type plan struct {
	Pages    []page `json:"pages"`
	Parallel int    `json:"parallel,omitempty"`
}

// outcome is what a test in the browser tells.
type outcome struct {
	Test  string          `json:"test"`
	Wrong []string        `json:"wrong"`
	Data  json.RawMessage `json:"data"`
}

// suite runs web/test/NAME.test.mjs, each of its tests as a subtest. Each page is looked at in the first of its
// looks. If everything is tested, it is looked at in all of them, and pages that are Long are there too.
func suite(t *testing.T, name string, p plan) map[string]outcome {
	t.Helper()
	tools(t)
	if !testkit.All() {
		p.Pages = slices.DeleteFunc(p.Pages, func(pg page) bool { return pg.Long })
		for i, pg := range p.Pages {
			p.Pages[i].Looks = pg.Looks[:min(1, len(pg.Looks))]
		}
	}
	in, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "test/suite.mjs", name)
	cmd.Dir = "../../web"
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := map[string]outcome{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var o outcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Errorf("suite %s printed %q", name, lines.Text())
			continue
		}
		all[o.Test] = o
		t.Run(o.Test, func(t *testing.T) {
			for _, w := range o.Wrong {
				t.Error(w)
			}
			if len(o.Data) > 2 && len(o.Data) < 400 {
				t.Logf("%s", o.Data)
			}
		})
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("suite %s: %v", name, err)
	}
	if _, ok := all["network"]; !ok {
		t.Errorf("suite %s did not come to its end", name)
	}
	return all
}

// fileURL returns the address of a file.
func fileURL(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return (&url.URL{Scheme: "file", Path: abs}).String()
}

// load computes the page's data of a recording. file is the name that the page shows.
func load(t testing.TB, file, path string) *report.Run {
	t.Helper()
	r, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run, err := report.Load(file, func(s profile.Sink) (*profile.Header, error) {
		return profile.Replay(r, s)
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// write writes a page of runs and returns its address.
func write(t testing.TB, name string, runs ...*report.Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := report.Write(f, "profinfer test", runs); err != nil {
		t.Fatal(err)
	}
	return fileURL(path)
}

// recorded writes the recording of a trial into a file.
func recorded(t testing.TB, name string) string {
	t.Helper()
	trial, ok := profiletest.TrialNamed(name)
	if !ok {
		t.Fatalf("no trial %q", name)
	}
	path := filepath.Join(t.TempDir(), name+".pinf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := trial.Write(f); err != nil {
		t.Fatal(err)
	}
	return path
}
