// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/profinfer/profinfer/demo"
	"github.com/profinfer/profinfer/docs/sample"
	"github.com/profinfer/profinfer/internal/clean"
	"github.com/profinfer/profinfer/internal/safeopen"
	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/record"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/terminal"
)

// demoModels are recorded one after another.
var demoModels = []string{"llama-small", "moe-small"}

// demoDownload is what the demo downloads if this machine has no llama.cpp, in MB: 11 of package lists, as
// reported by apt-get update, and 19 of packages (Debian's llama.cpp 0.7.0, amd64).
const demoDownload = 30

// demoRun is one run of the demo.
type demoRun struct {
	out, cache string
	threads    int
	bar        *stage
}

func (d *demoRun) run(ctx context.Context) error {
	if err := probe.Check(); err != nil { // before anything is downloaded
		return d.sample(err)
	}
	if d.cache == "" {
		var err error
		if d.cache, err = demo.Cache(); err != nil {
			return err
		}
	}
	if err := d.announce(ctx); err != nil {
		return err
	}
	d.say("The engine")
	e, err := demo.Provide(ctx, d.cache, d.bar.show)
	d.bar.clear()
	switch {
	case ctx.Err() != nil:
		return interrupted()
	case err != nil:
		return d.sample(fmt.Errorf("there is no llama.cpp here, and none can be fetched: %w", err))
	}
	where := "of this machine"
	if e.Root != "" {
		where = "Debian's, in " + e.Root
	}
	say("llama.cpp %s: %s", where, e.Version)
	if err := safeopen.MkdirAll(d.out); err != nil {
		return err
	}
	top, err := (&roofFlags{}).roof()
	if err != nil {
		return err
	}
	var recorded []string
	for _, name := range demoModels {
		trace, err := d.record(ctx, e, name, top)
		var missing *probe.Missing
		switch {
		case ctx.Err() != nil:
			return interrupted()
		case errors.As(err, &missing):
			return d.sample(err)
		case err != nil:
			return err
		}
		recorded = append(recorded, trace)
	}
	d.say("HTML report and Perfetto trace")
	for _, trace := range recorded {
		if err := demoExports(trace, top); err != nil {
			return err
		}
	}
	d.next(recorded...)
	return nil
}

func interrupted() error { return &statusError{130, errors.New("interrupted")} }

func (d *demoRun) say(format string, a ...any) { say("\n== "+format, a...) }

// announce tells the user what is about to happen to this machine.
func (d *demoRun) announce(ctx context.Context) error {
	root := filepath.Join(d.cache, demo.DebianFolder)
	fetches := fmt.Sprintf("Debian's llama.cpp with its libraries, about %d MB, into %s; nothing is installed on this system", demoDownload, root)
	var e demo.Engine
	remove := []string{d.out}
	if _, ok := demo.Installed(ctx); ok {
		fetches = "nothing: this machine has a llama.cpp (llama-bench)"
		remove = append(remove, e.ModelDir(filepath.Join(d.cache, "models")))
	} else {
		if there, ok := demo.DebianInstalled(root, demo.Tools); ok {
			fetches = "nothing: Debian's llama.cpp is in " + root + " already"
			e = there
		}
		e.Root = root
		remove = append(remove, root, root+".apt", root+".lock")
	}
	var size int64
	for _, name := range demoModels {
		spec, err := demo.Model(name)
		if err != nil {
			return err
		}
		n, err := spec.Size()
		if err != nil {
			return err
		}
		size += n
	}
	say(`profinfer demo records a real llama.cpp on two models: a dense one, and a mixture of experts.
  fetches  %s
  makes    two models with random weights, %d MB, in %s
  takes    a minute or two
  leaves   recordings, HTML reports and Perfetto traces in %s; the engine and the models, for the next time
  remove   rm -rf %s`, fetches, size/1e6, e.ModelDir(filepath.Join(d.cache, "models")), d.out, strings.Join(remove, " "))
	return nil
}

// record makes a model, records a benchmark of it, prints the statistics and returns the recording's file
// name.
func (d *demoRun) record(ctx context.Context, e demo.Engine, name string, top *machineRoof) (string, error) {
	spec, err := demo.Model(name)
	if err != nil {
		return "", err
	}
	d.say("%s: %s", name, spec.About)
	path, err := demo.Ensure(ctx, e.ModelDir(filepath.Join(d.cache, "models")), spec, d.bar.show)
	d.bar.clear()
	if err != nil {
		return "", err
	}
	inside, err := e.Inside(path)
	if err != nil {
		return "", err
	}
	trace := filepath.Join(d.out, name+".pinf")
	opt := demoOptions(trace, e.Command("llama-bench", "-m", inside, "-t", fmt.Sprint(d.threads), "-p", "128",
		"-n", "64", "-r", "1"))
	say("$ profinfer record -o %s -- %s", trace, strings.Join(opt.Command, " "))
	res, err := runRecording(ctx, opt, false)
	switch {
	case err != nil:
		return "", err
	case res.Interrupted:
		return "", interrupted()
	case res.Status != 0:
		return "", fmt.Errorf("llama-bench ended with status %d", res.Status)
	}
	say("$ profinfer stat %s", trace)
	return trace, demoStat(trace, top)
}

