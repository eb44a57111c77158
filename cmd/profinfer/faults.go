// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/profinfer/profinfer/probe"
	"github.com/profinfer/profinfer/record"
)

func faultsFlag(c *cobra.Command, to *string) {
	f := c.Flags()
	f.StringVar(to, "faults", "off",
		"record page faults with the tensor they hit, and what of the model is in memory: major (and minor ones that read ahead), all, off")
	f.Lookup("faults").NoOptDefVal = "major"
}

func faulting(opt *record.Options, which string) error {
	switch which {
	case "off":
		opt.Faults = probe.FaultsOff
	case "major":
		opt.Faults = probe.FaultsMajor
	case "all":
		opt.Faults = probe.FaultsAll
	default:
		return usage("--faults is major, all or off, not %q", which)
	}
	return nil
}
