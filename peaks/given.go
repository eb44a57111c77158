// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// most is the highest plausible rate, in GB/s and GFLOP/s: 10^9 of them are an exabyte per second.
const most = 1e9

// ParseBandwidth parses a bandwidth given by hand, in GB/s: 51.2, 51.2GB/s, 900 MB/s, 1.2TB/s, 47.7GiB/s.
func ParseBandwidth(s string) (gbps float64, err error) {
	v, ok := parseRate(s, "b", true)
	if !ok {
		return 0, fmt.Errorf("%q is no bandwidth in GB/s, as 51.2 or 51.2GB/s", s)
	}
	return v, nil
}

// ParseFlops parses a compute rate given by hand, in GFLOP/s: 250, 250GFLOP/s, 1.2TFLOPS, 1.2T.
func ParseFlops(s string) (gflops float64, err error) {
	v, ok := parseRate(s, "flop", false)
	if !ok {
		return 0, fmt.Errorf("%q is no compute rate in GFLOP/s, as 250 or 1.2TFLOP/s", s)
	}
	return v, nil
}

// parseRate parses a number, a prefix (none: G) and an optional unit.
func parseRate(s, unit string, binary bool) (float64, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(s)
	}
	v, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0, false
	}
	rest := strings.TrimSpace(s[end:])
	power, prefix := 3, false
	if rest != "" {
		if i := strings.IndexByte("kmgtp", rest[0]); i >= 0 {
			power, rest, prefix = i+1, rest[1:], true
		} else if strings.HasPrefix(rest, unit) {
			power = 0
		}
	}
	base := 1000.0
	if binary && prefix && strings.HasPrefix(rest, "ib") {
		base, rest = 1024, rest[1:]
	}
	switch rest {
	case "", unit, unit + "/s", unit + "s", unit + "s/s", unit + "ps":
	default:
		return 0, false
	}
	v *= math.Pow(base, float64(power)) / 1e9
	return v, v > 0 && v <= most
}