// demoOptions are the defaults of `record -o trace -- command`.
func demoOptions(trace string, command []string) record.Options {
	opt := record.Defaults()
	opt.Output, opt.Command, opt.Tool = trace, command, version()
	return opt
}

func demoStat(trace string, top *machineRoof) error {
	o := terminal.Detect(os.Stdout)
	o.File = trace
	if err := doStat(trace, stat.Options{By: facts.ByWeight}, top, false, o); err != nil {
		return err
	}
	fmt.Println()
	return nil
}

func demoExports(trace string, top *machineRoof) error {
	base := strings.TrimSuffix(trace, ".pinf")
	if err := doReport([]string{trace}, base+".html", false, top, profile.Part{}); err != nil {
		return err
	}
	return doExport(trace, "", "perfetto", "", profile.Part{})
}

// sample shows the recording embedded in the program, and says why none was made here. That is not a failure:
// whoever tries profinfer in a container wants to see what it does.
func (d *demoRun) sample(why error) error {
	say("profinfer: this machine cannot record: %s", oneLine(why))
	if err := safeopen.MkdirAll(d.out); err != nil {
		return err
	}
	d.say("A recording that comes with profinfer: %s", sample.About)
	file := filepath.Join(d.out, sample.Name+"-sample.pinf")
	if err := safeopen.Write(file, false, trace.Is, func(w io.Writer) error {
		_, err := w.Write(sample.Recording)
		return err
	}); err != nil {
		return err
	}
	top := &machineRoof{why: "the recording has none"} // it has peaks, but not those of this machine
	say("$ profinfer stat %s", file)
	if err := demoStat(file, top); err != nil {
		return err
	}
	d.say("HTML report and Perfetto trace")
	if err := demoExports(file, top); err != nil {
		return err
	}
	d.next(file)
	return nil
}

// oneLine says in one line what is wrong and what to do. From other programs' output it keeps the beginning
// and the last line, which mostly states the reason.
func oneLine(err error) string {
	var missing *probe.Missing
	if errors.As(err, &missing) {
		return missing.What + ": " + missing.Remedy
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	first, last := strings.TrimSpace(lines[0]), strings.TrimSpace(lines[len(lines)-1])
	if len(lines) == 1 {
		return first
	}
	return strings.TrimSuffix(first, ":") + ": " + last
}

// next says what to do with recordings; its last line is the page to open.
func (d *demoRun) next(traces ...string) {
	first := traces[0]
	base := strings.TrimSuffix(first, ".pinf")
	page := base + ".html"
	if abs, err := filepath.Abs(page); err == nil {
		page = abs
	}
	program := os.Args[0]
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "Next:")
	for _, row := range [][2]string{
		{program + " stat --by op " + first, "operators by type; also --by layer, block, thread, step"},
		{program + " stat --slow " + first, "slow steps, and which processes preempted threads"},
		{"sudo " + program + " record -- llama-bench -m YOUR.gguf",
			"your own model; then: " + program + " stat"},
		{"sudo " + program + " record -p $(pidof llama-server) --duration 10s", "a running server"},
		{program + " doctor", "what this machine can record"},
		{base + ".pftrace.gz", "opens in https://ui.perfetto.dev"},
	} {
		fmt.Fprintf(t, "  %s\t%s\n", clean.Message(row[0]), row[1])
	}
	for _, trace := range traces[1:] {
		fmt.Fprintf(t, "  %s.html\t%s\n", clean.Message(strings.TrimSuffix(trace, ".pinf")),
			"the other model's report")
	}
	_ = t.Flush()
	fmt.Printf("HTML report, to open in a browser: %s\n", clean.Message(page))
}

// stage shows the progress of a download or of making a model.
type stage struct {
	inPlace
	tty   bool
	what  string
	last  time.Time
	began time.Time
}

func (s *stage) show(what string, done, total int64) {
	if what != s.what {
		s.clear()
		s.what, s.began = what, time.Now()
		if !s.tty {
			say("%s", what)
		}
	}
	if !s.tty || time.Since(s.began) < 2*time.Second || time.Since(s.last) < 200*time.Millisecond {
		return
	}
	s.last, s.shown = time.Now(), true
	if total > 0 {
		sayInPlace("%s  %d %% of %d MB", what, 100*done/total, total/1e6)
	} else {
		sayInPlace("%s", what)
	}
}
