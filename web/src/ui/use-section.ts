// SPDX-License-Identifier: Apache-2.0

// Loading sections of the data for a component: what comes late, for another run or after the component is
// gone, is dropped.
import { useEffect, useState } from 'preact/hooks'
import type { Run } from '../api/load'
import type { Sections } from '../api/types'

export interface Loaded<T> {
  /** undefined: not there yet, or it cannot be had. */
  data?: T
  /** Why it cannot be had; empty: it can. */
  error: string
}

/** What load gives; key says what of, so that it is loaded again for another. */
export function useLoaded<T>(key: string, load: () => Promise<T>): Loaded<T> {
  const [got, set] = useState<Loaded<T> & { key: string }>({ key, error: '' })
  useEffect(() => {
    let live = true
    load().then(
      (data) => live && set({ key, data, error: '' }),
      (e) => live && set({ key, error: String(e?.message ?? e) }),
    )
    return () => void (live = false)
  }, [key])
  return got.key === key ? got : { error: '' }
}

const keyOf = (name: string, runs: Run[]): string => [name, ...runs.map((r) => r.index)].join()

/** A section of each run. */
export const useSections = <K extends keyof Sections>(name: K, runs: Run[]): Loaded<Sections[K][]> =>
  useLoaded(keyOf(name, runs), () => Promise.all(runs.map((r) => r.json(name))))

/** A section of each run, null where a run has none. */
export const useSectionsIfAny = <K extends keyof Sections>(
  name: K,
  runs: Run[],
): Loaded<(Sections[K] | null)[]> =>
  useLoaded(keyOf(name, runs), () => Promise.all(runs.map((r) => (r.has(name) ? r.json(name) : null))))
