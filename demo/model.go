// SPDX-License-Identifier: Apache-2.0

// Package demo provides everything to try profinfer on a machine without an inference engine or a model:
// model files of real architectures with random weights, and llama.cpp as shipped by Debian, in a private
// directory.
package demo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/demo/gguf"
)

// Spec is the shape of a model. Sizes are numbers of elements.
type Spec struct {
	Name   string
	About  string // help for choosing one
	Arch   string // general.architecture: llama, qwen2, qwen2moe, qwen3moe, olmoe, gemma2
	Layers int
	Embd   int // width of the residual stream
	Heads  int
	KV     int  // heads of keys and values
	Head   int  // elements of a head
	FF     int  // width of the feed-forward block; unused with experts
	Tokens int  // size of the vocabulary
	Tied   bool // the output matrix is the token embedding
	// RopeFreqs adds LLaMA 3's table of frequency factors.
	RopeFreqs bool
	RopeBase  float32 // of the position encoding's frequencies; 0: 500000, LLaMA 3's
	Window    int     // tokens that every second layer's attention sees (gemma2)

	Experts  int // 0: dense
	Used     int // experts per token
	ExpertFF int // width of one expert
	SharedFF int // width of the expert that every token uses (qwen2moe)
	// Skew makes tokens prefer some of a layer's experts: the router's rows differ in length, by a factor of
	// e to the power of a normal number with this standard deviation. 0: all experts are chosen almost
	// equally often, unlike with any trained router.
	Skew float64

	Type gguf.Type // of the matrices
	// Mixed alternates layers in F16, Q8_0 and Q4_0: the same matmuls in three types, in one run. Type is
	// then that of the embedding and the output.
	Mixed   bool
	Context int // length the model claims to be trained for
	// Vocabulary writes a byte-level vocabulary, so that programs that tokenize accept the model: one token
	// per byte of a prompt, none added. Without it the file declares that there is none, which is enough for
	// llama-bench.
	Vocabulary bool
	Seed       uint64
}

// Models returns the models that the package knows by name, the user-facing ones first.
func Models() []Spec {
	large := Spec{Name: "llama-1b", About: "the shape of LLaMA-3.2-1B",
		Arch: "llama", Layers: 16, Embd: 2048, Heads: 32, KV: 8, Head: 64, FF: 8192, Tokens: 128256,
		Tied: true, RopeFreqs: true, Type: gguf.Q4_0, Context: 131072}
	small := Spec{Name: "llama-small", About: "half as wide and deep as LLaMA-3.2-1B, small vocabulary",
		Arch: "llama", Layers: 8, Embd: 1024, Heads: 16, KV: 4, Head: 64, FF: 4096, Tokens: 16384,
		RopeFreqs: true, Type: gguf.Q4_0, Context: 32768}
	tiny := Spec{Name: "llama-tiny", About: "dense, for tests",
		Arch: "llama", Layers: 4, Embd: 256, Heads: 4, KV: 2, Head: 64, FF: 768, Tokens: 512,
		Type: gguf.Q4_0, Context: 8192}
	moe := Spec{Name: "moe-small", About: "mixture of experts like Qwen3-MoE, 32 experts of which 4 are used",
		Arch: "qwen3moe", Layers: 4, Embd: 1024, Heads: 16, KV: 4, Head: 64, Tokens: 16384,
		Experts: 32, Used: 4, ExpertFF: 384, Type: gguf.Q4_0, Context: 32768}
	moeTiny := Spec{Name: "moe-tiny",
		About: "mixture of experts like OLMoE, 16 experts of which 4 are used, for tests",
		Arch:  "olmoe", Layers: 3, Embd: 256, Heads: 4, KV: 4, Head: 64, Tokens: 512,
		Experts: 16, Used: 4, ExpertFF: 128, Type: gguf.Q4_0, Context: 8192}
	// The numbers are from the published config.json.
	qwen := Spec{Name: "qwen2.5-1.5b", About: "the shape of Qwen2.5-1.5B",
		Arch: "qwen2", Layers: 28, Embd: 1536, Heads: 12, KV: 2, Head: 128, FF: 8960, Tokens: 151936,
		Tied: true, RopeBase: 1e6, Type: gguf.Q4_0, Context: 131072}
	gemma := Spec{Name: "gemma2-2b", About: "the shape of Gemma 2 2B",
		Arch: "gemma2", Layers: 26, Embd: 2304, Heads: 8, KV: 4, Head: 256, FF: 9216, Tokens: 256000,
		Tied: true, RopeBase: 10000, Window: 4096, Type: gguf.Q4_0, Context: 8192}
	qwenMoE := Spec{Name: "qwen1.5-moe-a2.7b",
		About: "the shape of Qwen1.5-MoE-A2.7B, 60 experts of which 4 are used",
		Arch:  "qwen2moe", Layers: 24, Embd: 2048, Heads: 16, KV: 16, Head: 128, FF: 5632, Tokens: 151936,
		Experts: 60, Used: 4, ExpertFF: 1408, SharedFF: 5632, RopeBase: 1e6, Type: gguf.Q4_0, Context: 8192}
	all := []Spec{large, qwen, gemma, qwenMoE, small, moe, tiny, moeTiny}
	for _, s := range slices.Clone(all) {
		all = append(all, s.WithVocabulary())
	}
	return all
}

