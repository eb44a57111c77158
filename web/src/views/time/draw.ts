// SPDX-License-Identifier: Apache-2.0

// Draws the tracks: spans as pixels (raster.ts), then labels. What is too dense for spans is drawn as stacked
// shares of each pixel's time.
import { clean, dur, num } from '../../lib/format'
import type { Chunk, TimeData } from './data'
import { drawFaults } from './faults'
import { Writer, type Label } from './labels'
import type { Palette } from './palette'
import { css, Pattern, type Raster } from './raster'
import type { Row } from './rows'
import { stateStripHeight } from './pick'
import { lengthClass, spansWithin, type Bins, type SpanSet } from './spans'
import { maxRate, rateOf, runnerName, stepLabel } from './steps'

/**
 * What is looked at: time at the left edge and device pixels a nanosecond, in the first run's time. shift is
 * what is added to a run's time to get it.
 */
export interface View {
  t0: number
  scale: number
  shift: number[]
}

/** Chunks that are asked for at a time; a wider view is drawn from the overview. */
export const maxVisible = 48

export class Painter {
  /** A row's labels come from these, made once a run. */
  private names = new Map<TimeData, { text: string[]; shade: Uint8Array }>()
  private labels: Label[] = []
  private writer = new Writer()
  private view: View = { t0: 0, scale: 1, shift: [] }
  private off = 0 // from a run's time to pixels
  /** A part of what is visible was drawn from the overview for want of its chunk. */
  coarse = false

  constructor(readonly raster: Raster) {}

  /** Draws everything between scrollTop and the raster's end. */
  frame(
    ctx: CanvasRenderingContext2D,
    rows: Row[],
    datas: TimeData[],
    view: View,
    p: Palette,
    scrollTop: number,
    ticks: number[],
  ): void {
    const r = this.raster
    const u = r.unit
    this.view = view
    this.labels = []
    this.coarse = false
    r.clear(p.bg)
    for (const t of ticks) {
      const x = Math.round((t - view.t0) * view.scale)
      if (x >= 0 && x < r.w) r.column(x, 0, r.h, p.grid)
    }
    const visible = datas.map((d, run) => this.visible(d, run))
    for (const row of rows) {
      const y = Math.round((row.y - scrollTop) * u)
      const h = Math.round(row.h * u)
      if (y >= r.h || y + h <= 0) continue
      const d = datas[row.run]
      this.off = view.shift[row.run] - view.t0
      if (row.kind === 'group' || row.kind === 'run') {
        r.rect(0, y, r.w, y + h, p.panel)
        r.rect(0, y + h - 1, r.w, y + h, p.line)
        if (row.kind === 'run')
          this.labels.push({ x: 0, w: r.w, y: y + h / 2, text: row.title, color: p.text })
        continue
      }
      this.row(row, d, visible[row.run], p, y, h)
    }
    const end = rows.length
      ? Math.round((rows[rows.length - 1].y + rows[rows.length - 1].h - scrollTop) * u)
      : 0
    r.rect(0, end, r.w, r.h, p.bg)
    datas.forEach((d, run) => this.losses(d, run, rows, p, scrollTop))
    r.put(ctx)
    this.writer.write(ctx, this.labels, u)
  }

  private visible(d: TimeData, run: number): Chunk[] {
    const r = this.raster
    const from = this.view.t0 - this.view.shift[run]
    const list = d.chunksIn(from, from + r.w / this.view.scale)
    const ops = list.filter((i) => d.chunks[i].kind === 'ops')
    const few = ops.length <= maxVisible ? ops : []
    const sched = list.filter((i) => d.chunks[i].kind === 'sched')
    const all = sched.length <= maxVisible ? few.concat(sched) : few
    const mid = from + r.w / this.view.scale / 2
    const far = (i: number) => Math.abs(d.chunks[i].start_ns + d.chunks[i].dur_ns / 2 - mid)
    d.want([...all].sort((a, b) => far(a) - far(b)))
    const out: Chunk[] = []
    for (const i of all) {
      const c = d.peek(i)
      if (c) out.push(c)
    }
    if (out.length < list.length) this.coarse = true
    return out
  }

  private x(t: number): number {
    return Math.round((t + this.off) * this.view.scale)
  }

