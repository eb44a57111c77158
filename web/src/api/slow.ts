// SPDX-License-Identifier: Apache-2.0

// The section "slow": what `stat --slow --json` gives, without the run.

export interface Who {
  comm: string
  ns: number
  ran_ns: number
  pid?: number
}

export interface SlowPart {
  cause: string
  ns: number
  share: number
  who?: Who[]
  estimate?: boolean
}

export interface SlowOp {
  name: string
  layer: number | null
  op: string
  dur_ns: number
  usual_ns: number
  most: string
}

export interface SlowStep {
  step: number
  pid: number
  phase: string
  position: number | null
  tokens: number | null
  start_ns: number
  dur_ns: number
  baseline_ns: number
  excess_ns: number
  excess_share: number
  neighbours: number
  typical: number
  parts: SlowPart[]
  operators: SlowOp[]
  migrations: number | null
  graph_rebuilt: boolean
  doubts: string[]
}

export interface Paid {
  name: string
  tid?: number
  ns: number
}

export interface Interferer {
  comm: string
  own: boolean
  pid?: number
  ran_ns: number
  held_ns?: number
  kernel?: boolean
  times: number
  cost_ns: number
  cpus: number[]
  operators: Paid[]
  displaced: Paid[]
  waited: Paid[]
}

export interface MovedThread {
  tid: number
  migrations: number
  preempted: number
}

export interface CPUState {
  cpu: number
  steal_ns: number | null
  min_khz: number | null
  max_khz: number | null
}

export interface Slow {
  over_share: number
  over_ns: number
  steps: number
  dur_ns: number
  partial_steps: number
  steps_without_neighbours: number
  slow_steps: number
  slow_ns: number
  excess_ns: number
  causes: SlowPart[]
  listed: SlowStep[]
  next_share: number | null
  has_sched: boolean
  has_operators: boolean
  interference: {
    by: Interferer[]
    cost_ns: number
    ran_ns: number
    disk_ns: number
    sleep_ns: number
    migrations: number | null
    threads: MovedThread[]
    cpus: CPUState[]
  }
}
