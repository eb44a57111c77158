// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/profile"
)

// experts annotates an operator with what its tokens chose: the experts themselves of one token, of several how
// many different ones.
func (n *notes) experts(c *profile.Choice) {
	if c == nil {
		return
	}
	what := "experts"
	if c.Slots {
		what = "expert_slots" // places in a cache of the engine's
	}
	if c.Tokens == 1 && c.Seen == 1 {
		var b strings.Builder
		for i, e := range c.Chosen {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(strconv.Itoa(int(e)))
		}
		n.text(what, b.String())
	} else if c.Seen == c.Tokens {
		n.int(what+"_different", int64(c.Distinct()))
		n.int(what+"_tokens", int64(c.Tokens))
	}
	if c.Total > 0 && !c.Slots {
		n.int("experts_of", int64(c.Total))
	}
}
