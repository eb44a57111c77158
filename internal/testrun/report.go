// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/internal/testkit"
)

// event is an event of `go test -json` (go doc test2json, go help buildjson).
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // of a build
	FailedBuild string  // the build that made a package fail
}

// testCase is a test or subtest of a package.
type testCase struct {
	name    string
	end     string // pass, fail, skip; empty while it runs
	elapsed float64
	output  []byte
	parent  *testCase
	subs    int  // subtests, and their subtests
	failed  bool // it failed, or one of its subtests
}

// pkg is a package that is being tested.
type pkg struct {
	tests  []*testCase
	byName map[string]*testCase
	output []byte // of no particular test
}

// maxBrief is how many failed tests are listed beside their package.
const maxBrief = 20

// keep is how much of a test's output is kept, in bytes: its end.
const keep = 1 << 20

// report counts and reports results.
type report struct {
	out                     *bufio.Writer
	module                  string
	running                 map[string]*pkg
	builds                  map[string][]byte // output of builds, by what was built
	failures                []string          // as printed at the end
	brief                   []string          // the same for the package that ended last, one line each
	skips                   map[string]*reason
	passed, failed, skipped int
	loud                    int // of the skipped ones: as the machine was too loud
	long                    int // tests for make test-all
}

// mostLoud is how many tests may be skipped in CI as the machine was too loud.
const mostLoud = 3

// reason is why tests were skipped.
type reason struct {
	tests    int
	packages map[string]bool
}

func newReport(module string, out *bufio.Writer) *report {
	return &report{out: out, module: module, running: map[string]*pkg{}, builds: map[string][]byte{},
		skips: map[string]*reason{}}
}

// short is a package's name as typed on the command line: ./trace.
func (r *report) short(p string) string {
	if rest, ok := strings.CutPrefix(p, r.module+"/"); ok && r.module != "" {
		return "./" + rest
	}
	return p
}

// event takes the next event of go test.
func (r *report) event(e *event) {
	if e.ImportPath != "" {
		if e.Action == "build-output" {
			r.builds[e.ImportPath] = add(r.builds[e.ImportPath], e.Output)
		}
		return
	}
	if e.Package == "" { // go's own output, of no package
		fmt.Fprint(r.out, e.Output)
		r.out.Flush()
		return
	}
	p := r.running[e.Package]
	if p == nil {
		p = &pkg{byName: map[string]*testCase{}}
		r.running[e.Package] = p
	}
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.output = add(p.output, e.Output)
		case "pass", "fail", "skip":
			delete(r.running, e.Package)
			r.ended(e, p)
		}
		return
	}
	t := p.test(e.Test)
	switch e.Action {
	case "output":
		t.output = add(t.output, e.Output)
	case "pass", "fail", "skip":
		t.end, t.elapsed = e.Action, e.Elapsed
		if t.end == "pass" {
			t.output = nil
		}
	}
}

// add appends to kept output, and drops its beginning if it gets too long.
func add(out []byte, s string) []byte {
	out = append(out, s...)
	if len(out) > 2*keep {
		out = append([]byte("... (its begin is left out)\n"), out[len(out)-keep:]...)
	}
	return out
}

// test returns the test of that name, or a new one if there is none. The names of subtests can contain
// slashes themselves.
func (p *pkg) test(name string) *testCase {
	if t := p.byName[name]; t != nil {
		return t
	}
	t := &testCase{name: name}
	for at := strings.LastIndexByte(name, '/'); at >= 0; at = strings.LastIndexByte(name[:at], '/') {
		if t.parent = p.byName[name[:at]]; t.parent != nil {
			break
		}
	}
	for up := t.parent; up != nil; up = up.parent {
		up.subs++
	}
	p.byName[name] = t
	p.tests = append(p.tests, t)
	return t
}

// ended counts the tests of a package whose end e reports.
func (r *report) ended(e *event, p *pkg) {
	name := r.short(e.Package)
	if len(p.tests) == 0 && e.Action == "skip" {
		return // it has no tests
	}
	passed, failed, skipped := r.passed, r.failed, r.skipped
	r.brief = nil
	r.count(name, p)
	// output of no particular test matters if there is no other, or with failures
	if e.Action == "fail" {
		var text strings.Builder
		if b, ok := r.builds[e.FailedBuild]; ok && e.FailedBuild != "" {
			if b == nil {
				fmt.Fprintf(&text, "    it does not build: %s, see above\n", e.FailedBuild)
			}
			text.Write(b)
			r.builds[e.FailedBuild] = nil
		}
		text.Write(verdicts.ReplaceAll(p.output, nil))
		if r.failed == failed {
			r.failed++
			r.failures = append(r.failures, fmt.Sprintf("--- %s\n%s", name, text.String()))
		} else if text.Len() > 0 {
			r.failures = append(r.failures, fmt.Sprintf("--- %s, beside its tests\n%s", name, text.String()))
		}
	}
	passed, failed, skipped = r.passed-passed, r.failed-failed, r.skipped-skipped
	verdict := "ok  "
	if e.Action == "fail" {
		verdict = "FAIL"
	}
	fmt.Fprintf(r.out, "%s %7.1f s  %s  %s\n", verdict, e.Elapsed, name, tally(passed, failed, skipped))
	// A log that keeps only the beginning has to name them too.
	for _, line := range r.brief[:min(len(r.brief), maxBrief)] {
		fmt.Fprintf(r.out, "        %s\n", line)
	}
	r.out.Flush()
}

