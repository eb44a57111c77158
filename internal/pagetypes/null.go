// SPDX-License-Identifier: Apache-2.0

package main

import "reflect"

// lists are those that can be null: nobody makes them where they are empty. All others are at least empty
// lists, which TestSections proves of every made-up recording.
var lists = map[string]bool{
	"Timeline.Processes": true, "Timeline.Threads": true, "Timeline.CPUs": true, "Timeline.Runners": true,
	"Timeline.Ops":     true,
	"Timeline.Strings": true, "Timeline.Chunks": true, "Timeline.Losses": true,
	"TimelineOverview.Tracks": true,
	// Faults' times were not taken; pages in memory could not be looked at.
	"MemoryFaultExpertLayer.Wait": true, "MemoryFaultExpertLayer.InEnd": true, "MemoryFileGroup.Start": true,
	"MemoryFileGroup.End": true, "MemoryFileGroup.Stayed": true,
}

// set are pointers that are never nil: all groupings are there, and series of requests, if only empty ones.
var set = map[string]bool{
	"Stats.Block": true, "Stats.Layer": true, "Stats.Op": true, "Stats.Thread": true, "Stats.Weight": true,
	"Series.Requests": true,
}

// alwaysSet are string types of whose constants one is always there: not the empty string.
var alwaysSet = map[string]bool{"FactsBy": true, "DagNodeKind": true}

// canBeNull reports whether a field can be null in JSON.
func canBeNull(t reflect.Type, f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Pointer:
		return !set[nameOf(t)+"."+f.Name]
	case reflect.Slice, reflect.Map:
		return lists[nameOf(t)+"."+f.Name]
	}
	return false
}
