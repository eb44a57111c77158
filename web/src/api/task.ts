// SPDX-License-Identifier: Apache-2.0

// What the page and its worker know of each other: tasks by name, with what goes in and what comes out.

/** A task of the worker. Both sides take it from one constant, so that they agree on its types. */
export interface Task<Arg, Result> {
  name: string
  /** Types only: never set. */
  types?: [Arg, Result]
}

/** What a task returns in the worker: its result, and the buffers to hand over instead of copying. */
export interface Done<T> {
  result: T
  transfer?: Transferable[]
}
