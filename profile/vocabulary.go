// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/ops/ggml"
)

// VocabularyOf returns what the names of an engine mean, by [trace.Process.Engine]; of an engine that is not
// known nothing follows from them. Where a recording does not say whose a definition is ("": its process's
// block is damaged), it is taken for ggml's.
func VocabularyOf(engine string) ops.Vocabulary {
	switch engine {
	case "llama.cpp", "whisper.cpp", "ggml", "":
		return ggml.Vocabulary{}
	}
	return ops.Neutral{}
}

// ofEngine is what knows whose names it has.
type ofEngine struct{ vocabulary ops.Vocabulary }

// Vocabulary is what the names of its engine mean.
func (e ofEngine) Vocabulary() ops.Vocabulary {
	if e.vocabulary == nil {
		return VocabularyOf("")
	}
	return e.vocabulary
}
