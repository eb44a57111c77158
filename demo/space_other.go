// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package demo

// needSpace cannot check other systems: there, writing fails or not.
func needSpace(dir string, size int64) error { return nil }