  private row(row: Row, d: TimeData, chunks: Chunk[], p: Palette, y: number, h: number): void {
    const u = this.raster.unit
    const top = y + u
    const bottom = y + h - 2 * u
    switch (row.kind) {
      case 'steps':
        return this.lane(row.group!.set, top, bottom, {
          fill: (k) => p.phase[k] ?? p.phase[0],
          stack: [...p.phase, p.wait],
          stackPattern: [...p.phase.map(() => null), Pattern.Diagonal],
          patternInk: [...p.phase.map(() => 0), p.waitInk],
          wait: p.wait,
          waitInk: p.waitInk,
          ink: (k) => p.phaseInk[k] ?? p.text,
          label: (i) => stepLabel(d, row.group!.set.ref[i]),
          after: (i, x0, x1) => {
            const s = row.group!.set.ref[i]
            if (d.steps.incomplete[s] || d.steps.untraced[s])
              this.raster.pattern(x0, top, x1, bottom, p.warn, Pattern.Diagonal, 6)
          },
          edge: p.bg,
        })
      case 'graphs':
        return this.lane(row.group!.set, top, bottom, {
          fill: () => p.graph,
          stack: [p.graph],
          ink: () => p.text,
          label: (i) =>
            d.graphs.nodes[row.group!.set.ref[i]] > 0 ? `${d.graphs.nodes[row.group!.set.ref[i]]} nodes` : '',
          edge: p.bg,
        })
      case 'device': {
        const c = p.backend(row.group!.name)
        return this.lane(row.group!.set, top, bottom, {
          fill: () => c.fill,
          stack: [c.fill, c.rest],
          stackPattern: [null, Pattern.Diagonal],
          patternInk: [0, c.fill],
          ink: () => c.ink,
          label: (i, s) => deviceLabel(d, s.ref[i]),
          wait: c.rest,
          waitInk: c.fill,
          edge: p.bg,
        })
      }
      case 'copies':
        return this.lane(row.group!.set, top, bottom, {
          fill: () => p.copy,
          stack: [p.copy],
          ink: () => css(p.bg),
          label: (i, s) => copyLabel(d, s.ref[i]),
          edge: p.bg,
        })
      case 'rate':
        return this.rate(row, d, p, y, h)
      case 'cpu': {
        const o: Look = {
          fill: (k, i, s) =>
            k === 0 ? p.own[d.index.runners![s.ref[i]].thread & 3] : k === 1 ? p.other : p.bg,
          stack: [p.own[0], p.other, p.lost],
          stackPattern: [null, Pattern.Bars, Pattern.Dots],
          patternInk: [0, p.bg, p.bg],
          ink: (k, i, s) =>
            k === 0 ? p.ownInk[d.index.runners![s.ref[i]].thread & 3] : k === 1 ? p.otherInk : p.text,
          label: (i, s) => runnerName(d, s.ref[i]),
          after: (i, x0, x1, s) => {
            if (s.kind[i] === 2) this.raster.pattern(x0, top, x1, bottom, p.lost, Pattern.Dots)
          },
          edge: p.bg,
        }
        const sets = chunks.flatMap((c) =>
          c.kind === 'sched' ? c.cpus.filter((l) => l.index === row.index).map((l) => l.set) : [],
        )
        this.between(d.cpuBins.get(row.index), sets, top, bottom, o)
        for (const s of sets) this.lane(s, top, bottom, o, p.bg)
        return
      }
      case 'thread':
        return this.thread(row, d, chunks, p, y, h)
    }
  }

