// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
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

func TestImpossibleModels(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"layers":            func(s *Spec) { s.Layers = 0 },
		"cannot share":      func(s *Spec) { s.KV = 3 },
		"not known here":    func(s *Spec) { s.Arch = "gpt9" },
		"has experts":       func(s *Spec) { s.Arch = "qwen3moe" },
		"are impossible":    func(s *Spec) { s.Experts, s.Used, s.ExpertFF = 4, 5, 32 },
		"qwen2 is dense":    func(s *Spec) { s.Arch, s.Experts, s.Used, s.ExpertFF = "qwen2", 4, 2, 32 },
		"shared expert":     func(s *Spec) { s.Arch, s.Experts, s.Used, s.ExpertFF = "qwen2moe", 4, 2, 32 },
		"of its own":        func(s *Spec) { s.Arch, s.Tied = "olmoe", true },
		"as many key":       func(s *Spec) { s.Arch, s.Experts, s.Used, s.ExpertFF = "olmoe", 4, 2, 32 },
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
		if tokens['a'] != "a" || tokens[' '] != "Ġ" || tokens['\n'] != "Ċ" || tokens[0xad] != "Ń" || tokens[0xff] != "ÿ" {
			t.Errorf("bytes are %q %q %q %q %q", tokens['a'], tokens[' '], tokens['\n'], tokens[0xad], tokens[0xff])
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
		if len(argv) != 5 || filepath.Base(argv[0]) != "chroot" || argv[1] != root || argv[2] != want || argv[4] != "x" {
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
	if in, _ := own.Inside("/elsewhere/a.gguf"); in != "/elsewhere/a.gguf" || own.ModelDir("/x") != "/x" || len(own.Command("a", "b")) != 2 {
		t.Error("an engine without a root sees all files")
	}
}

func TestDebianInstalled(t *testing.T) {
	root := t.TempDir()
	if _, ok := DebianInstalled(root, Tools); ok {
		t.Error("an empty folder is an engine")
	}
	if err := os.WriteFile(filepath.Join(root, completeFile), []byte("llama.cpp-tools\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok := DebianInstalled(root, Tools); !ok {
		t.Error("not found")
	}
	if _, ok := DebianInstalled(root, Tests); ok {
		t.Error("more is found than there is")
	}
}
