// SPDX-License-Identifier: Apache-2.0

// Decoding of chunks: decode.ts, in the worker.
import type { Task } from '../../api/task'
import type { OpChunk, OpsArg, SchedArg, SchedChunk } from './decode'

export const opsTask: Task<OpsArg, OpChunk> = { name: 'ops' }
export const schedTask: Task<SchedArg, SchedChunk> = { name: 'sched' }