  private thread(row: Row, d: TimeData, chunks: Chunk[], p: Palette, y: number, h: number): void {
    const r = this.raster
    const u = r.unit
    const top = y + 2 * u
    const bottom = y + h - stateStripHeight * u
    const strip = y + h - 2 * u
    let names = this.names.get(d)
    if (!names)
      this.names.set(
        d,
        (names = {
          text: d.defs.map((o) => clean(o.label) + (o.layer != null ? ` · ${o.layer}` : '')),
          shade: shades(d),
        }),
      )
    const { text, shade } = names
    const o: Look = {
      fill: (k) => p.kind[k] ?? p.kind[p.kind.length - 1],
      stack: [...p.kind, p.wait, p.off],
      stackPattern: [null, null, null, null, null, null, null, Pattern.Diagonal, Pattern.Cross],
      patternInk: [0, 0, 0, 0, 0, 0, 0, p.waitInk, p.offInk],
      ink: (k) => p.kindInk[k] ?? p.text,
      wait: p.wait,
      waitInk: p.waitInk,
      edges: p.kindEdge,
      edge: p.bg,
    }
    const lanes = chunks.flatMap((c) =>
      c.kind === 'ops' ? c.lanes.filter((l) => l.index === row.index).map((l) => ({ c, s: l.set })) : [],
    )
    // The overview knows kinds of operators only.
    this.between(
      d.threadBins.get(row.index),
      lanes.map((l) => l.s),
      top,
      bottom,
      p.leveled ? { ...o, stack: [...p.kind.map(() => p.graph), p.wait, p.off] } : o,
    )
    for (const { c, s } of lanes) {
      const color = (k: number, span: number) =>
        p.shades[k]?.[shade[c.def[c.op[span]]]] ?? p.kind[p.kind.length - 1]
      this.lane(
        s,
        top,
        bottom,
        {
          ...o,
          fill: (k, i, s) => color(k, s.ref[i]),
          label: (i, s) => text[c.def[c.op[s.ref[i]]]],
          ground: (i, s) => (c.off[s.ref[i]] > 0 ? css(color(s.kind[i] & 127, s.ref[i])) : undefined),
        },
        p.bg,
      )
    }
    // Its states: a strip below. Where it was on no CPU within an operator, the operator is crossed out.
    for (const c of chunks) {
      if (c.kind !== 'sched') continue
      const l = c.states.find((l) => l.index === row.index)
      if (!l) continue
      this.lane(l.set, bottom + u, strip, {
        fill: (k) => p.state[k] ?? p.bg,
        stack: p.state,
        stackPattern: [null, Pattern.Diagonal, Pattern.Diagonal, null, Pattern.Bars],
        patternInk: [0, p.fg, p.fg, 0, p.fg],
        ink: () => p.text,
        after: (i, x0, x1, s) => {
          const state = s.kind[i]
          if (state === 1 || state === 2) r.pattern(x0, bottom + u, x1, strip, p.fg, Pattern.Diagonal)
          if (state === 4) r.pattern(x0, bottom + u, x1, strip, p.fg, Pattern.Bars)
          if (state > 0 && x1 - x0 >= 2) r.pattern(x0, top, x1, bottom, p.bg, Pattern.Cross, 6)
        },
        edge: p.bg,
      })
    }
    const faults = d.faults?.byThread.get(row.index)
    if (faults) drawFaults(r, faults, this.off, this.view.scale, bottom, p.fault, p.bg)
  }

  /** The overview, where no chunk tells more. */
  private between(b: Bins | undefined, sets: SpanSet[], y0: number, y1: number, o: Look): void {
    const known = sets.filter((s) => s.n).map((s) => [this.x(s.start[0]), this.x(s.end[s.n - 1])])
    known.sort((p, q) => p[0] - q[0])
    let x = 0
    for (const [a, e] of known) {
      if (a > x + 1) this.density(b, x, a, y0, y1, o)
      x = Math.max(x, e)
    }
    this.density(b, x, this.raster.w, y0, y1, o)
  }

  /**
   * Spans of one lane, as spans where they are few enough and as shares where not. ground clears what the
   * overview drew there.
   */
  private lane(s: SpanSet, y0: number, y1: number, o: Look, ground?: number): void {
    const r = this.raster
    const { scale } = this.view
    const from = -this.off
    const to = from + r.w / scale
    if (!s.n || s.start[0] >= to) return
    const [lo, hi] = spansWithin(s, from, to)
    if (hi <= lo) return
    const x0 = Math.max(0, this.x(s.start[lo]))
    const x1 = Math.min(r.w, Math.max(x0 + 1, this.x(s.end[hi - 1])))
    if (hi - lo <= (x1 - x0) * 0.8 + 4) {
      // One line of pixels, repeated downwards; then what is not the same on each line. A row's top can lie
      // above the picture.
      const line = Math.max(0, y0)
      if (line >= y1) return
      if (ground !== undefined) r.rect(x0, line, x1, line + 1, ground)
      for (let i = lo; i < hi; i++) this.solid(s, i, line, line + 1, x1, o)
      r.copyDown(x0, x1, line, y1)
      for (let i = lo; i < hi; i++) this.patterned(s, i, y0, y1, x1, o)
      return
    }
    if (ground !== undefined) r.rect(x0, y0, x1, y1, ground)
    this.density(s.bins, x0, x1, y0, y1, o)
    // Longer ones stand out of the shares as what they are.
    for (let k = lengthClass(3 / scale); k + 1 < s.lengthAt.length; k++) {
      const end = s.lengthAt[k + 1]
      let a = s.lengthAt[k]
      let b = end
      while (a < b) {
        const m = (a + b) >> 1
        if (s.byLength[m] < lo) a = m + 1
        else b = m
      }
      for (; a < end && s.byLength[a] < hi; a++) {
        this.solid(s, s.byLength[a], y0, y1, r.w, o)
        this.patterned(s, s.byLength[a], y0, y1, r.w, o)
      }
    }
  }

