// SPDX-License-Identifier: Apache-2.0

// The section "faults" (profile/memory/faults_series.go), and "faults" of stat --json (profile/memory/faults_stat.go): times in ns, sizes in bytes,
// null what is not known.

export interface FaultSum {
  class: string
  name?: string
  type?: string
  major: number
  minor: number
  wait_ns: number | null
  read_bytes: number
}

export interface FaultPhase {
  phase: string
  in_step: boolean
  steps: number
  steps_with_major: number
  dur_ns: number
  major: number
  minor: number
  wait_ns: number | null
  wall_ns: number | null
  share: number | null
  read_bytes: number
}

/** What stat --json has. */
export interface FaultStat {
  which: string
  timed: boolean
  major: number | null
  minor: number | null
  major_seen: number
  major_no_address: number | null
  own_major: number | null
  major_before: number | null
  wait_ns: number | null
  read_bytes: number | null
  read_faults_bytes: number
  classes: FaultSum[]
  names: FaultSum[]
  phases: FaultPhase[]
}

/** The section; null where faults were not recorded. */
export interface Faults {
  timed: boolean
  phases: { phase: string; steps_per_point: number; steps: FaultPoint[] }[]
  names: FaultRow[]
  names_left_out: number
  experts: FaultExperts[]
  operators: DelayedOperator[]
  operators_left_out: number
  files: FileMap[]
}

export interface FaultPoint {
  step: number
  n: number
  worst: number
  pid: number
  start_ns: number
  dur_ns: number
  major: number
  wait_ns: number | null
  wall_ns: number | null
  read_bytes: number
}

export interface FaultCell {
  layer: number
  major: number
  minor: number
  wait_ns: number | null
  read_bytes: number
}

export interface FaultRow extends FaultSum {
  layers: FaultCell[]
}

export interface FaultExperts {
  pid: number
  experts: number
  layers: { layer: number; bytes: number; major: number[]; wait_ns: number[] | null; read_bytes: number[]; in_end_bytes: number[] | null }[]
  layers_left_out: number
}

export interface DelayedOperator {
  phase: string
  in_step: boolean
  key: string
  type: string
  weight: boolean
  calls: number
  faulted: number
  dur_ns: number
  major: number
  wait_ns: number | null
  delay_ns: number | null
  share: number | null
  read_bytes: number
}

export interface FileGroup {
  layer: number | null
  name: string
  offset: number
  bytes: number
  start: number[] | null
  end: number[] | null
  stayed: number[] | null
}

export interface FileTensor {
  name: string
  class: string
  type: string
  layer: number | null
  group: number
  offset: number
  bytes: number
  in_start_bytes: number | null
  in_end_bytes: number | null
  stayed_bytes: number | null
}

export interface FileMap {
  pid: number
  path: string
  bytes: number
  page_bytes: number
  in_start_bytes: number | null
  in_end_bytes: number | null
  stayed_bytes: number | null
  failed?: string
  mapped: boolean
  graphs_seen: boolean
  cell_bytes: number
  groups: FileGroup[]
  tensors: FileTensor[]
  tensors_left_out: number
}

/** The section "faults/marks": faults one by one, a column each (profile.FaultMarks). */
export interface FaultMarks {
  left_out: number
  strings: string[]
  start_ns: number[]
  dur_ns: number[]
  pid: number[]
  tid: number[]
  major: number[]
  address: string[]
  class: number[]
  tensor: number[]
  type: number[]
  file: number[]
  expert: number[]
  read_bytes: number[]
  step: number[]
  op: number[]
}

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

export const className = (c: string): string => (Object.hasOwn(classes, c) ? classes[c] : classes.other)

/** What can be shown of faults in a map. */
export type Value = 'major' | 'time' | 'read'

export const values: [Value, string][] = [['time', 'thread time'], ['major', 'major faults'], ['read', 'read']]

export const valueOf = (c: FaultCell | FaultSum, v: Value): number | null => (v === 'major' ? c.major : v === 'time' ? c.wait_ns : c.read_bytes)
