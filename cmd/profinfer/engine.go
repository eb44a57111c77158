// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/profinfer/profinfer/engine/ggml"

// newEngine returns what knows the engines that can be recorded. No other place of the program names one.
func newEngine() *ggml.Engine { return ggml.New() }