  /** A span's own colours. Nothing is drawn from x = max on. */
  private solid(s: SpanSet, i: number, y0: number, y1: number, max: number, o: Look): void {
    const r = this.raster
    const k = s.kind[i] & 127
    const x0 = this.x(s.start[i])
    const xm = Math.min(max, Math.max(x0 + 1, this.x(s.mid[i])))
    if (xm <= 0 || x0 >= r.w) {
      if (o.wait !== undefined) r.rect(xm, y0, Math.min(max, this.x(s.end[i])), y1, o.wait)
      return
    }
    r.rect(x0, y0, xm, y1, o.fill(k, i, s))
    if (xm - x0 >= 4 && o.edges) r.rect(x0, y0, x0 + 1, y1, o.edges[k] ?? o.edge)
    else if (xm - x0 >= 3 && !o.edges) r.rect(x0, y0, x0 + 1, y1, o.edge)
    if (o.wait !== undefined) r.rect(xm, y0, Math.min(max, this.x(s.end[i])), y1, o.wait)
  }

  /** A span's patterns and label. */
  private patterned(s: SpanSet, i: number, y0: number, y1: number, max: number, o: Look): void {
    const r = this.raster
    const k = s.kind[i]
    const x0 = this.x(s.start[i])
    const xm = Math.max(x0 + 1, this.x(s.mid[i]))
    const x1 = Math.min(max, Math.max(x0 + 1, this.x(s.end[i])))
    if (x1 <= 0 || x0 >= r.w) return
    if (k & 128) r.pattern(x0, y0, Math.min(xm, max), y1, o.edge, Pattern.Bars)
    if (x1 > xm && o.waitInk !== undefined) r.pattern(xm, y0, x1, y1, o.waitInk, Pattern.Diagonal)
    o.after?.(i, Math.max(0, x0), x1, s)
    const w = Math.min(xm, r.w) - Math.max(0, x0)
    if (o.label && w >= 26 * r.unit)
      this.labels.push({
        x: Math.max(0, x0),
        w,
        y: (y0 + y1) / 2,
        text: o.label(i, s),
        color: o.ink(k & 127, i, s),
        ground: o.ground?.(i, s),
      })
  }

  /** Shares of each pixel's time, stacked. */
  private density(b: Bins | undefined, x0: number, x1: number, y0: number, y1: number, o: Look): void {
    if (!b) return
    const r = this.raster
    const per = 1 / this.view.scale // ns a pixel
    const c = b.chans
    const used = b.used
    let level = 0
    while (level + 1 < b.levels.length && b.width * 2 ** (level + 1) <= per) level++
    const cells = b.levels[level]
    const width = b.width * 2 ** level
    const count = cells.length / c
    const h = y1 - y0
    const low = Math.min(y1, r.h)
    const sum = new Float64Array(c)
    const first = Math.floor((b.start + this.off) * this.view.scale)
    const end = Math.ceil((b.start + count * width + this.off) * this.view.scale)
    x0 = Math.max(x0, first, 0)
    x1 = Math.min(x1, end, r.w)
    for (let x = x0; x < x1; x++) {
      const ta = x * per - this.off - b.start
      const tb = ta + per
      let i = Math.max(0, Math.floor(ta / width))
      const e = Math.min(count - 1, Math.floor(tb / width))
      sum.fill(0)
      for (; i <= e; i++) {
        const f = (Math.min(tb, (i + 1) * width) - Math.max(ta, i * width)) / width
        if (f <= 0) continue
        const at = i * c
        for (let j = 0; j < used.length; j++) sum[used[j]] += cells[at + used[j]] * f
      }
      let acc = 0
      let y = y1
      let most = -1
      for (let j = 0; j < used.length; j++) {
        const k = used[j]
        if (sum[k] <= 0) continue
        if (most < 0 || sum[k] > sum[most]) most = k
        acc += sum[k]
        const up = y1 - Math.round(h * Math.min(1, acc / per))
        if (up < y) {
          const pat = o.stackPattern?.[k]
          if (pat != null)
            r.patternColumn(x, Math.max(0, up), Math.min(low, y), o.stack[k], o.patternInk![k], pat)
          else r.column(x, Math.max(0, up), Math.min(low, y), o.stack[k] ?? o.stack[0])
          y = up
        }
      }
      if (y === y1 && y1 <= r.h && y1 > 0 && most >= 0) r.column(x, y1 - 1, y1, o.stack[most] ?? o.stack[0])
    }
  }

