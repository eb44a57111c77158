// SPDX-License-Identifier: Apache-2.0

package arm64

import (
	"fmt"
	"slices"
)

// The machines. In the first two a run is the same each time, and a cycle takes as many instructions as said.
var (
	trixie = &machine{kernel: "trixie", pmu: "insn", shift: 1, models: 4,
		steps: slices.Concat(whole(), oracles(4), counting(), suites("insn", 1), refusals())}
	sid = &machine{kernel: "sid", pmu: "insn", shift: 2, models: 2,
		steps: slices.Concat(whole(), oracles(2), counting(), suites("insn", 2))}
	none = &machine{kernel: "sid", pmu: "off", steps: slices.Concat(software(), suites("off", 0))}
	pair = &machine{kernel: "trixie", pmu: "cycles", steps: slices.Concat(crowded(), suites("cycles", 0))}
)

const bench = "llama-bench -m llama-tiny-vocab-q4_0.gguf -r 1 --no-warmup"

// whole is all of record, stat, report and export.
func whole() []step {
	return []step{
		{"whole", "profinfer record -o /out/whole.pinf -- " + bench + " -t 1 -p 8 -n 8"},
		{"stat", "profinfer stat --json -i /out/whole.pinf"},
		{"ops", "profinfer export -i /out/whole.pinf --table ops --format csv"},
		{"nodes", "profinfer export -i /out/whole.pinf --table nodes --format ndjson"},
		{"perfetto", "profinfer export -i /out/whole.pinf --format perfetto -o /out/whole.pftrace"},
		{"report", "profinfer report -i /out/whole.pinf -o /out/whole.html"},
		{"doctor", "profinfer doctor --json"},
		{"sites", "profinfer doctor --json /usr/lib/aarch64-linux-gnu/libllama.so.0 /usr/lib/aarch64-linux-gnu/libggml-base.so.0 /usr/lib/aarch64-linux-gnu/libggml.so.0 /usr/lib/aarch64-linux-gnu/ggml/backends0/*.so"},
	}
}

// oracles are what the engine says it computes, and recordings of the same: a prompt of 5 tokens, then one by
// one.
func oracles(models int) (out []step) {
	for _, m := range parityModels()[:models] {
		for what, prompt := range map[string]string{"prefill": m.prompt(5), "decode": m.prompt(1)} {
			// its log is cut at random as it ends
			out = append(out, step{m.name + "." + what,
				fmt.Sprintf("for i in 1 2 3 4 5 6 7 8; do GGML_SCHED_DEBUG=2 llama-eval-callback -m %s -v --log-colors off "+
					"--no-log-prefix --no-log-timestamps -c 256 -t 1 -p %s -n 1 >/out/%s.%s.log 2>&1 && grep -q \" result_output = \" /out/%[3]s.%[4]s.log && exit 0; done; exit 1", m.file, prompt, m.name, what)})
		}
		out = append(out, step{m.name,
			fmt.Sprintf("profinfer record -o /out/%s.pinf -- llama-completion -m %s -t 1 -n 4 -c 256 --no-warmup -no-cnv --temp 0 -p %s", m.name, m.file, m.prompt(5))})
	}
	return out
}

// counting counts cycles and instructions of each operator.
func counting() []step {
	return []step{
		{"user", "profinfer record -e cycles:u,instructions:u -o /out/user.pinf -- guest count /out/total.json llama-bench -m llama-mixed.gguf -t 1 -r 1 -p 16 -n 8"},
		{"all", "profinfer record -e cycles,instructions -o /out/all.pinf -- " + bench + " -t 1 -p 8 -n 8"},
	}
}

// refusals ask for more than the CPU has, and for what it has not.
func refusals() []step {
	return []step{
		{"nine", "profinfer record -e cycles,instructions,stall_frontend,stall_backend,r0011,r0008,cycles:u,instructions:u,r0008:u -o /out/nine.pinf -- " + bench + " -t 1 -p 32 -n 64"},
		{"raw", "profinfer record -e r0017 -o /out/raw.pinf -- " + bench + " -t 1 -p 8 -n 0"},
		{"question", "profinfer record --counters cache -o /out/question.pinf -- " + bench +
			" -t 1 -p 8 -n 0"},
	}
}

// software records where there are no counters.
func software() []step {
	return []step{
		{"auto", "profinfer record --counters auto -o /out/auto.pinf -- " + bench + " -t 2 -p 8 -n 8"},
		{"cycles", "profinfer record -e cycles -o /out/cycles.pinf -- " + bench + " -t 2 -p 8 -n 0"},
	}
}

// crowded runs two threads where something else spins on one of the two CPUs.
func crowded() []step {
	return []step{
		{"crowded", "taskset 1 sh -c \"while :; do :; done\" & p=$!; profinfer record -e cycles:u -o /out/crowded.pinf -- " + bench + " -t 2 -p 16 -n 24; rc=$?; kill $p; exit $rc"},
	}
}

// suites are tests of packages that ask the kernel, or the CPU.
func suites(pmu string, shift int) []step {
	out := []step{{"pmu.test", fmt.Sprintf("cd /tmp; PROFINFER_PMU=%s PROFINFER_IPC_SHIFT=%d pmu.test -test.v -test.run Here", pmu, shift)}}
	if pmu == "insn" {
		out = append(out, step{"probe.test", "cd /tmp; probe.test -test.v"},
			step{"target.test", "cd /tmp; target.test -test.v -test.run Kernel"},
			// assembly
			step{"peaks.test", "cd /tmp; peaks.test -test.short -test.v -test.run \"Readers|Computers\""})
	}
	return out
}
