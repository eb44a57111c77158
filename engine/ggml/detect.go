// SPDX-License-Identifier: Apache-2.0

// Package ggml knows the engines built on ggml (llama.cpp, whisper.cpp) and makes an
// [engine.Plan] for a process that runs one. What it needs to know it reads from the
// machine code of the process's own files: it runs their accessors on made-up objects
// and follows the control flow of the operator loop. A table of ggml's history is kept
// for what a binary does not tell, and to check what it does.
package ggml

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profinfer/profinfer/engine"
	"github.com/profinfer/profinfer/target"
)

// OpenedFile is a file that a process has mapped, opened.
type OpenedFile struct {
	engine.File // Role is ignored and found anew
	ELF         *target.ELF
	// ID keeps what is found for all processes that map the file; the zero value: it is read anew each time.
	ID target.FileID

	parts Part // 0: not looked at yet
}

// Part is what a file is to an engine; a file can be several.
type Part uint8

const (
	PartBase    Part = 1 << iota // graphs, tensors, names, the scheduler
	PartCPU                      // computes graphs on CPUs
	PartLlama                    // llama.cpp
	PartWhisper                  // whisper.cpp
	PartBackend                  // another backend
)

// partNames are the functions that tell a part: one is enough.
var partNames = []struct {
	part  Part
	word  string
	funcs []string
}{
	{PartBase, "base", []string{"ggml_op_name", "ggml_get_data"}},
	{PartCPU, "cpu", []string{graphCompute, hookName}},
	{PartLlama, "llama", []string{"llama_decode", "llama_process"}},
	{PartWhisper, "whisper", []string{"whisper_full", "whisper_full_with_state"}},
	{PartBackend, "backend", []string{"ggml_backend_init", "ggml_backend_vk_reg", "ggml_backend_cuda_reg", "ggml_backend_blas_reg",
		"ggml_backend_rpc_reg", "ggml_backend_opencl_reg", "ggml_backend_sycl_reg"}},
}

// stems are what the names of all those functions begin with. A file that has none of them among its symbols' names, as
// most that a process has mapped, is done with at once.
var stems = []string{"ggml_", "llama_", "whisper_"}

// Parts says what a file is to an engine; 0 if it has nothing of ggml.
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
		p &^= PartBackend // every loadable backend has ggml_backend_init, the CPU's too
	}
	return p
}

// Interesting says whether a newly mapped file has something of ggml. It looks at exported names first.
func Interesting(e *target.ELF) bool { return Parts(e) != 0 }

// role names the parts of a file for people: "base", "base+cpu", "backend:vulkan".
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

// backendNames are the names of backends as their authors write them, by the word in
// their library's name (libggml-vulkan.so) or functions (ggml_backend_vk_...).
var backendNames = map[string]string{
	"cpu": "CPU", "vulkan": "Vulkan", "vk": "Vulkan", "cuda": "CUDA", "hip": "HIP", "musa": "MUSA", "blas": "BLAS",
	"rpc": "RPC", "sycl": "SYCL", "opencl": "OpenCL", "cann": "CANN", "metal": "Metal", "webgpu": "WebGPU",
	"kompute": "Kompute", "zdnn": "zDNN", "hexagon": "Hexagon", "openvino": "OpenVINO", "virtgpu": "VirtGPU", "zendnn": "ZenDNN",
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

// NotFound says that a process has no engine that is known here.
type NotFound struct {
	Looked  []string // files looked at, as the process names them
	Refused []error  // of these, why they could not be opened for want of a privilege
	LeftOut []error  // and why they were not looked at to the end: *target.LimitError
}

// Unwrap gives errors.Is the refusals.
func (e *NotFound) Unwrap() []error { return slices.Concat(e.Refused, e.LeftOut) }

func (e *NotFound) Error() string {
	if n := len(e.LeftOut); n > 0 && len(e.Refused) == 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" (and %d more)", n-1)
		}
		return fmt.Sprintf("no engine was found in this process, but not all files that it has mapped were looked at to the end: %v%s", e.LeftOut[0], more)
	}
	if n := len(e.Refused); n > 0 {
		of := "the files"
		if n < len(e.Looked) {
			of = fmt.Sprintf("%d of the %d files", n, len(e.Looked))
		}
		return fmt.Sprintf("no engine was found in this process, but %s that it has mapped could not be opened: %v", of, e.Refused[0])
	}
	where := "no file that can be executed was found in it"
	if n := len(e.Looked); n > 0 {
		shown := e.Looked[:min(n, 12)]
		where = fmt.Sprintf("looked in %d files: %s", n, strings.Join(shown, ", "))
		if len(shown) < n {
			where += ", ..."
		}
	}
	return "no llama.cpp, whisper.cpp or other program on ggml in this process: none of the functions " +
		strings.Join(Signs(), ", ") + " is in its files (" + where + "). " +
		"If the engine loads its libraries later, wait for it; if it is linked statically and stripped, it cannot be profiled"
}

// Signs are the functions by which ggml and the engines on it are recognised.
func Signs() []string {
	var funcs []string
	for _, p := range partNames[:4] {
		funcs = append(funcs, p.funcs...)
	}
	return funcs
}

// ErrIncomplete says that parts of ggml are mapped, but not yet its base library,
// without which nothing can be planned.
var ErrIncomplete = errors.New("ggml's base library (ggml_op_name) is not loaded yet")

// Detect says which of a process's files are parts of an engine, in the order given, with
// their roles filled in. An error is *NotFound. What cannot be looked at to the end is left out.
func Detect(files []OpenedFile) ([]OpenedFile, error) {
	var out []OpenedFile
	var none NotFound
	for _, f := range files {
		none.Looked = append(none.Looked, f.Path)
		if f.parts == 0 {
			f.parts = Parts(f.ELF)
		}
		if err := f.ELF.Trouble(); err != nil {
			none.LeftOut = append(none.LeftOut, err)
		}
		if f.parts != 0 {
			f.Role = f.parts.role(f.Path)
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, &none
	}
	return out, nil
}
