// SPDX-License-Identifier: Apache-2.0

// What the timeline, its panels and its keys share.
import type { OpInfo } from './data'
import type { Picked } from './pick'

/** What panels can ask for. */
export interface Actions {
  /** Zooms to the selection. */
  fit: () => void
  /** Goes to the same operator in the step before or after, or to that step. */
  step: (run: number, dir: 1 | -1) => void
  goStep: (run: number, step: number) => void
  goOp: (run: number, op: OpInfo) => void
  goGraph: (run: number, graph: number) => void
  rangeOf: (run: number, from: number, to: number) => void
  /** The step of the other run at the same place. */
  partner: (run: number, step: number) => number
  clear: () => void
}

export interface Range {
  from: number
  to: number
}

/** What the strip and the ruler see and move of the timeline (timeline.ts). */
export interface Viewport {
  readonly t0: number
  readonly t1: number
  readonly bounds: Range
  selection: Picked | null
  range: Range | null
  show(from: number, to: number): void
  redraw(): void
  onChange: () => void
}
