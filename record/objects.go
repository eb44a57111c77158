// SPDX-License-Identifier: Apache-2.0

package record

import "maps"

// maxObjects bounds the backend objects of a process that are remembered.
const maxObjects = 1 << 10

// backendObjects are those of a process, as its marks name them.
type backendObjects struct {
	sched uint64            // the latest
	seen  map[uint64]bool   // that computed a graph
	inner map[uint64]uint64 // to which a backend passes a call on, with the backend's
}

// fresh says whether a backend object was not seen to compute before.
func (o *backendObjects) fresh(obj uint64) bool {
	if obj == 0 || o.seen[obj] {
		return false
	}
	if o.seen == nil || len(o.seen) >= maxObjects {
		o.seen = map[uint64]bool{}
	}
	o.seen[obj] = true
	return true
}

func (o *backendObjects) learn(inner map[uint64]uint64) {
	if len(inner) == 0 {
		return
	}
	if o.inner == nil || len(o.inner) >= maxObjects {
		o.inner = map[uint64]uint64{}
	}
	maps.Copy(o.inner, inner)
}

// outer returns the backend object of one to which a call was passed on; of any other, itself.
func (o *backendObjects) outer(obj uint64) uint64 {
	if b, ok := o.inner[obj]; ok {
		return b
	}
	return obj
}
