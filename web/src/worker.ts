// SPDX-License-Identifier: Apache-2.0

// The worker's side: handlers by name. Each returns its result and the buffers to hand over.

import { place, type Ask, type Places } from './dag/layout'
import { timeHandlers } from './time/decode'

/** What a handler returns. */
export interface Done<T> {
  result: T
  transfer?: Transferable[]
}

const handlers = {
  dagLayout: (arg: Ask): Done<Places> => ({ result: place(arg) }),
  ...timeHandlers,
}

export type Handlers = typeof handlers

self.onmessage = async (m: MessageEvent<{ id: number; kind: keyof Handlers; arg: unknown }>) => {
  const { id, kind, arg } = m.data
  try {
    const f = handlers[kind] as (a: unknown) => Done<unknown> | Promise<Done<unknown>>
    const d = await f(arg)
    postMessage({ id, result: d.result }, { transfer: d.transfer ?? [] })
  } catch (e) {
    postMessage({ id, error: String((e as Error)?.message ?? e) })
  }
}
