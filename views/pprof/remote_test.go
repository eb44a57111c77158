// SPDX-License-Identifier: Apache-2.0

package pprof

import (
	"bytes"
	"strings"
	"testing"

	model "github.com/profinfer/profinfer/profile"
	"github.com/profinfer/profinfer/profile/profiletest"
	"github.com/profinfer/profinfer/trace"
)

// What a server computes for a client's steps stands under its process and their phase.
func TestRemote(t *testing.T) {
	var buf bytes.Buffer
	if err := (profiletest.Remote{Steps: 4}).Record(&buf); err != nil {
		t.Fatal(err)
	}
	m := feed(t, newExporter(), func(s model.Sink) (*model.Header, error) {
		r, err := trace.NewReader(bytes.NewReader(buf.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		return model.Replay(r, s)
	})
	sum := map[string]int64{}
	for _, s := range m.Sample {
		var path strings.Builder
		for i := len(s.Location) - 1; i >= max(0, len(s.Location)-2); i-- {
			path.WriteString("/" + s.Location[i].Line[0].Function.Name)
		}
		sum[path.String()] += s.Value[0]
	}
	if got := sum["/ggml-rpc-server [900]/decode, for another process"]; got != 4*395_000 {
		t.Errorf("the server's time for decode: %d, of %v", got, sum)
	}
	for path := range sum {
		if path == "/ggml-rpc-server [900]/"+frameOutside {
			t.Error("some of it is outside of steps")
		}
	}
}
