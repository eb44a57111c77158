// SPDX-License-Identifier: Apache-2.0

// Page faults: what memory was for, and which of their figures a map shows.
import type { MemoryFaultCell, MemoryFaultSum } from '../api/types'

/** What pages of a class are for. */
const classes: Record<string, string> = {
  expert: 'experts',
  weight: 'other weights',
  cache: 'KV cache',
  compute: 'compute buffer',
  file: 'files, in no tensor',
  program: 'program, libraries',
  stack: 'stack',
  other: 'elsewhere',
}

export const memoryClassName = (c: string): string => (Object.hasOwn(classes, c) ? classes[c] : classes.other)

/** What can be shown of faults in a map. */
export type FaultFigure = 'major' | 'time' | 'read'

export const values: [FaultFigure, string][] = [
  ['time', 'thread time'],
  ['major', 'major faults'],
  ['read', 'read'],
]

export const faultValue = (c: MemoryFaultCell | MemoryFaultSum, v: FaultFigure): number | null =>
  v === 'major' ? c.major : v === 'time' ? c.wait_ns : c.read_bytes
