// SPDX-License-Identifier: Apache-2.0

// Package testkit says which tests run when: those that are for `make test-all` only, and those whose result
// depends on what else the machine does. It gives tests random numbers that can be had again.
package testkit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// LongReason is why Long skips. testrun counts these tests by themselves.
const LongReason = "for make test-all"

// Loud begins why Quiet skips. testrun counts these tests, and CI limits them.
const Loud = "machine too loud: "

// All reports whether everything is tested, as `make test-all` does: PROFINFER_LONG=1.
func All() bool { return os.Getenv("PROFINFER_LONG") == "1" }

// Long skips a test that takes long and is not needed to decide whether a change is right, unless everything
// is tested.
func Long(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip(LongReason)
	}
}

// Rand returns random numbers. Their seed is in the test's output; PROFINFER_SEED gives it again.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("PROFINFER_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("PROFINFER_SEED=%q is no number: %v", s, err)
		}
	}
	t.Logf("PROFINFER_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
