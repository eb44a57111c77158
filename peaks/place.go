// SPDX-License-Identifier: Apache-2.0

package peaks

import (
	"cmp"
	"slices"
)

// kindsOf sorts CPUs by kind, the fastest first.
func kindsOf(units []cpuUnit) []Kind {
	speed := map[string]int64{}
	var kinds []Kind
	for _, u := range units {
		i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == u.kind })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, Kind{Name: u.kind})
			speed[u.kind] = u.speed
		}
		kinds[i].CPUs = append(kinds[i].CPUs, u.id)
	}
	slices.SortStableFunc(kinds, func(a, b Kind) int { return cmp.Compare(speed[b.Name], speed[a.Name]) })
	return kinds
}

// place orders CPUs as a scheduler with no other work fills them: one thread per core before second ones,
// fast cores before slow ones, alternating between caches and nodes.
func place(units []cpuUnit) []cpuUnit {
	kinds := kindsOf(units)
	kind := map[string]int{}
	for i, k := range kinds {
		kind[k.Name] = i
	}
	type key struct {
		rank, kind int
		cache      string
		node       int
	}
	turn := map[key]int{}
	nth := make(map[int]int, len(units)) // of its rank, kind, node and cache
	for _, u := range units {
		k := key{rank: u.rank, kind: kind[u.kind], cache: u.cache, node: u.node}
		nth[u.id] = turn[k]
		turn[k]++
	}
	out := slices.Clone(units)
	slices.SortStableFunc(out, func(a, b cpuUnit) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(kind[a.kind], kind[b.kind]),
			cmp.Compare(nth[a.id], nth[b.id]), cmp.Compare(a.node, b.node), cmp.Compare(a.id, b.id))
	})
	return out
}

// counts returns the numbers of threads to measure: all up to four; powers of two; the number of cores, and
// of cores of the fastest kind; all.
func counts(placed []cpuUnit) []int {
	n := len(placed)
	var out []int
	for i := 1; i <= min(n, 4); i++ {
		out = append(out, i)
	}
	for i := 8; i < n; i *= 2 {
		out = append(out, i)
	}
	cores, fast := 0, 0
	for _, u := range placed {
		if u.rank == 0 {
			cores++
			if u.kind == placed[0].kind {
				fast++
			}
		}
	}
	for _, c := range []int{cores, fast, n} {
		if c > 0 {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const (
	// times is the ratio of what the threads sharing a cache read together to its size; STREAM requires
	// arrays of four times the caches.
	times = 4
	// leastSet is the minimum that all threads read together: some systems have a cache behind those shown in
	// sysfs.
	leastSet = 256 << 20
)

// share is what each thread on these CPUs reads, bytes, so that those sharing a cache read four times its
// size together, and all threads at least as much as least.
func share(placed []cpuUnit, least int64) int64 {
	if len(placed) == 0 {
		return 0
	}
	users := map[string]int64{}
	for _, u := range placed {
		users[u.cache]++
	}
	each := least / int64(len(placed))
	for _, u := range placed {
		each = max(each, times*u.size/users[u.cache])
	}
	return (each + chunk - 1) / chunk * chunk
}
