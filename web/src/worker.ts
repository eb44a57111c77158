// SPDX-License-Identifier: Apache-2.0

// The worker's side: handlers by name. Each returns its result and the buffers to hand over.

<<<<<<< HEAD
import { place, type Ask, type Places } from './dag/layout'
=======
import { timeHandlers } from './time/decode'
>>>>>>> 7b1ac2b (Draw the timeline on a canvas: tracks, zoom, selection, ranges, links)

/** What a handler returns. */
export interface Done<T> {
  result: T
  transfer?: Transferable[]
}

const handlers = {
  ping: (arg: string): Done<string> => ({ result: arg }),
<<<<<<< HEAD
  dagLayout: (arg: Ask): Done<Places> => ({ result: place(arg) }),
=======
  ...timeHandlers,
>>>>>>> 7b1ac2b (Draw the timeline on a canvas: tracks, zoom, selection, ranges, links)
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
