// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/profile/stat"
	"github.com/profinfer/profinfer/trace"
)

// What another process computed, as it stands on a terminal; figures from the times that profiletest.Remote
// names.
func TestRemote(t *testing.T) {
	var buf bytes.Buffer
	if err := (profiletest.Remote{Steps: 8}).Record(&buf); err != nil {
		t.Fatal(err)
	}
	r, err := trace.NewReader(&buf)
	if err != nil {
		t.Fatal(err)
	}
	b := stat.New(stat.Options{})
	h, err := profile.Replay(r, b)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Finish(h)
	var out bytes.Buffer
	if err := Stat(&out, s, Options{Width: 200, Unicode: true, Full: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Decode is limited by ggml-rpc-server, another process: it computes 400 µs of the 500 µs",
		"decode 8 8 2,000 500 µs",
		"decode: end to end 500 µs per step, until the host has the results of ggml-rpc-server; submit time alone 40.0 µs per step, 25,000 t/s",
		"decode: RPC by ggml-rpc-server [900]", "70.0 µs (15 %)",
		"decode, on ggml-rpc-server [900], by weight",
	} {
		if !strings.Contains(out.String(), want) &&
			!strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(out.String(), "outside steps") ||
		strings.Contains(out.String(), "submitted that no recorded") {
		t.Error("the server's operators stand outside of steps, or graphs without a server are told")
	}
	if t.Failed() {
		t.Log(out.String())
	}
	s.Remote[0].ServerComm = "\x1b[31mred"
	s.Remote[0].Unlinked = 3
	out.Reset()
	if err := Stat(&out, s, Options{Width: 80, Full: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b") ||
		!strings.Contains(out.String(), "3 graphs submitted that no recorded process was seen to compute") {
		t.Error("a hostile name, or graphs without a server")
	}
}
