// SPDX-License-Identifier: Apache-2.0

// What tokens chose, unpacked: by column, which is a token or, in long runs, several.
import type { Run } from '../../../api/load'
import type {
  ExpertsLayer,
  ExpertsMapLayer,
  ExpertsMapPhase,
  ExpertsStat,
  SummaryPhase,
} from '../../../api/types'

/** All that the tab draws of one run in one phase. */
export interface Chosen {
  run: Run
  index: number
  name: string
  stat: ExpertsStat
  /** null: the page was made by an older profinfer. */
  map: ExpertsMapPhase | null
  data: ArrayBuffer | null
  /** Where its figures stand in `stat --json`. */
  at: string
}

/** The experts of a run's phase, null where it has none. */
export async function chosenOf(
  run: Run,
  index: number,
  name: string,
  p: SummaryPhase | null,
): Promise<Chosen | null> {
  if (!p?.experts) return null
  const at = `${p.phase}${p.model == null ? '' : '@' + p.model}.experts`
  if (!run.has('experts')) return { run, index, name, stat: p.experts, map: null, data: null, at }
  const all = await run.json('experts')
  const i = all.phases.findIndex((x) => x.phase === p.phase && x.model === p.model)
  if (i < 0) return { run, index, name, stat: p.experts, map: null, data: null, at }
  return { run, index, name, stat: p.experts, map: all.phases[i], data: await run.bytes(`experts/${i}`), at }
}

/** What a layer goes by in addresses and tables: two can have one number where contexts differ in experts. */
export function layerId(l: ExpertsLayer, all: ExpertsLayer[]): string {
  const name = l.layer == null ? 'none' : String(l.layer)
  return all.filter((x) => x.layer === l.layer).length > 1 ? `${name}:${l.experts}:${l.used}` : name
}

/** Where a token stands. */
export interface Place {
  /** Number of the (first) step. */
  step: number
  /** Of the last token of a column of several. */
  last: number
  /** Tokens of the column. */
  tokens: number
  /** The token among those of its step, from 0. */
  token: number
  /** Tokens of that step that came to the layer. */
  of: number
  /** In its sequence; null: not known. */
  pos: number | null
}

/** A layer's choices by column. */
export class Tokens {
  readonly columns: number
  readonly experts: number
  readonly used: number
  /** Tokens of a column, at most. */
  readonly wide: number
  private numbers: Uint8Array | Uint16Array | Uint32Array
  private first: number[] = [] // column at which each run of the axis begins
  private axis

  constructor(map: ExpertsMapPhase, layer: ExpertsMapLayer, data: ArrayBuffer) {
    this.columns = layer.columns
    this.experts = layer.experts
    this.used = layer.used
    this.wide = layer.tokens_per_column
    const n = layer.columns * (this.wide > 1 ? layer.experts : layer.used)
    const part = data.slice(layer.offset, layer.offset + n * layer.width) // slice: numbers have to be aligned
    this.numbers =
      layer.width === 1
        ? new Uint8Array(part)
        : layer.width === 2
          ? new Uint16Array(part)
          : new Uint32Array(part)
    this.axis = map.axes[layer.axis]
    let at = 0
    for (const k of this.axis.n) {
      this.first.push(at)
      at += this.wide > 1 ? 1 : k
    }
  }

  /** Where a column stands. */
  place(col: number): Place {
    let lo = 0
    let hi = this.first.length - 1
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1
      if (this.first[mid] <= col) lo = mid
      else hi = mid - 1
    }
    const a = this.axis
    if (this.wide > 1)
      return {
        step: a.step[lo],
        last: a.last?.[lo] ?? a.step[lo],
        tokens: a.n[lo],
        token: 0,
        of: a.n[lo],
        pos: null,
      }
    // A step can be more than one run: where positions do not go on.
    let from = lo
    while (from > 0 && a.step[from - 1] === a.step[lo]) from--
    let to = lo
    while (to + 1 < a.step.length && a.step[to + 1] === a.step[lo]) to++
    const k = col - this.first[lo]
    const pos = a.pos?.[lo] ?? -1
    return {
      step: a.step[lo],
      last: a.step[lo],
      tokens: 1,
      token: col - this.first[from],
      of: this.first[to] + a.n[to] - this.first[from],
      pos: pos < 0 ? null : pos + k,
    }
  }

  /**
   * Columns at which steps of several tokens begin, without the first; empty where columns are several tokens
   * or the steps are many.
   */
  starts(most: number): number[] {
    const a = this.axis
    if (this.wide > 1) return []
    const out = this.first.filter((_, i) => i > 0 && a.step[i] !== a.step[i - 1])
    return out.length <= most && out.length * 2 < this.columns ? out : []
  }

  /** The experts of a column that is one token, by rank. */
  chosen(col: number): number[] {
    return [...this.numbers.subarray(col * this.used, (col + 1) * this.used)]
  }

  /** Whether the token of a column chose an expert. */
  has(col: number, expert: number): boolean {
    const n = this.numbers
    for (let i = col * this.used, end = i + this.used; i < end; i++) if (n[i] === expert) return true
    return false
  }

  /** Adds to counts how many tokens of some columns chose each expert; returns how many tokens they are. */
  count(from: number, to: number, counts: Uint32Array): number {
    if (this.wide > 1) {
      let tokens = 0
      for (let c = from; c < to; c++) {
        tokens += this.axis.n[c]
        for (let e = 0, i = c * this.experts; e < this.experts; e++, i++) counts[e] += this.numbers[i]
      }
      return tokens
    }
    for (let i = from * this.used; i < to * this.used; i++) counts[this.numbers[i]]++
    return to - from
  }
}
