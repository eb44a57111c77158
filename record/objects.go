// SPDX-License-Identifier: Apache-2.0

package record

import "maps"

// maxObjects bounds the remembered backend objects of a process.
const maxObjects = 1 << 10

// backendObjects are the backend objects of a process, as named by its marks.
type backendObjects struct {
	sched uint64            // the latest
	seen  map[uint64]bool   // that computed a graph
	inner map[uint64]uint64 // objects to which a backend forwards a call, with the backend's object
}

// fresh reports whether a backend object was not seen to compute before.
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

// outer returns the backend object behind one to which a call was forwarded; any other object is returned
// unchanged.
func (o *backendObjects) outer(obj uint64) uint64 {
	if b, ok := o.inner[obj]; ok {
		return b
	}
	return obj
}
