// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/internal/testkit"
	"github.com/profinfer/profinfer/profile/profiletest"
)

// adds are the trials on which something is drawn that no other of them has: they are looked at in every run.
var adds = []string{"plain", "losses", "processes", "names", "names-only", "offload-names", "experts-names",
	"remote-names", "requests-many"}

// Every view stands every recording: it draws, runs nothing, asks for nothing, and nothing overlaps. The rest
// of the recordings follow in TestLesserTrials.
func TestTrials(t *testing.T) {
	tools(t)
	var p plan
	for i, trial := range profiletest.Trials() {
		if !slices.Contains(adds, trial.Name) {
			continue
		}
		pg := pageOf(t, i, trial)
		// all that the page can do is done to the first, and to names; of the others it is enough to draw
		pg.Thorough = trial.Name == "plain"
		pg.Brief = !pg.Thorough && !strings.HasPrefix(trial.Name, "names")
		p.Pages = append(p.Pages, pg)
	}
	plain, one := load(t, "a.pinf", recorded(t, "plain")), load(t, "d.pinf", recorded(t, "one-thread"))
	p.Pages = append(p.Pages, page{Name: "compared", URL: write(t, "compared", plain, one),
		Looks: [][3]int{light}})
	suite(t, "views", p)
}

// The same, of all of them, in all looks of the window, and with all that a page can do.
func TestLesserTrials(t *testing.T) {
	testkit.Long(t)
	tools(t)
	var p plan
	for i, trial := range profiletest.Trials() {
		pg := pageOf(t, i, trial)
		switch {
		case trial.Name == "plain":
			pg.Looks = slices.DeleteFunc(slices.Clone(looks), func(l [3]int) bool { return l == pg.Looks[0] })
			pg.Thorough = true
		case slices.Contains(adds, trial.Name) && strings.HasPrefix(trial.Name, "names"):
			continue
		}
		p.Pages = append(p.Pages, pg)
	}
	// Two that are compared: the same, other names, and nothing at all.
	plain, names, empty := load(t, "a.pinf", recorded(t, "plain")), load(t, "b.pinf", recorded(t, "names")),
		load(t, "c.pinf", recorded(t, "empty"))
	one := load(t, "d.pinf", recorded(t, "one-thread"))
	p.Pages = append(p.Pages, page{Name: "compared", URL: write(t, "compared", plain, one),
		Looks: [][3]int{smdrk}, Thorough: true},
		page{Name: "compared-names", URL: write(t, "compared-names", plain, names), Looks: [][3]int{small}},
		page{Name: "compared-empty", URL: write(t, "compared-empty", plain, empty), Looks: [][3]int{small}},
		page{Name: "empty-compared", URL: write(t, "empty-compared", empty, names, plain),
			Looks: [][3]int{dark}})
	suite(t, "views", p)
}

var looks = [][3]int{small, dark, smdrk, light}

// pageOf is the page of the i-th trial, in one of the looks.
func pageOf(t *testing.T, i int, trial profiletest.Trial) page {
	t.Helper()
	file := trial.Name + ".pinf"
	pg := page{Name: trial.Name, Looks: looks[i%len(looks):][:1]}
	switch trial.Name {
	case "names":
		// the file's name is nobody's friend either
		file = `<img src=x onerror=alert(1)></title><script>alert("\u202e")</script>` + "\u202e\x1b[31m.pinf"
		pg.Shows = []string{`<img src=x onerror=alert(1)>`, `__proto__`}
	case "names-only":
		pg.Shows = []string{`</script><script>alert(2)</script>`}
	}
	pg.URL = write(t, trial.Name, load(t, file, recorded(t, trial.Name)))
	return pg
}

// The checks of the other tests see what they have to.
func TestChecks(t *testing.T) {
	testkit.Long(t)
	tools(t)
	suite(t, "checker", plan{Pages: []page{{Name: "plain",
		URL: write(t, "plain", load(t, "plain.pinf", recorded(t, "plain")))}}})
}
