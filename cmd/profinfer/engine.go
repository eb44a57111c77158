// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/profinfer/profinfer/engine/ggml"

// newEngine returns the implementation for the engines that can be recorded. No other place in the program
// names one.
func newEngine() *ggml.Engine { return ggml.New() }
