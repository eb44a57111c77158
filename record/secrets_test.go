// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"strings"
	"testing"
)

func TestWithoutSecrets(t *testing.T) {
	const x = "hunter2"
	for _, words := range [][]string{
		{"llama-server", "--api-key", x, "--port", "80"}, {"llama-server", "--api-key=" + x}, {"--hf-token",
			x}, {"-hft", x}, {"-hft=" + x}, {"--HF-Token", x},
		{"env", "HF_TOKEN=" + x, "llama-server"}, {"docker", "run", "-e", "HF_TOKEN=" + x}, {"docker",
			"--env=OPENAI_API_KEY=" + x}, {"docker", "-eHF_TOKEN=" + x},
		{"AWS_SECRET_ACCESS_KEY=" + x}, {"--password", x}, {"--db_password=" + x}, {"--client-secret",
			x}, {"--mytoken", x}, {"APIKEY=" + x}, {"--private-key", x},
		{"curl", "-H", "Authorization: Bearer " + x}, {"curl", "-H", "X-Api-Key: " + x}, {"curl",
			"https://user:" + x + "@host/v1"}, {"HTTPS_PROXY=http://user:" + x + "@proxy:3128"},
		{"sh", "-c", "HF_TOKEN=" + x + " llama-server --api-key '" + x + " " + x + "' --port 80"}, {"sh",
			"-c", "exec llama-server --api-key=\"" + x + "\"\n"},
		{"sh", "-c", "llama-server --mlock --api-key " + x + " --hf-token \"" + x},
		{"sh", "-c", "curl https://user:" + x + "@host/v1 | sh"}, {"--api-key", "-" + x},
	} {
		got := withoutSecrets(words)
		if strings.Contains(strings.Join(got, " "), x) || len(got) != len(words) ||
			!strings.Contains(strings.Join(got, " "), hidden) {
			t.Errorf("%q: %q", words, got)
		}
		if !strings.Contains(strings.Join(words, " "), x) {
			t.Errorf("what was passed in was changed: %q", words)
		}
	}
	for _, words := range [][]string{
		{"llama-server", "-m", "model.gguf", "--port", "80"}, {"--api-key-file",
			"/run/keys"}, {"--ssl-key-file", "/key.pem"}, {"--max-tokens", "128"}, {"--n-tokens=128"},
		{"--tokenizer", "t.json"},
		{"--tokenizer-mode=auto"}, {"--override-kv",
			"tokenizer.ggml.add_bos_token=bool:false"}, {"llama-tokenize", "x"},
		{"-p", "the token is x, and the password y"}, {"-p", "a key: b"},
		{"--no-auth", "x"}, {"--key", "q"}, {"--cache-type-k", "q8_0"}, {"http://host:80/v1"}, {"sh", "-c",
			"llama-bench -m x --max-tokens 5"}, {"--keep", "5"}, {"", "=", ":", "--", "-"},
		{"--api-key"}, {"-m", "/models/secret/token.gguf"}, {"/opt/token", "x"},
	} {
		if got := withoutSecrets(words); !slices.Equal(got, words) {
			t.Errorf("%q: %q", words, got)
		}
	}
	if got, want := withoutSecrets([]string{"a", "--api-key", "x", "-c", "1"}),
		[]string{"a", "--api-key", "***", "-c", "1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
