// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/slow"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/profile/summary"
	"github.com/profinfer/profinfer/trace"
)

// crowdOf records a run and reads it.
func crowdOf(t *testing.T, c *profiletest.Crowd, allowed string) (*summary.Stat, *slow.Slow) {
	t.Helper()
	var buf bytes.Buffer
	err := profiletest.Record(&buf, func(r *profiletest.Recorder) {
		r.Allowed = allowed
		r.Head = func(m *trace.Meta) { m.Cores = c.CPUs }
	}, func(r *profiletest.Recorder, _ *profiletest.Player) error { return c.Play(r) })
	if err != nil {
		t.Fatal(err)
	}
	rd, err := trace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	stat, slow := stat.New(stat.Options{}), slow.New(slow.Options{Top: 100})
	h, err := profile.Replay(rd, profile.Tee(stat, slow))
	if err != nil {
		t.Fatal(err)
	}
	return stat.Finish(h), slow.Finish(h)
}

const crowdPID = 500

func other(tid int32, comm string) *profiletest.Other {
	return &profiletest.Other{TID: tid, Comm: comm, Prio: 120}
}

// apart gives threads a CPU each.
func apart(n int) []profiletest.Seat {
	s := make([]profiletest.Seat, n)
	for i := range s {
		s[i].Thread = i + 1
	}
	return s
}

// sharing has threads from..to take turns of 4 ticks on some CPUs.
func sharing(seats []profiletest.Seat, tick, threads int, cpus ...int) {
	for i, cpu := range cpus {
		seats[cpu] = profiletest.Seat{Thread: (tick/4+i*threads/len(cpus))%threads + 1}
	}
}

