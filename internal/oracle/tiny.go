// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/profinfer/profinfer/demo"
)

// TinyModels are names that [TinyModel] surely knows: dense ones, and mixtures of 2
// experts that use both, of 64 that choose (deepseek2), and a recurrent one.
var TinyModels = []string{"llama-dense", "llama-moe", "qwen2-dense", "gemma2-dense", "qwen2moe-moe",
	"deepseek2-moe", "mamba-dense"}

var tinyName = regexp.MustCompile(`^([a-z0-9-]+)-(dense|moe)$`)

// TinyModel has test-llama-archs write a tiny model of an architecture of llama.cpp,
// named ARCHITECTURE-dense or -moe, if it is not there yet. It returns the file's path
// for this process and its name inside of e's root. The same name gives the same file.
func TinyModel(ctx context.Context, e demo.Engine, name string) (path, inside string, err error) {
	m := tinyName.FindStringSubmatch(name)
	if m == nil {
		return "", "", fmt.Errorf("%q names no tiny model: it is ARCHITECTURE-dense or ARCHITECTURE-moe",
			name)
	}
	dir := filepath.Join(e.ModelDir(os.TempDir()), "tiny")
	path = filepath.Join(dir, name+".gguf")
	if inside, err = e.Inside(path); err != nil {
		return "", "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, inside, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	// written beside and renamed: tests of several packages run at the same time
	tmp, err := os.MkdirTemp(dir, "new")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(tmp)
	out, err := e.Inside(tmp)
	if err != nil {
		return "", "", err
	}
	argv := e.Command("test-llama-archs", "-s", "1", "-a", "^"+m[1]+"$", "-o", out)
	log, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, tail(string(log), 5))
	}
	if err := os.Rename(filepath.Join(tmp, name+".gguf"), path); err != nil {
		return "", "", fmt.Errorf("%s made no %s.gguf: %w", strings.Join(argv, " "), name, err)
	}
	return path, inside, nil
}
