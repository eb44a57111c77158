// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"

	"github.com/profinfer/profinfer/probe"
)

var phaseBits = map[string]uint32{"prefill": probe.PhasePrefill, "decode": probe.PhaseDecode,
	"encode": probe.PhaseEncode, "unknown": probe.PhaseUnknown}

// CheckFilters validates the filters before anything is started.
func (o *Options) CheckFilters() error {
	for _, p := range o.Phases {
		if phaseBits[p] == 0 {
			return fmt.Errorf("no phase is called %q: it is one of prefill, decode, encode, unknown", p)
		}
	}
	for _, op := range o.Ops {
		if op == "" || strings.ContainsAny(op, " =+") {
			return fmt.Errorf("%q is no operator: name them as profinfer stat --by op does (MUL_MAT,FLASH_ATTN_EXT)", op)
		}
	}
	for _, tid := range o.TIDs {
		if tid <= 0 {
			return fmt.Errorf("%d is no thread", tid)
		}
	}
	return nil
}

func (o *Options) filter() (f probe.Filter) {
	f.Ops = len(o.Ops) > 0
	for _, p := range o.Phases {
		f.Phases |= phaseBits[p]
	}
	for _, tid := range o.TIDs {
		f.TIDs = append(f.TIDs, int32(tid))
	}
	return f
}