// Model returns the model of that name.
func Model(name string) (Spec, error) {
	var names []string
	for _, s := range Models() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Spec{}, fmt.Errorf("there is no model %q: choose one of %s", name, strings.Join(names, ", "))
}

// WithVocabulary returns the same model with a vocabulary, named NAME-vocab.
func (s Spec) WithVocabulary() Spec {
	s.Name += "-vocab"
	s.About += ", with a vocabulary"
	s.Vocabulary = true
	return s
}

// FileName returns a name for the model's file, such as llama-1b-q4_0.gguf.
func (s Spec) FileName() string {
	name := s.Name
	if s.Skew != 0 {
		name += fmt.Sprintf("-skew%g", s.Skew)
	}
	if s.Mixed {
		return name + "-mixed.gguf"
	}
	return fmt.Sprintf("%s-%v.gguf", name, s.Type)
}

var mixedTypes = []gguf.Type{gguf.F16, gguf.Q8_0, gguf.Q4_0}

// Params returns the number of the model's parameters: the elements of its matrices and vectors. The
// embedding counts once if it is also the output matrix.
func (s Spec) Params() (int64, error) {
	f, err := s.file()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, t := range f.Tensors {
		n := int64(1)
		for _, d := range t.Dims {
			n *= int64(d)
		}
		sum += n
	}
	return sum, nil
}

// Size returns the length of the model's file in bytes.
func (s Spec) Size() (int64, error) {
	f, err := s.file()
	if err != nil {
		return 0, err
	}
	return f.Size()
}

// MaxSkew bounds [Spec.Skew]: beyond it a layer uses little more than one set of experts.
const MaxSkew = 4.0

// byteTokens is the minimum number of tokens in a vocabulary: 256 bytes, the end of a text, one pair that
// merges.
const byteTokens = 258

