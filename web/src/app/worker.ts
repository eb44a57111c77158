// SPDX-License-Identifier: Apache-2.0

// The worker's side: a function for each task.
import type { Done, Task } from '../api/task'
import { layoutGraph } from '../views/dag/layout'
import { layoutTask } from '../views/dag/task'
import { timeOps, timeSched } from '../views/time/decode'
import { opsTask, schedTask } from '../views/time/tasks'

const handlers = new Map<string, (arg: never) => Done<unknown>>()
const handle = <A, R>(task: Task<A, R>, f: (arg: A) => Done<R>) => handlers.set(task.name, f)

handle(layoutTask, (arg) => ({ result: layoutGraph(arg) }))
handle(opsTask, timeOps)
handle(schedTask, timeSched)

self.onmessage = (m: MessageEvent<{ id: number; name: string; arg: never }>) => {
  const { id, name, arg } = m.data
  try {
    const d = handlers.get(name)!(arg)
    postMessage({ id, result: d.result }, { transfer: d.transfer ?? [] })
  } catch (e) {
    postMessage({ id, error: String((e as Error)?.message ?? e) })
  }
}
