// SPDX-License-Identifier: Apache-2.0

// Where the page's data comes from: sections in the page itself, or the server that serves it. A section
// is gzipped by itself and unpacked when somebody looks at it.
import type { Index, Sections, Stats } from './types'

/** What the rows of statistics are grouped by. */
export type Grouping = keyof Stats

/** All recordings of the page. */
export interface Report {
  tool: string
  served: boolean
  runs: Run[]
}

/** One recording. */
export class Run {
  private cache = new Map<string, Promise<unknown>>()
  constructor(
    readonly index: number,
    readonly label: string,
    readonly file: string,
    private sections: Record<string, number>,
    private served: boolean,
  ) {}

  /**
   * Statistics by weight, op, layer, block and thread, each as `stat --json` gives it; unpacked at the start.
   */
  stats!: Stats

  has(name: string): boolean {
    return Object.hasOwn(this.sections, name)
  }

  /** A section's bytes, unpacked. Rejects if the run has no such section or it is damaged. */
  async bytes(name: string): Promise<ArrayBuffer> {
    if (!this.has(name)) throw new Error(`this recording has no section "${name}"`)
    const packed = this.served ? await fetched(this.index, name) : embedded(this.index, name)
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))
    return new Response(stream).arrayBuffer().catch(() => {
      throw new Error(`section ${name} is damaged`)
    })
  }

  /** A section of JSON, parsed once. */
  json<K extends keyof Sections>(name: K): Promise<Sections[K]> {
    let p = this.cache.get(name) as Promise<Sections[K]> | undefined
    if (!p) {
      p = this.bytes(name).then((b) => JSON.parse(new TextDecoder().decode(b)) as Sections[K])
      this.cache.set(name, p)
    }
    return p
  }
}

function embedded(run: number, name: string): Uint8Array<ArrayBuffer> {
  const text = document.getElementById(`s/${run}/${name}`)?.textContent
  if (text == null) throw new Error(`this file is truncated: section ${name} is missing`)
  const bin = atob(text)
  const out = new Uint8Array(bin.length)
  for (let i = 0; i < bin.length; i++) out[i] = bin.charCodeAt(i)
  return out
}

async function fetched(run: number, name: string): Promise<ArrayBuffer> {
  const res = await fetch(`data/${run}/${name}`).catch(() => {
    throw new Error('profinfer serve does not answer any more')
  })
  if (res.status === 403)
    throw new Error('profinfer serve was started again: open the address that it printed')
  if (!res.ok) throw new Error(`profinfer serve has no section ${name}: ${res.status}`)
  return res.arrayBuffer()
}

/** Reads the index and each run's statistics. */
export async function openReport(): Promise<Report> {
  const text = document.getElementById('index')?.textContent
  if (!text) throw new Error('this file is truncated: its index is missing')
  const index = JSON.parse(text) as Index
  const runs = index.runs.map((r, i) => new Run(i, r.label, r.file, r.sections, index.served))
  await Promise.all(runs.map(async (r) => (r.stats = await r.json('stat'))))
  return { tool: index.tool, served: index.served, runs }
}
