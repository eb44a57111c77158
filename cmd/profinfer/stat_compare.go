// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
	"github.com/profinfer/profinfer/views/terminal"
)

// doCompare compares several recordings.
func doCompare(in []string, opt stat.Options, json bool) error {
	var rs []terminal.Recording
	for _, name := range in {
		s, err := statOf(name, opt)
		if err != nil {
			return err
		}
		rs = append(rs, terminal.Recording{File: name, Stat: s})
	}
	w := results(os.Stdout, json)
	var err error
	if json {
		err = terminal.CompareJSON(w, rs)
	} else {
		err = terminal.Compare(w, rs, terminal.Detect(os.Stdout))
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
