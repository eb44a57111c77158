// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/terminal"
)

// doStatThreads compares the counters of several recordings, by number of threads.
func doStatThreads(in []string, opt stat.Options, json bool) error {
	var rs []terminal.Recording
	counted := false
	for _, name := range in {
		s, err := statOf(name, opt)
		if err != nil {
			return err
		}
		counted = counted || len(s.ByThreads) > 0
		rs = append(rs, terminal.Recording{File: name, Stat: s})
	}
	w := results(os.Stdout, json)
	var err error
	switch {
	case json:
		err = terminal.StatThreadsJSON(w, rs)
	case !counted:
		return errors.New("none of these recordings has counters that tell anything beside one another\n  record cycles and instructions, where the machine counts them: profinfer record --counters auto -- COMMAND")
	default:
		err = terminal.StatThreads(w, rs, terminal.Detect(os.Stdout))
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

func statOf(name string, opt stat.Options) (*summary.Stat, error) {
	r, err := trace.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	opt.Pool = &profile.OpPool{}
	b := stat.New(opt)
	read := showProgress(r)
	h, err := profile.ReplayReusing(r, b, opt.Pool)
	read()
	if err != nil {
		return nil, err
	}
	return b.Finish(h), nil
}
