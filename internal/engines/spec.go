// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/profinfer/profinfer/demo"
)

// Made writes a model that package demo does not know by name, as [Model] does.
func Made(t testing.TB, e demo.Engine, spec demo.Spec) (path, inside string) {
	t.Helper()
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	if path, err = demo.Ensure(context.Background(), e.ModelDir(filepath.Join(dir, "models")), spec,
		nil); err == nil {
		inside, err = e.Inside(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, inside
}
