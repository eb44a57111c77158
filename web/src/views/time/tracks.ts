// SPDX-License-Identifier: Apache-2.0

// Graphs, and tracks of spans.
import type { SpanSet } from './spans'

export interface Graphs {
  n: number
  id: Float64Array
  step: Float64Array
  start: Float64Array
  dur: Float64Array
  thread: Float64Array
  split: Float64Array
  backend: Float64Array
  nodes: Float64Array
  ops: Float64Array
  shape: Float64Array
  flags: Float64Array
  untraced: Float64Array
  /** Number of the graph of another process that had it computed; 0: none. */
  caller: Float64Array
  byId: Map<number, number>
}

/** A track of steps or graphs: ref is the index of the step or graph. */
export interface Group {
  pid: number
  name: string
  set: SpanSet
  /** Graphs of another backend than the CPU. */
  device?: boolean
}
