// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/facts"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/terminal"
)

// doSlow is `stat --slow`.
func doSlow(in string, opt stat.Options, json, verbose bool) error {
	r, err := trace.Open(in)
	if err != nil {
		return err
	}
	defer r.Close()
	opt.Book = &facts.Book{}
	stat := stat.New(opt)
	slow := slow.New(slow.Options{Phases: opt.Phases, PID: opt.PID, Top: opt.Top, Book: opt.Book})
	read := showProgress(r)
	h, err := profile.Replay(r, profile.Tee(stat, slow))
	read()
	if err != nil {
		return err
	}
	s, x := stat.Finish(h), slow.Finish(h)
	w := results(os.Stdout, json)
	if json {
		x.Run = &s.Run
		err = terminal.JSON(w, x)
	} else {
		o := terminal.Detect(os.Stdout)
		o.File, o.Verbose = in, verbose
		err = terminal.Slow(w, s, x, o)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}
