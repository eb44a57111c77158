// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/profinfer/profinfer/demo/gguf"
)

func TestModels(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Models() {
		if names[s.Name] || names[s.FileName()] || s.About == "" {
			t.Errorf("%s: name or file name is there twice, or it has no description", s.Name)
		}
		names[s.Name], names[s.FileName()] = true, true
		if _, err := s.Size(); err != nil {
			t.Error(err)
		}
		if got, err := Model(s.Name); err != nil || got != s {
			t.Errorf("Model(%q): %v", s.Name, err)
		}
	}
	if _, err := Model("gpt-9"); err == nil || !strings.Contains(err.Error(), "llama-tiny") {
		t.Errorf("an unknown model's error does not name those known: %v", err)
	}
	large, _ := Model("llama-1b")
	if size, _ := large.Size(); size>>20 != 663 || large.FileName() != "llama-1b-q4_0.gguf" {
		t.Errorf("%s has %d MiB, want 663", large.FileName(), size>>20)
	}
}

// Published models' parameters, counted from their published tensors (safetensors' index says so).
func TestParams(t *testing.T) {
	for name, want := range map[string]struct{ params, tensors int64 }{
		"llama-1b":          {1235814400 + 32, 16*9 + 3}, // 32: the frequency factors are a tensor here
		"qwen2.5-1.5b":      {1543714304, 28*12 + 2},
		"gemma2-2b":         {2614341888, 26*11 + 2},
		"qwen1.5-moe-a2.7b": {14315784192, 24*17 + 3},
	} {
		s, err := Model(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Params(); err != nil || got != want.params {
			t.Errorf("%s has %d parameters, want %d; %v", name, got, want.params, err)
		}
		f, err := s.file()
		if err != nil || int64(len(f.Tensors)) != want.tensors {
			t.Errorf("%s has %d tensors, want %d; %v", name, len(f.Tensors), want.tensors, err)
		}
	}
	bad, _ := Model("llama-tiny")
	bad.Layers = 0
	if _, err := bad.Params(); err == nil {
		t.Error("an impossible model has parameters")
	}
}

// What sets the architectures' metadata apart.
func TestMetadata(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"llama-1b": {"llama.rope.freq_base": float32(500000), "llama.attention.sliding_window": nil},
		"qwen2.5-1.5b": {"qwen2.rope.freq_base": float32(1e6), "qwen2.attention.head_count_kv": uint32(2),
			"qwen2.attention.key_length": uint32(128)},
		"qwen1.5-moe-a2.7b": {"qwen2moe.rope.freq_base": float32(1e6), "qwen2moe.expert_count": uint32(60),
			"qwen2moe.expert_used_count":                 uint32(4),
			"qwen2moe.expert_feed_forward_length":        uint32(1408),
			"qwen2moe.expert_shared_feed_forward_length": uint32(5632)},
		"gemma2-2b": {"gemma2.rope.freq_base": float32(10000),
			"gemma2.attention.sliding_window": uint32(4096), "gemma2.attention.key_length": uint32(256),
			"gemma2.attn_logit_softcapping": float32(50), "gemma2.final_logit_softcapping": float32(30),
			"gemma2.feed_forward_length": uint32(9216)},
	} {
		s, _ := Model(name)
		f, err := s.file()
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]any{}
		for _, kv := range f.KV {
			have[kv.Key] = kv.Value
		}
		for k, v := range want {
			if have[k] != v {
				t.Errorf("%s: %s is %v, want %v", name, k, have[k], v)
			}
		}
		tensors := map[string][]uint64{}
		for _, x := range f.Tensors {
			tensors[x.Name] = x.Dims
		}
		if (tensors["blk.25.post_ffw_norm.weight"] != nil) != (s.Arch == "gemma2") ||
			(tensors["blk.25.post_attention_norm.weight"] != nil) != (s.Arch == "gemma2") {
			t.Errorf("%s: norms behind the blocks", name)
		}
		if (tensors["blk.1.attn_v.bias"] != nil) != (s.Arch == "qwen2" || s.Arch == "qwen2moe") ||
			(tensors["output.weight"] == nil) != s.Tied {
			t.Errorf("%s: biases, or an output matrix of its own", name)
		}
	}
}

