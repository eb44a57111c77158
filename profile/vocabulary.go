// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"github.com/profinfer/profinfer/profile/ops"
	"github.com/profinfer/profinfer/profile/ops/ggml"
)

// VocabularyOf returns what an engine's names mean, by [trace.Process.Engine]. Names of an unknown engine
// have no meaning. If a recording does not say which engine a definition belongs to ("": its process's block
// is damaged), ggml is assumed.
func VocabularyOf(engine string) ops.Vocabulary {
	switch engine {
	case "llama.cpp", "whisper.cpp", "ggml", "":
		return ggml.Vocabulary{}
	}
	return ops.Neutral{}
}

// ofEngine holds the vocabulary of the engine that a name belongs to.
type ofEngine struct{ vocabulary ops.Vocabulary }

// Vocabulary returns what the names of its engine mean.
func (e ofEngine) Vocabulary() ops.Vocabulary {
	if e.vocabulary == nil {
		return VocabularyOf("")
	}
	return e.vocabulary
}
