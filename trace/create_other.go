// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package trace

import (
	"io/fs"
	"os"
)

func sameOwner(*os.File, fs.FileInfo) error { return nil }
