// SPDX-License-Identifier: Apache-2.0

// Heavy work off the thread that draws: one worker, made of the text that stands in the page.
import type { Task } from './task'

type Pending = { resolve: (v: unknown) => void; reject: (e: Error) => void }
const pending = new Map<number, Pending>()
let worker: Worker | null = null
let next = 1

function start(): Worker {
  const text = document.getElementById('worker')?.textContent
  if (!text) throw new Error('this file is truncated: its worker is missing')
  const w = new Worker(URL.createObjectURL(new Blob([text], { type: 'text/javascript' })))
  w.onmessage = (m: MessageEvent<{ id: number; result?: unknown; error?: string }>) => {
    const p = pending.get(m.data.id)
    pending.delete(m.data.id)
    if (m.data.error !== undefined) p?.reject(new Error(m.data.error))
    else p?.resolve(m.data.result)
  }
  w.onerror = (e) => {
    for (const p of pending.values()) p.reject(new Error(e.message || 'the worker ended'))
    pending.clear()
    worker = null
  }
  return w
}

/** Runs a task in the worker; transfer lists buffers that are given away. */
export function work<A, R>(task: Task<A, R>, arg: A, transfer: Transferable[] = []): Promise<R> {
  const id = next++
  return new Promise((resolve, reject) => {
    worker ??= start()
    worker.postMessage({ id, name: task.name, arg }, transfer)
    pending.set(id, { resolve: resolve as (v: unknown) => void, reject })
  })
}