func (s Spec) check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("model %s: %s", s.Name, fmt.Sprintf(format, a...))
	}
	for _, v := range []struct {
		what string
		n    int
	}{{"layers", s.Layers}, {"width", s.Embd}, {"heads", s.Heads}, {"key and value heads", s.KV},
		{"head size", s.Head}, {"vocabulary size", s.Tokens}, {"context length", s.Context}} {
		if v.n < 1 || v.n > 1<<24 {
			return bad("%s is %d, must be 1 to %d", v.what, v.n, 1<<24)
		}
	}
	if s.Layers > 1024 {
		return bad("%d layers, at most 1024", s.Layers)
	}
	if s.Heads%s.KV != 0 {
		return bad("%d heads cannot share %d key and value heads", s.Heads, s.KV)
	}
	if s.Vocabulary && s.Tokens < byteTokens {
		return bad("a vocabulary needs %d tokens, not %d", byteTokens, s.Tokens)
	}
	if s.Experts == 0 && (s.FF < 1 || s.FF > 1<<24) {
		return bad("feed-forward width is %d", s.FF)
	}
	if s.Experts != 0 && (s.Experts < 1 || s.Experts > 4096 || s.Used < 1 || s.Used > s.Experts ||
		s.ExpertFF < 1 || s.ExpertFF > 1<<24 || s.SharedFF < 0 || s.SharedFF > 1<<24) {
		return bad("%d experts of width %d of which %d are used (shared %d) are impossible", s.Experts,
			s.ExpertFF, s.Used, s.SharedFF)
	}
	if s.Skew != 0 && (s.Experts == 0 || !(s.Skew > 0 && s.Skew <= MaxSkew)) {
		return bad("a skew of %g: it is for models with experts, above 0 and at most %g", s.Skew, MaxSkew)
	}
	if s.Tied && (s.Arch == "qwen2moe" || s.Arch == "olmoe") {
		return bad("%s has an output matrix of its own", s.Arch)
	}
	if s.Arch == "olmoe" && s.KV != s.Heads {
		return bad("olmoe has as many key and value heads as heads")
	}
	if (s.Arch == "gemma2") != (s.Window > 0) || s.Window > 1<<24 {
		return bad("a window of %d tokens: gemma2 has one, the others have none", s.Window)
	}
	if s.Arch == "gemma2" && !s.Tied {
		return bad("gemma2's output matrix is its token embedding")
	}
	switch s.Arch {
	case "llama":
	case "qwen2", "gemma2":
		if s.Experts != 0 {
			return bad("%s is dense", s.Arch)
		}
	case "qwen2moe", "qwen3moe", "olmoe":
		if s.Experts == 0 {
			return bad("%s has experts", s.Arch)
		}
		if (s.Arch == "qwen2moe") != (s.SharedFF > 0) {
			return bad("a shared expert is qwen2moe's, which always has one")
		}
	default:
		return bad("architecture %q is not known here: llama, qwen2, qwen2moe, qwen3moe, olmoe, gemma2",
			s.Arch)
	}
	return nil
}