func TestMixed(t *testing.T) {
	s, _ := Model("llama-1b")
	s.Mixed, s.Type = true, gguf.Q8_0
	f, err := s.file()
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]gguf.Type{}
	for _, x := range f.Tensors {
		types[x.Name] = x.Type
	}
	for name, want := range map[string]gguf.Type{"blk.0.ffn_up.weight": gguf.F16,
		"blk.1.attn_q.weight": gguf.Q8_0, "blk.14.ffn_down.weight": gguf.Q4_0,
		"blk.15.attn_v.weight": gguf.F16, "blk.1.attn_norm.weight": gguf.F32, "token_embd.weight": gguf.Q8_0} {
		if types[name] != want {
			t.Errorf("%s is %v, want %v", name, types[name], want)
		}
	}
	if s.FileName() != "llama-1b-mixed.gguf" {
		t.Errorf("its file is %s", s.FileName())
	}
}

// A skew is in the file's name and in its header, and in nothing but the routers.
func TestSkew(t *testing.T) {
	s, _ := Model("moe-tiny")
	even, err := s.file()
	if err != nil {
		t.Fatal(err)
	}
	s.Skew = 0.5
	if s.FileName() != "moe-tiny-skew0.5-q4_0.gguf" {
		t.Errorf("its file is %s", s.FileName())
	}
	f, err := s.file()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := even.Header()
	b, _ := f.Header()
	if string(a) == string(b) {
		t.Error("its header is that of the model without")
	}
	routers := 0
	for i, x := range f.Tensors {
		if strings.HasSuffix(x.Name, ".ffn_gate_inp.weight") {
			if routers++; x.RowSpread != 0.5 {
				t.Errorf("%s has a spread of %g", x.Name, x.RowSpread)
			}
		} else if x.RowSpread != 0 || x.Std != even.Tensors[i].Std {
			t.Errorf("%s has changed", x.Name)
		}
	}
	if routers != s.Layers {
		t.Errorf("%d routers in %d layers", routers, s.Layers)
	}
}

func TestImpossibleModels(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"layers":         func(s *Spec) { s.Layers = 0 },
		"cannot share":   func(s *Spec) { s.KV = 3 },
		"not known here": func(s *Spec) { s.Arch = "gpt9" },
		"has experts":    func(s *Spec) { s.Arch = "qwen3moe" },
		"are impossible": func(s *Spec) { s.Experts, s.Used, s.ExpertFF = 4, 5, 32 },
		"gemma2 has one": func(s *Spec) { s.Window = 8 },
		"gemma2 is dense": func(s *Spec) {
			s.Arch, s.Window, s.Tied, s.Experts, s.Used, s.ExpertFF = "gemma2", 8, true, 4, 2, 32
		},
		"token embedding":   func(s *Spec) { s.Arch, s.Window = "gemma2", 8 },
		"qwen2 is dense":    func(s *Spec) { s.Arch, s.Experts, s.Used, s.ExpertFF = "qwen2", 4, 2, 32 },
		"shared expert":     func(s *Spec) { s.Arch, s.Experts, s.Used, s.ExpertFF = "qwen2moe", 4, 2, 32 },
		"of its own":        func(s *Spec) { s.Arch, s.Tied = "olmoe", true },
		"as many key":       func(s *Spec) { s.Arch, s.Experts, s.Used, s.ExpertFF = "olmoe", 4, 2, 32 },
		"a skew of":         func(s *Spec) { s.Skew = 1 }, // it is dense
		"at most 4":         func(s *Spec) { *s, _ = Model("moe-tiny"); s.Skew = 4.5 },
		"a skew of NaN":     func(s *Spec) { *s, _ = Model("moe-tiny"); s.Skew = math.NaN() },
		"a skew of -1":      func(s *Spec) { *s, _ = Model("moe-tiny"); s.Skew = -1 },
		"multiple of 256":   func(s *Spec) { s.Type, s.Embd = gguf.Q4_K, 32 },
		"needs 258 tokens":  func(s *Spec) { s.Vocabulary, s.Tokens = true, 100 },
		"feed-forward":      func(s *Spec) { s.FF = -1 },
		"width is":          func(s *Spec) { s.Embd = 1 << 30 },
		"cannot be written": func(s *Spec) { s.Type = 99 },
	} {
		s, _ := Model("llama-tiny")
		change(&s)
		if _, err := s.Size(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if err := Write(filepath.Join(t.TempDir(), "m"), s); err == nil {
			t.Errorf("%q: written all the same", want)
		}
	}
}

