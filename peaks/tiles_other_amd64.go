// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package peaks

func allowTiles() bool { return false }