// limit makes a failure of too many tests that were skipped as the machine was too loud.
func (r *report) limit(on bool) {
	if on && r.loud > mostLoud {
		r.failed++
		r.failures = append(r.failures, fmt.Sprintf(
			"--- the machine\n    too loud for %d tests, at most %d may be skipped for it: run again when it does less\n",
			r.loud, mostLoud))
	}
}

// tally counts tests.
func tally(passed, failed, skipped int) string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", passed, failed, skipped)
}

// count counts the tests of a package, and keeps what has to be reported.
func (r *report) count(name string, p *pkg) {
	// from subtests to their parents, whose failures they explain
	for _, t := range slices.Backward(p.tests) {
		if t.end == "fail" || t.end == "" {
			if !t.failed {
				r.failed++
			}
			for up := t; up != nil; up = up.parent {
				up.failed = true
			}
		}
	}
	for _, t := range p.tests {
		switch {
		case t.failed:
			if text := said(t.output); t.subs == 0 || text != "" {
				end := fmt.Sprintf("%.2f s", t.elapsed)
				if t.end == "" {
					end = "did not come to its end"
				}
				r.failures = append(r.failures, fmt.Sprintf("--- %s %s (%s)\n%s", name, t.name, end, text))
				r.brief = append(r.brief, t.name+": "+why(t.output))
			}
		case t.end == "skip":
			why := why(t.output)
			if why == testkit.LongReason {
				r.long++
				continue
			}
			r.skipped++
			if strings.HasPrefix(why, testkit.Loud) {
				r.loud++
				why = t.name + ": " + why
			}
			if r.skips[why] == nil {
				r.skips[why] = &reason{packages: map[string]bool{}}
			}
			r.skips[why].tests++
			r.skips[why].packages[name] = true
		case t.subs == 0:
			r.passed++
		}
	}
}

// frame matches the lines by which the testing package shows where it is.
var frame = regexp.MustCompile(`(?m)^(=== (RUN|PAUSE|CONT|NAME) .*| *--- (PASS|FAIL|SKIP): .*)\n`)

// verdicts matches the lines that say whether a package passed, which need not be repeated.
var verdicts = regexp.MustCompile(`(?m)^(PASS|FAIL|FAIL\t\S+\t[0-9.]+s)\n`)

// said is what a test printed, without the frame lines.
func said(out []byte) string { return string(frame.ReplaceAll(out, nil)) }

// logged matches a line of t.Log, and of what ends a test.
var logged = regexp.MustCompile(`(?m)^ +[^ :]+\.go:\d+: (.*)$`)

// number matches process numbers, and numbers generated for file names: they do not make reasons different.
var number = regexp.MustCompile(`(/proc/)\d+|\d{6,}`)

// longest is how much of a reason is shown, in characters.
const longest = 160

// why is the reason of a skip: the first line of the test's last log message.
func why(out []byte) string {
	all := logged.FindAllSubmatch(out, -1)
	if len(all) == 0 {
		return "no reason is given"
	}
	line := strings.TrimRight(strings.TrimSpace(string(all[len(all)-1][1])), ":;")
	line = number.ReplaceAllString(line, "${1}N")
	if r := []rune(line); len(r) > longest {
		line = string(r[:longest-1]) + "…"
	}
	return line
}

// group handles the end of go test for a group of packages, whose error is not a test's.
func (r *report) group(err error) {
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		p := r.running[name]
		if before := r.failed; len(p.tests) > 0 {
			if r.count(r.short(name), p); r.failed > before {
				fmt.Fprintf(r.out, "FAIL            %s  did not come to its end\n", r.short(name))
			}
		}
	}
	clear(r.running)
	if err != nil {
		r.failed++
		r.failures = append(r.failures, fmt.Sprintf("--- go\n    %v\n", err))
	}
}

// end prints the failures, why tests were skipped, and the counts.
func (r *report) end(interrupted bool) {
	if len(r.failures) > 0 {
		fmt.Fprint(r.out, "\nfailed:\n")
		for _, f := range r.failures {
			fmt.Fprintf(r.out, "\n%s", f)
			if !strings.HasSuffix(f, "\n") {
				fmt.Fprintln(r.out)
			}
		}
	}
	if r.skipped > 0 {
		fmt.Fprint(r.out, "\nskipped:\n")
		whys := slices.SortedFunc(maps.Keys(r.skips), func(a, b string) int {
			return cmp.Or(cmp.Compare(r.skips[b].tests, r.skips[a].tests), cmp.Compare(a, b))
		})
		for _, why := range whys {
			s := r.skips[why]
			fmt.Fprintf(r.out, "%5d %s (%s)\n", s.tests, why,
				strings.Join(slices.Sorted(maps.Keys(s.packages)), " "))
		}
	}
	fmt.Fprintln(r.out)
	if interrupted {
		fmt.Fprintln(r.out, "interrupted: what follows counts the tests that had begun")
	}
	if r.long > 0 {
		fmt.Fprintf(r.out, "%d tests are %s\n", r.long, testkit.LongReason)
	}
	last := tally(r.passed, r.failed, r.skipped)
	if r.loud > 0 {
		last += fmt.Sprintf(", of them %d because the machine was too loud", r.loud)
	}
	fmt.Fprintln(r.out, last)
}
