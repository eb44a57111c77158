// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"strings"

	"github.com/profinfer/profinfer/internal/format"
	"github.com/profinfer/profinfer/profile/roof"
	"github.com/profinfer/profinfer/profile/summary"
)

// roof says which peaks the verdicts compare with, by number of threads.
func (p *page) roof(s *summary.Stat) {
	k := s.Peaks
	if k == nil || len(s.Phases) == 0 {
		return
	}
	p.blank()
	if len(k.Roofs) == 0 {
		why := k.Missing
		if why == "" {
			why = "nothing was seen that they could be compared with"
		}
		text := "No roofline of this machine: " + p.o.clean(why) + "."
		p.line(text, dim)
		return
	}
	said := 0
	for i := range k.Roofs {
		if i > 0 && k.Roofs[i].Threads == k.Roofs[i-1].Threads {
			continue
		}
		if said++; said > 4 { // numbers of threads
			break
		}
		p.line(roofText(k.Roofs[i:], p.o.clean(k.Source)), dim)
	}
	if k.Doubtful {
		p.line("Other work disturbed the measurement of these peaks: the real ones may be higher. On a quiet machine: profinfer peaks", warn)
	}
}

// roofText: "Roofline of 2 threads: 40.6 GB/s (31.0 in one stream a thread), 315 GFLOP/s f32, 1502 GOP/s int8;
// measured 2026-11-21".
func roofText(rs []roof.UsedRoof, source string) string {
	var facts, units []string
	threads := rs[0].Threads
	for i := range rs {
		r := &rs[i]
		if r.Threads != threads {
			break
		}
		if i == 0 && r.GBps != nil {
			read := format.Decimal(r.GBps) + " GB/s"
			if r.StreamGBps != nil {
				read += " (" + format.Decimal(r.StreamGBps) + " with one stream per thread)"
			}
			facts = append(facts, read)
		}
		if r.GFlops == nil {
			continue
		}
		said := format.Decimal(r.GFlops) + " GFLOP/s"
		switch r.Units {
		case "int8":
			said = format.Decimal(r.GFlops) + " GOP/s int8"
		case "":
		default:
			said += " " + r.Units
		}
		told := false
		for _, u := range units {
			told = told || u == said
		}
		if !told {
			units = append(units, said)
		}
	}
	return fmt.Sprintf("Roofline of %s: %s; %s.", format.Plural(int64(threads), "thread"),
		strings.Join(append(facts, units...), ", "), source)
}

// rowBounds are the words in a table's column.
var rowBounds = map[summary.Bound]string{
	summary.BoundMemory: "mem", summary.BoundCompute: "comp", summary.BoundWait: "barrier",
	summary.BoundDisk: "disk", summary.BoundInterference: "contention", summary.BoundMixed: "mixed",
}

// ofPeak says how near a row is to the roofline, or what else bounds it: "62 % mem", "24 % comp",
// "contention". A ? where the confidence is low.
func ofPeak(v *summary.RowVerdict) string {
	if v == nil {
		return "-"
	}
	word := rowBounds[v.Bound]
	switch part, of := nearest(v); {
	case (v.Bound == summary.BoundMemory || v.Bound == summary.BoundCompute) && part != nil:
		if v.Bound == summary.BoundMemory && v.OfPeakGBps != nil {
			part = v.OfPeakGBps
		} else if v.Bound == summary.BoundCompute && v.OfPeakFlops != nil {
			part = v.OfPeakFlops
		}
		word = format.Percent(part) + " " + word
	case word == "" && part != nil:
		return format.Percent(part) + " " + of
	}
	if word == "" {
		return "-"
	}
	if v.Sure == summary.SureLow {
		word += "?"
	}
	return word
}

// nearest is how near a row is to the nearer roof, nil if unknown.
func nearest(v *summary.RowVerdict) (part *float64, of string) {
	if v.OfPeakGBps == nil || v.OfPeakFlops != nil && *v.OfPeakFlops > *v.OfPeakGBps {
		return v.OfPeakFlops, "comp"
	}
	return v.OfPeakGBps, "mem"
}
