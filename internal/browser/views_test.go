// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"testing"

	"github.com/profinfer/profinfer/profile/profiletest"
)

// Every view stands every recording: it draws, runs nothing, asks for nothing, and nothing overlaps.
func TestTrials(t *testing.T) {
	tools(t)
	var p plan
	looks := [][3]int{small, dark, smdrk, light}
	for i, trial := range profiletest.Trials() {
		if trial.Large && testing.Short() {
			continue
		}
		file := trial.Name + ".pinf"
		pg := page{Name: trial.Name, Looks: looks[i%len(looks):][:1]}
		switch trial.Name {
		case "plain":
			pg.Looks, pg.Thorough = looks, true
		case "names":
			// the file's name is nobody's friend either
			file = `<img src=x onerror=alert(1)></title><script>alert("\u202e")</script>` +
				"\u202e\x1b[31m.pinf"
			pg.Shows = []string{`<img src=x onerror=alert(1)>`, `__proto__`}
		case "names-only":
			pg.Shows = []string{`</script><script>alert(2)</script>`}
		}
		pg.URL = write(t, trial.Name, load(t, file, recorded(t, trial.Name)))
		p.Pages = append(p.Pages, pg)
	}
	// Two that are compared: the same, other names, and nothing at all.
	plain, names, empty := load(t, "a.pinf", recorded(t, "plain")), load(t, "b.pinf", recorded(t, "names")),
		load(t, "c.pinf", recorded(t, "empty"))
	one := load(t, "d.pinf", recorded(t, "one-thread"))
	p.Pages = append(p.Pages, page{Name: "compared", URL: write(t, "compared", plain, one),
		Looks: [][3]int{light, smdrk}, Thorough: true},
		page{Name: "compared-names", URL: write(t, "compared-names", plain, names), Looks: [][3]int{small}},
		page{Name: "compared-empty", URL: write(t, "compared-empty", plain, empty), Looks: [][3]int{small}},
		page{Name: "empty-compared", URL: write(t, "empty-compared", empty, names, plain),
			Looks: [][3]int{dark}})
	suite(t, "views", p)
}

// The checks of the other tests see what they have to.
func TestChecks(t *testing.T) {
	tools(t)
	suite(t, "checker", plan{Pages: []page{{Name: "plain",
		URL: write(t, "plain", load(t, "plain.pinf", recorded(t, "plain")))}}})
}
