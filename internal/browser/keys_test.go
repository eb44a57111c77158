// SPDX-License-Identifier: Apache-2.0

package browser

import "testing"

// The page is used by keyboard and by links.
func TestKeys(t *testing.T) {
	tools(t)
	a, b := load(t, "a.pinf", recorded(t, "plain")), load(t, "b.pinf", recorded(t, "one-thread"))
	suite(t, "keys", plan{Pages: []page{{Name: "one", URL: write(t, "one", a)},
		{Name: "two", URL: write(t, "two", a, b), Brief: true, Long: true}}})
}
