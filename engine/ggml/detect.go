// SPDX-License-Identifier: Apache-2.0

// Package ggml knows the engines built on ggml (llama.cpp, whisper.cpp) and makes an [engine.Plan] for a
// process that runs one. It reads what it needs from the machine code of the process's own files: it runs
// their accessors on made-up objects and follows the control flow of the operator loop. A table of ggml's
// history fills in what a binary does not reveal, and cross-checks what it does.
package ggml

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// file is a file of a process, or one that was given.
type file struct {
	engine.OpenedFile
	parts Part // 0: not examined yet
}

// Part is a file's role in an engine; a file can have several.
type Part uint8

const (
	PartBase    Part = 1 << iota // graphs, tensors, names, the scheduler
	PartCPU                      // computes graphs on CPUs
	PartLlama                    // llama.cpp
	PartWhisper                  // whisper.cpp
	PartBackend                  // another backend
)

// partNames are the functions that identify a part: one is enough.
var partNames = []struct {
	part  Part
	word  string
	funcs []string
}{
	{PartBase, "base", []string{"ggml_op_name", "ggml_get_data"}},
	{PartCPU, "cpu", []string{graphCompute, hookName}},
	{PartLlama, "llama", []string{"llama_decode", "llama_process"}},
	{PartWhisper, "whisper", []string{"whisper_full", "whisper_full_with_state"}},
	{PartBackend, "backend", []string{"ggml_backend_init", "ggml_backend_vk_reg", "ggml_backend_cuda_reg",
		"ggml_backend_blas_reg",
		"ggml_backend_rpc_reg", "ggml_backend_opencl_reg", "ggml_backend_sycl_reg"}},
}

// stems are the prefixes of all those functions' names. A file without any of them among its symbol names, as
// most mapped files, needs no further work.
var stems = []string{"ggml_", "llama_", "whisper_"}

// Parts returns a file's roles in an engine; 0 if it contains nothing of ggml.
func Parts(e *target.ELF) Part {
	var p Part
	find := func(has func(string) bool) {
		for _, n := range partNames {
			for _, f := range n.funcs {
				if has(f) {
					p |= n.part
					break
				}
			}
		}
	}
	if !e.Mentions(stems...) {
		return 0
	}
	find(e.Exports)
	if p == 0 { // a statically linked engine
		find(func(name string) bool {
			s, ok := e.Lookup(name)
			return ok && s.Func
		})
	}
	if p&PartCPU != 0 {
		p &^= PartBackend // every loadable backend has ggml_backend_init, including the CPU's
	}
	return p
}

// role names the parts of a file: "base", "base+cpu", "backend:vulkan".
func (p Part) role(path string) string {
	var words []string
	for _, n := range partNames {
		if p&n.part == 0 {
			continue
		}
		w := n.word
		if n.part == PartBackend {
			w = "backend:" + strings.ToLower(backendOfFile(path))
		}
		words = append(words, w)
	}
	return strings.Join(words, "+")
}

// backendNames are the names of backends as their authors write them, keyed by the word in their library's
// name (libggml-vulkan.so) or functions (ggml_backend_vk_...).
var backendNames = map[string]string{
	"cpu": "CPU", "vulkan": "Vulkan", "vk": "Vulkan", "cuda": "CUDA", "hip": "HIP", "musa": "MUSA",
	"blas": "BLAS",
	"rpc":  "RPC", "sycl": "SYCL", "opencl": "OpenCL", "cann": "CANN", "metal": "Metal", "webgpu": "WebGPU",
	"kompute": "Kompute", "zdnn": "zDNN", "hexagon": "Hexagon", "openvino": "OpenVINO", "virtgpu": "VirtGPU",
	"zendnn": "ZenDNN",
}

// backendOfFile names a backend by its library: libggml-cpu-haswell.so is CPU.
func backendOfFile(path string) string {
	base := filepath.Base(path)
	rest, ok := strings.CutPrefix(base, "libggml-")
	if !ok {
		return base
	}
	word, _, _ := strings.Cut(rest, ".")
	word, _, _ = strings.Cut(word, "-")
	if n, ok := backendNames[word]; ok {
		return n
	}
	return word
}

// notFound reports that no file contains anything of ggml.
func notFound(looked []string, refused, left []error) *engine.NotFound {
	var signs []string
	for _, p := range partNames[:4] {
		signs = append(signs, p.funcs...)
	}
	return &engine.NotFound{Text: "no llama.cpp, whisper.cpp or other program on ggml in this process",
		Engines: "llama.cpp, whisper.cpp or other program on ggml", Signs: signs, Looked: looked,
		Refused: refused, LeftOut: left}
}

// errIncomplete reports that parts of ggml are present, but not yet its base library.
var errIncomplete = &engine.Incomplete{Text: "ggml's base library (ggml_op_name) is not loaded yet",
	Files:  "ggml's base library (the one with ggml_op_name) is not among the files",
	Remedy: "give all files of the engine at once: libggml-base, libggml-cpu, libllama"}

// Owns reports whether a library, by its name, probably belongs to an engine on ggml.
func (g *Engine) Owns(soname string) bool {
	return slices.ContainsFunc([]string{"ggml", "llama", "whisper"}, func(s string) bool {
		return strings.Contains(soname, s)
	})
}

// detect returns which of a process's files are parts of an engine, in the order given, with their roles
// filled in. The error is *engine.NotFound. Files that cannot be read to the end are left out.
func detect(files []file) ([]file, error) {
	var out []file
	var looked []string
	var left []error
	for _, f := range files {
		looked = append(looked, f.Path)
		if f.parts == 0 {
			f.parts = Parts(f.ELF)
		}
		if err := f.ELF.Trouble(); err != nil {
			left = append(left, err)
		}
		if f.parts != 0 {
			f.Role = f.parts.role(f.Path)
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, notFound(looked, nil, left)
	}
	return out, nil
}
