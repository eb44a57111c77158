// SPDX-License-Identifier: Apache-2.0

// Package sample is a recording of a real llama.cpp, for machines on which none can be made:
// scripts/sample.sh makes it anew, with its HTML report and its Perfetto trace, which lie beside it.
package sample

import _ "embed"

// Name of the recording, without a suffix.
const Name = "llama-1b"

// About says what was recorded, in one line.
const About = "llama-bench on the shape of LLaMA-3.2-1B in Q4_0 (random weights), 2 threads on 2 CPUs"

// Recording is the trace file.
//
//go:embed llama-1b.pinf
var Recording []byte
