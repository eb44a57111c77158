// SPDX-License-Identifier: Apache-2.0

package record

import "testing"

func TestBackendObjects(t *testing.T) {
	var o backendObjects
	if o.outer(7) != 7 || o.fresh(0) || !o.fresh(7) || o.fresh(7) {
		t.Error("an object that nothing is known of is itself, and new once")
	}
	o.learn(map[uint64]uint64{8: 7, 9: 6})
	if o.outer(8) != 7 || o.outer(9) != 6 || o.outer(7) != 7 {
		t.Errorf("outer: %d, %d, %d", o.outer(8), o.outer(9), o.outer(7))
	}
	o.learn(map[uint64]uint64{8: 5}) // the address was used again
	if o.outer(8) != 5 {
		t.Errorf("outer of one that was learned again: %d", o.outer(8))
	}
	for i := range uint64(3 * maxObjects) {
		o.fresh(i + 1)
		o.learn(map[uint64]uint64{i: i})
	}
	if len(o.seen) > maxObjects || len(o.inner) > maxObjects {
		t.Errorf("%d and %d are kept", len(o.seen), len(o.inner))
	}
}