// file returns the model's metadata and tensors. Names and shapes are llama.cpp's (its table of tensor names
// per architecture).
func (s Spec) file() (*gguf.File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	f := &gguf.File{Seed: s.Seed}
	kv := func(key string, value any) { f.KV = append(f.KV, gguf.KV{Key: key, Value: value}) }
	num := func(key string, n int) { kv(s.Arch+"."+key, uint32(n)) }
	kv("general.architecture", s.Arch)
	kv("general.name", s.Name)
	about := "random weights: a shape, not a model that says anything"
	if s.Skew != 0 {
		about += fmt.Sprintf("; skew of its routers %g", s.Skew) // in the header, which distinguishes files
	}
	kv("general.description", about)
	num("block_count", s.Layers)
	num("context_length", s.Context)
	num("embedding_length", s.Embd)
	num("feed_forward_length", max(s.FF, s.ExpertFF))
	num("attention.head_count", s.Heads)
	num("attention.head_count_kv", s.KV)
	num("attention.key_length", s.Head)
	num("attention.value_length", s.Head)
	num("rope.dimension_count", s.Head)
	num("vocab_size", s.Tokens)
	kv(s.Arch+".rope.freq_base", cmp.Or(s.RopeBase, 500000))
	kv(s.Arch+".attention.layer_norm_rms_epsilon", float32(1e-5))
	if s.Experts > 0 {
		num("expert_count", s.Experts)
		num("expert_used_count", s.Used)
		num("expert_feed_forward_length", s.ExpertFF)
	}
	if s.SharedFF > 0 {
		num("expert_shared_feed_forward_length", s.SharedFF)
	}
	if s.Arch == "gemma2" { // scores and logits are capped: c*tanh(x/c)
		num("attention.sliding_window", s.Window)
		kv("gemma2.attn_logit_softcapping", float32(50))
		kv("gemma2.final_logit_softcapping", float32(30))
	}
	f.KV = append(f.KV, s.vocabulary()...)

	// A product with a matrix of standard deviation 1/sqrt(row length) keeps the magnitude of its input,
	// whatever the width: nothing overflows.
	matrix := func(name string, typ gguf.Type, dims ...int) {
		t := gguf.Tensor{Name: name + ".weight", Type: typ, Std: 1 / math.Sqrt(float64(dims[0]))}
		for _, d := range dims {
			t.Dims = append(t.Dims, uint64(d))
		}
		f.Tensors = append(f.Tensors, t)
	}
	vector := func(name string, value float32, n int) {
		f.Tensors = append(f.Tensors, gguf.Tensor{Name: name, Type: gguf.F32, Dims: []uint64{uint64(n)},
			Const: value})
	}
	matrix("token_embd", s.Type, s.Embd, s.Tokens)
	// large compared with what the blocks add, so that the next token (and its choice of experts) depends on
	// the last one: otherwise the text repeats one token for ever
	f.Tensors[0].Std = 1
	vector("output_norm.weight", 1, s.Embd)
	if !s.Tied {
		matrix("output", s.Type, s.Embd, s.Tokens)
	}
	if s.RopeFreqs {
		vector("rope_freqs.weight", 1, s.Head/2)
	}
	q, k := s.Heads*s.Head, s.KV*s.Head
	for i := range s.Layers {
		typ := s.Type
		if s.Mixed {
			typ = mixedTypes[i%len(mixedTypes)]
		}
		blk := fmt.Sprintf("blk.%d.", i)
		vector(blk+"attn_norm.weight", 1, s.Embd)
		matrix(blk+"attn_q", typ, s.Embd, q)
		matrix(blk+"attn_k", typ, s.Embd, k)
		matrix(blk+"attn_v", typ, s.Embd, k)
		matrix(blk+"attn_output", typ, q, s.Embd)
		switch s.Arch {
		case "qwen2", "qwen2moe":
			vector(blk+"attn_q.bias", 0, q)
			vector(blk+"attn_k.bias", 0, k)
			vector(blk+"attn_v.bias", 0, k)
		case "qwen3moe": // norms per head
			vector(blk+"attn_q_norm.weight", 1, s.Head)
			vector(blk+"attn_k_norm.weight", 1, s.Head)
		case "olmoe": // norms over all heads together
			vector(blk+"attn_q_norm.weight", 1, q)
			vector(blk+"attn_k_norm.weight", 1, k)
		case "gemma2": // the output of a block is normed again
			vector(blk+"post_attention_norm.weight", 1, s.Embd)
			vector(blk+"post_ffw_norm.weight", 1, s.Embd)
		}
		vector(blk+"ffn_norm.weight", 1, s.Embd)
		if s.Experts == 0 {
			matrix(blk+"ffn_gate", typ, s.Embd, s.FF)
			matrix(blk+"ffn_up", typ, s.Embd, s.FF)
			matrix(blk+"ffn_down", typ, s.FF, s.Embd)
			continue
		}
		matrix(blk+"ffn_gate_inp", gguf.F32, s.Embd, s.Experts)
		f.Tensors[len(f.Tensors)-1].RowSpread = s.Skew
		matrix(blk+"ffn_gate_exps", typ, s.Embd, s.ExpertFF, s.Experts)
		matrix(blk+"ffn_up_exps", typ, s.Embd, s.ExpertFF, s.Experts)
		matrix(blk+"ffn_down_exps", typ, s.ExpertFF, s.Embd, s.Experts)
		if s.SharedFF > 0 {
			vector(blk+"ffn_gate_inp_shexp.weight", 0.01, s.Embd)
			matrix(blk+"ffn_gate_shexp", typ, s.Embd, s.SharedFF)
			matrix(blk+"ffn_up_shexp", typ, s.Embd, s.SharedFF)
			matrix(blk+"ffn_down_shexp", typ, s.SharedFF, s.Embd)
		}
	}
	return f, nil
}

// vocabulary returns the metadata of the model's tokenizer.
func (s Spec) vocabulary() []gguf.KV {
	if !s.Vocabulary {
		return []gguf.KV{{Key: "tokenizer.ggml.model", Value: "no_vocab"}}
	}
	// GPT-2 represents the bytes of a text as printable characters: those that are printable in Latin-1 as
	// they are, the others from U+0100 on.
	byteChar := make([]string, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b < '!' || b > '~' && b < 0xa1 || b == 0xad {
			r = next
			next++
		}
		byteChar[b] = string(r)
	}
	const normal, control = int32(1), int32(3)
	tokens := append(make([]string, 0, s.Tokens), byteChar...)
	tokens = append(tokens, "<|endoftext|>", byteChar[0]+byteChar[1])
	types := make([]int32, s.Tokens)
	for i := range types {
		types[i] = normal
	}
	types[256] = control
	for i := len(tokens); i < s.Tokens; i++ {
		tokens = append(tokens, fmt.Sprintf("<%d>", i))
	}
	return []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		// loaders require merges; this pair does not occur in texts
		{Key: "tokenizer.ggml.merges", Value: []string{byteChar[0] + " " + byteChar[1]}},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(256)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(256)},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
	}
}
