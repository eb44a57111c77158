// SPDX-License-Identifier: Apache-2.0

import type { Stat, StatRow } from '../stat-types'

/** What another process on the machine computed for the steps of one phase (profile/stat/remote.go): times are means of a graph, ns. */
export interface RemoteStat {
  phase: string
  backend: string
  client_pid: number
  server_pid: number
  client_comm: string
  server_comm: string
  steps: number
  graphs: number
  unlinked_graphs: number
  sent_ns: number
  queued_ns: number
  server_ns: number
  operators_ns: number | null
  waited_graphs: number
  client_ns: number | null
  answered_ns: number | null
  wire_ns: number | null
  to_server_bytes_per_step: number | null
  from_server_bytes_per_step: number | null
  step_until_done_ns: number | null
  tokens_per_s: number | null
  wait_share: number | null
  off_cpu_share: number | null
  rows: StatRow[] | null
}

/** The list, empty where no other process was seen to compute. */
export const remoteOf = (s: Stat): RemoteStat[] => (s as Stat & { remote?: RemoteStat[] }).remote ?? []