  /** Decode rates as a line of steps, from 0 to the highest. */
  private rate(row: Row, d: TimeData, p: Palette, y: number, h: number): void {
    const r = this.raster
    const u = r.unit
    const set = row.group!.set
    const max = maxRate(d, set)
    if (!(max > 0)) return
    const { scale } = this.view
    const from = -this.off
    const [lo, hi] = spansWithin(set, from, from + r.w / scale)
    const bottom = y + h - 3 * u
    const full = h - 6 * u
    r.rect(0, bottom, r.w, bottom + 1, p.grid)
    let px = -1
    let least = 0
    let most = 0
    const flush = (x1: number) => {
      if (px < 0) return
      const a = bottom - Math.round((full * most) / max)
      const b = bottom - Math.round((full * least) / max)
      r.rect(px, a, Math.max(px + 1, x1), Math.max(a + u, b), p.phase[2])
      if (x1 - px > 1) r.rect(px, a + u, x1, bottom, p.grid)
      if (x1 - px > 44 * u && a + 14 * u < bottom)
        this.labels.push({ x: px, w: Math.min(x1, r.w) - px, y: a + 9 * u, text: num(most), color: p.dim })
    }
    let until = -1
    for (let i = lo; i < hi; i++) {
      if (set.kind[i] !== 2) continue
      const s = set.ref[i]
      const v = rateOf(d, s)
      if (v == null) continue
      const x = Math.max(0, this.x(set.start[i]))
      if (x !== px) {
        flush(until)
        px = x
        least = most = v
      } else {
        least = Math.min(least, v)
        most = Math.max(most, v)
      }
      until = this.x(set.end[i])
    }
    flush(until)
  }

  private losses(d: TimeData, run: number, rows: Row[], p: Palette, scrollTop: number): void {
    if (!d.index.losses?.length) return
    const r = this.raster
    const u = r.unit
    const own = rows.filter((o) => o.run === run)
    if (!own.length) return
    const y0 = Math.round((own[0].y - scrollTop) * u)
    const end = own[own.length - 1]
    const y1 = Math.round((end.y + end.h - scrollTop) * u)
    this.off = this.view.shift[run] - this.view.t0
    let drawn = -1
    for (const l of d.index.losses) {
      const x0 = Math.max(this.x(l.start_ns), drawn)
      const x1 = Math.max(this.x(l.start_ns) + 2 * u, this.x(l.start_ns + l.dur_ns))
      if (x1 <= 0 || x0 >= r.w || x1 <= x0) continue
      r.pattern(Math.max(0, x0), y0, x1, y1, p.warn, Pattern.Diagonal, 9)
      drawn = x1
      // The reason stands in the process's line.
      const line = own.find((o) => o.kind === 'group')
      if (line) {
        const left = Math.max(0, x0)
        this.labels.push({
          x: left,
          w: Math.min(r.w, x1) - left,
          y: Math.round((line.y + line.h / 2 - scrollTop) * u),
          text: clean(l.why),
          color: p.text,
        })
      }
    }
  }
}

interface Look {
  fill: (kind: number, i: number, s: SpanSet) => number
  ink: (kind: number, i: number, s: SpanSet) => string
  label?: (i: number, s: SpanSet) => string
  ground?: (i: number, s: SpanSet) => string | undefined
  after?: (i: number, x0: number, x1: number, s: SpanSet) => void
  stack: number[]
  stackPattern?: (Pattern | null)[]
  patternInk?: number[]
  edge: number
  edges?: number[]
  wait?: number
  waitInk?: number
}

/** Which shade of its kind an operator has: by what it is called, in order of appearance. */
function shades(d: TimeData): Uint8Array {
  const next: Record<number, number> = {}
  const by = new Map<string, number>()
  return Uint8Array.from(d.defs, (o) => {
    const key = o.kind + o.label
    let n = by.get(key)
    if (n === undefined) by.set(key, (n = next[o.kind] = ((next[o.kind] ?? -1) + 1) % 3))
    return n
  })
}

function deviceLabel(d: TimeData, g: number): string {
  const tail = d.waits.get(g)?.tail
  const n = d.graphs.nodes[g]
  return `${n > 0 ? `${n} nodes · ` : ''}${tail != null ? '≤ ' : ''}${dur(d.graphs.dur[g] + Math.max(0, tail ?? 0))}`
}

const copyLabel = (d: TimeData, c: number): string => clean(d.text(d.copies.tensor[c])) || 'copy'
