// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"testing"

	"github.com/profinfer/profinfer/internal/testkit"
)

// The page is used by keyboard and by links.
func TestKeys(t *testing.T) {
	tools(t)
	a, b := load(t, "a.pinf", recorded(t, "plain")), load(t, "b.pinf", recorded(t, "one-thread"))
	p := plan{Pages: []page{{Name: "one", URL: write(t, "one", a)}}}
	if testkit.All() {
		p.Pages = append(p.Pages, page{Name: "two", URL: write(t, "two", a, b), Brief: true})
	}
	suite(t, "keys", p)
}
