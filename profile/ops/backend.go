// SPDX-License-Identifier: Apache-2.0

package ops

// CallComputes tells whether a backend computes within the call and so returns when it is done: such have no function to wait by
// (ggml-cpu.cpp, ggml-blas.cpp, ggml-zendnn.cpp: synchronize is NULL). Of others a call may only submit.
func CallComputes(backend string) bool {
	switch backend {
	case "CPU", "BLAS", "ZenDNN":
		return true
	}
	return false
}

// HandsOver tells whether a backend's graphs are computed by another process.
func HandsOver(backend string) bool { return backend == "RPC" }