func TestVocabulary(t *testing.T) {
	s, _ := Model("llama-tiny-vocab")
	seen := map[string]bool{}
	for _, kv := range s.vocabulary() {
		if kv.Key != "tokenizer.ggml.tokens" {
			continue
		}
		tokens := kv.Value.([]string)
		if len(tokens) != s.Tokens {
			t.Errorf("%d tokens, want %d", len(tokens), s.Tokens)
		}
		for i, tok := range tokens {
			if seen[tok] {
				t.Errorf("token %d %q is there twice", i, tok)
			}
			seen[tok] = true
			if i < 256 && utf8.RuneCountInString(tok) != 1 {
				t.Errorf("byte %d is token %q", i, tok)
			}
		}
		// as GPT-2's own table has them
		if tokens['a'] != "a" || tokens[' '] != "Ġ" || tokens['\n'] != "Ċ" || tokens[0xad] != "Ń" ||
			tokens[0xff] != "ÿ" {
			t.Errorf("bytes are %q %q %q %q %q", tokens['a'], tokens[' '], tokens['\n'], tokens[0xad],
				tokens[0xff])
		}
	}
	if !seen["<|endoftext|>"] {
		t.Error("no tokens")
	}
}

func TestEnsure(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, _ := Model("llama-tiny")
	var last, total int64
	path, err := Ensure(ctx, dir, s, func(_ string, done, n int64) { last, total = done, n })
	if err != nil {
		t.Fatal(err)
	}
	size, _ := s.Size()
	st, err := os.Stat(path)
	if err != nil || st.Size() != size || last != size || total != size {
		t.Fatalf("size %v, progress %d of %d, want %d", st, last, total, size)
	}
	if _, err := Ensure(ctx, dir, s, func(string, int64, int64) { t.Error("written again") }); err != nil {
		t.Fatal(err)
	}
	// another model under that name, and a file cut short, are replaced
	other := s
	other.Context = 77
	if err := Write(path, other); err != nil {
		t.Fatal(err)
	}
	if same, _ := s.is(path); same {
		t.Error("another model is taken for this one")
	}
	if _, err := Ensure(ctx, dir, s, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size-1); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(ctx, dir, s, nil); err != nil {
		t.Fatal(err)
	}
	if same, _ := s.is(path); !same {
		t.Error("not replaced")
	}

	stop, cancel := context.WithCancel(ctx)
	cancel()
	gone := filepath.Join(dir, "gone.gguf")
	if err := WriteProgress(stop, gone, s, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	left, _ := filepath.Glob(gone + "*")
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSpace(t *testing.T) {
	err := needSpace(t.TempDir(), 1<<60)
	if err == nil || !strings.Contains(err.Error(), "free") {
		t.Errorf("a disk for everything: %v", err)
	}
}

func TestEngineFiles(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"usr/bin/llama-bench", "usr/libexec/x/llama.cpp-tests/test-llama-archs"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, f), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e := Engine{Root: root}
	for name, want := range map[string]string{
		"llama-bench": "/usr/bin/llama-bench", "test-llama-archs": "/usr/libexec/x/llama.cpp-tests/test-llama-archs", "other": "other"} {
		argv := e.Command(name, "-m", "x")
		if len(argv) != 5 || filepath.Base(argv[0]) != "chroot" || argv[1] != root || argv[2] != want ||
			argv[4] != "x" {
			t.Errorf("%s: %q", name, argv)
		}
	}
	if in, err := e.Inside(filepath.Join(e.ModelDir("/x"), "a.gguf")); err != nil || in != "/models/a.gguf" {
		t.Errorf("inside: %q, %v", in, err)
	}
	if in, err := e.Inside("/elsewhere/a.gguf"); err == nil {
		t.Errorf("a file outside of the root is known inside as %q", in)
	}
	own := Engine{}
	if in, _ := own.Inside("/elsewhere/a.gguf"); in != "/elsewhere/a.gguf" || own.ModelDir("/x") != "/x" ||
		len(own.Command("a", "b")) != 2 {
		t.Error("an engine without a root sees all files")
	}
}

func TestDebianInstalled(t *testing.T) {
	root := t.TempDir()
	if _, ok := DebianInstalled(root, Tools); ok {
		t.Error("an empty folder is an engine")
	}
	if err := os.WriteFile(filepath.Join(root, completeFile), []byte("llama.cpp-tools\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok := DebianInstalled(root, Tools); !ok {
		t.Error("not found")
	}
	if _, ok := DebianInstalled(root, Tests); ok {
		t.Error("more is found than there is")
	}
}