// Who has the CPUs that threads may use is named, with the time that it took from them; that threads share
// CPUs is said only where nobody else is the cause.
func TestWhoTookCPUs(t *testing.T) {
	sh, yes := other(77, "sh"), other(78, "yes")
	nice := &profiletest.Other{TID: 79, Comm: "updatedb", Prio: 139}
	softirq := &profiletest.Other{TID: 18, Comm: "ksoftirqd/1", Prio: 120, Kernel: true}
	within := func(tick int) bool { return tick >= 200 && tick < 500 }
	// on has another one on a CPU, and two threads share the other.
	on := func(who *profiletest.Other, cpu int) func(int) []profiletest.Seat {
		return func(tick int) []profiletest.Seat {
			s := apart(2)
			if within(tick) {
				s[cpu] = profiletest.Seat{Other: who}
				sharing(s, tick, 2, 1-cpu)
			}
			return s
		}
	}
	for _, c := range []struct {
		what    string
		crowd   profiletest.Crowd
		allowed string
		comms   []string // of others, to be named; the first one in sentences
		text    string   // stands in the finding
		not     string   // stands in no verdict or finding
		own     bool     // the team's own threads are a cause too
	}{
		{what: "one on CPU 1", crowd: profiletest.Crowd{Seats: on(sh, 1)}, allowed: "0-1",
			comms: []string{"sh"}, text: "sh (77) held CPU 1 for ", not: "same team"},
		{what: "one on CPU 0", crowd: profiletest.Crowd{Seats: on(sh, 0)}, allowed: "0-1",
			comms: []string{"sh"}, text: "sh (77) held CPU 0 for ", not: "same team"},
		{what: "one that migrates", crowd: profiletest.Crowd{Seats: func(tick int) []profiletest.Seat {
			return on(sh, tick/50%2)(tick)
		}}, allowed: "0-1", comms: []string{"sh"}, text: "sh (77) held CPUs 0-1 for ", not: "same team"},
		{what: "two at once", crowd: profiletest.Crowd{Threads: 4, CPUs: 4,
			Seats: func(tick int) []profiletest.Seat {
				s := apart(4)
				if within(tick) {
					s[2], s[3] = profiletest.Seat{Other: sh}, profiletest.Seat{Other: yes}
					sharing(s, tick, 4, 0, 1)
				}
				return s
			}}, allowed: "0-3", comms: []string{"sh", "yes"}, text: "; other processes for ",
			not: "same team"},
		{what: "two at once, on all CPUs", crowd: profiletest.Crowd{Seats: func(tick int) []profiletest.Seat {
			s := apart(2)
			if within(tick) { // a turn of the team's in five on one CPU: both wait for that
				s[0], s[1] = profiletest.Seat{Other: sh}, profiletest.Seat{Other: yes}
				if tick%5 == 0 {
					sharing(s, tick/5, 2, 0)
				}
			}
			return s
		}}, allowed: "0-1", comms: []string{"sh", "yes"}, text: " for ", not: "same team"},
		{what: "nice 19", crowd: profiletest.Crowd{Seats: on(nice, 1)}, allowed: "0-1",
			comms: []string{"updatedb"}, text: "updatedb (79) held CPU 1 for ", not: "same team"},
		{what: "softirqs in their thread", crowd: profiletest.Crowd{Seats: on(softirq, 1)}, allowed: "0-1",
			comms: []string{"ksoftirqd/1"},
			text:  "the kernel's ksoftirqd/1 held CPU 1 for ", not: "same team"},
		{what: "one that was there before", crowd: profiletest.Crowd{Untold: true, Seats: on(sh, 1)},
			allowed: "0-1", comms: []string{"sh"},
			text: "sh (77) held CPU 1 for ", not: "same team"},
		{what: "an affinity of one CPU", crowd: profiletest.Crowd{Seats: func(tick int) []profiletest.Seat {
			s := make([]profiletest.Seat, 2)
			sharing(s, tick, 2, 0)
			if within(tick) {
				s[1] = profiletest.Seat{Other: sh}
			}
			return s
		}}, allowed: "0", own: true,
			text: "2 engine threads share 1 CPU (oversubscription; CPU affinity leaves out the other 1)", not: "sh ("},
		{what: "more threads than CPUs",
			crowd: profiletest.Crowd{Threads: 4, Seats: func(tick int) []profiletest.Seat {
				s := make([]profiletest.Seat, 2)
				sharing(s, tick, 4, 0, 1)
				return s
			}}, allowed: "0-1", own: true, text: "4 engine threads share 2 CPUs (oversubscription)",
			not: "held"},
		{what: "more threads than CPUs, and another",
			crowd: profiletest.Crowd{Threads: 4, Seats: func(tick int) []profiletest.Seat {
				s := make([]profiletest.Seat, 2)
				sharing(s, tick, 4, 0, 1)
				if within(tick) {
					s[1] = profiletest.Seat{Other: sh}
				}
				return s
			}}, allowed: "0-1", comms: []string{"sh"}, own: true,
			text: "4 engine threads share 2 CPUs (oversubscription)"},
		{what: "one beside an idle CPU", crowd: profiletest.Crowd{Seats: func(tick int) []profiletest.Seat {
			s := apart(2)
			if within(tick) {
				s[1] = profiletest.Seat{}
				sharing(s, tick, 2, 0)
			}
			return s
		}}, allowed: "0-1", own: true, text: "although another that they may use was idle", not: "held"},
		{what: "nobody", crowd: profiletest.Crowd{Seats: func(int) []profiletest.Seat {
			return apart(2)
		}}, allowed: "0-1", not: "CPU"},
		// Older recordings do not tell which CPUs threads may use.
		{what: "one on CPU 1, an older recording", crowd: profiletest.Crowd{Seats: on(sh, 1)}, own: true,
			text: "engine threads shared CPUs", not: "shared the other CPUs"},
	} {
		t.Run(c.what, func(t *testing.T) {
			x := c.crowd
			x.PID, x.Steps, x.Work = crowdPID, 60, 10
			x.Threads, x.CPUs = max(x.Threads, 2), max(x.CPUs, 2)
			stat, slowSteps := crowdOf(t, &x, c.allowed)
			var said []string
			for i := range stat.Verdicts {
				said = append(said, stat.Verdicts[i].Text)
			}
			finding := slices.IndexFunc(stat.Findings, func(f summary.Finding) bool {
				return f.Kind == "contention" || f.Kind == "disturbed_steps"
			})
			for _, f := range stat.Findings {
				said = append(said, f.Text)
			}
			if (finding >= 0) != (c.text != "") || finding >= 0 &&
				!strings.Contains(stat.Findings[finding].Text, c.text) {
				t.Errorf("%q is not said:\n%s", c.text, strings.Join(said, "\n"))
			}
			if c.not != "" && strings.Contains(strings.Join(said, "\n"), c.not) {
				t.Errorf("%q is said:\n%s", c.not, strings.Join(said, "\n"))
			}
			for _, comm := range c.comms {
				var there int64
				for _, th := range stat.Threads {
					for _, r := range th.Instead {
						if r.Comm == comm && !r.Own {
							there += r.Dur
						}
					}
				}
				i := slices.IndexFunc(slowSteps.Interference.By, func(y slow.Interferer) bool {
					return y.Comm == comm
				})
				if i < 0 {
					t.Errorf("%s is not named: %+v", comm, slowSteps.Interference.By)
					continue
				}
				by, took := slowSteps.Interference.By[i], x.Taken[comm]
				if took == 0 || by.Ran*10 < took*8 || by.Ran > took*3 || there*10 < took*8 || by.Cost <= 0 {
					t.Errorf("%s took %d ms: threads say %d ms, --slow %d ms, cost %d ms", comm, took/1e6,
						there/1e6, by.Ran/1e6, by.Cost/1e6)
				}
				if by.Kernel != (comm == "ksoftirqd/1") || by.Held == nil || *by.Held*10 < took*8 {
					t.Errorf("%+v", by)
				}
			}
			own := slices.IndexFunc(slowSteps.Interference.By, func(y slow.Interferer) bool { return y.Own })
			by := slowSteps.Interference
			if has := own >= 0 && by.By[own].Ran > by.Ran/10; has != c.own {
				t.Errorf("the team's own threads: %v, want %v: %+v", has, c.own, slowSteps.Interference.By)
			}
			if c.what == "nobody" && (len(slowSteps.Interference.By) > 0 || slowSteps.Slow > 0) {
				t.Errorf("on a quiet run: %+v", slowSteps.Interference)
			}
		})
	}
}
