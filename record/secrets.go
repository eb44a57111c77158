// SPDX-License-Identifier: Apache-2.0

package record

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// hidden replaces a secret.
const hidden = "***"

// withoutSecrets returns a command line without the values of keys, tokens and passwords: --api-key X,
// --hf-token=X, HF_TOKEN=X, "Authorization: X", scheme://user:X@host, also inside a word for a shell. Secrets
// are recognized by name, so one with an unusual name is kept, and so is a prompt. The path of a file with
// secrets (--api-key-file) is not a secret.
func withoutSecrets(words []string) []string {
	out := slices.Clone(words)
	for i := 0; i < len(out); i++ {
		w := out[i]
		out[i] = withoutSecret(w)
		if strings.HasPrefix(w, "-") && secretName(w) && i+1 < len(out) {
			i++
			out[i] = hidden
		}
	}
	return out
}

var (
	// A user's password in a server's address.
	userInfo = regexp.MustCompile(`(://[^/@:\s]*:)[^/@\s]+@`)
	// In a word with spaces: a name, a separator and a value, which may be quoted.
	nameInShell  = regexp.MustCompile(`[\w-]+(=|\s+)`)
	valueInShell = regexp.MustCompile(`^("[^"]*"?|'[^']*'?|[^\s"']+)`)
)

func withoutSecret(w string) string {
	w = userInfo.ReplaceAllString(w, "${1}"+hidden+"@")
	if i := strings.IndexAny(w, "=:"); i >= 0 && !strings.ContainsFunc(w[:i], unicode.IsSpace) {
		switch {
		case secretName(w[:i]) && w[i] == '=':
			return w[:i+1] + hidden
		case secretName(w[:i]) && strings.HasPrefix(w[i:], ": "):
			return w[:i+2] + hidden
		case w[i] == '=': // --env=HF_TOKEN=X
			return w[:i+1] + withoutSecret(w[i+1:])
		}
	}
	if !strings.ContainsFunc(w, unicode.IsSpace) {
		return w
	}
	var out strings.Builder
	for {
		at := nameInShell.FindStringSubmatchIndex(w)
		if at == nil {
			return out.String() + w
		}
		out.WriteString(w[:at[1]])
		name, equals := w[at[0]:at[2]], w[at[2]] == '='
		w = w[at[1]:]
		if secretName(name) && (equals || name[0] == '-') {
			if value := valueInShell.FindString(w); value != "" {
				out.WriteString(hidden)
				w = w[len(value):]
			}
		}
	}
}

// secretName reports whether an option or variable of this name has a secret value.
func secretName(name string) bool {
	if strings.ContainsAny(name, "./") { // tokenizer.ggml.add_bos_token, a path
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' })
	if len(words) == 0 || words[0] == "no" {
		return false
	}
	switch words[len(words)-1] {
	case "file", "path", "dir":
		return false
	}
	for i, w := range words {
		switch {
		case strings.HasSuffix(w, "token"), strings.Contains(w, "secret"), strings.Contains(w, "password"),
			strings.Contains(w, "passphrase"),
			strings.HasPrefix(w, "credential"), strings.HasSuffix(w,
				"apikey"), w == "passwd", w == "hft", w == "auth", w == "authorization", w == "bearer":
			return true
		case i > 0 && w == "key" && slices.Contains([]string{"api", "access", "auth", "private"}, words[i-1]):
			return true
		}
	}
	return false
}
