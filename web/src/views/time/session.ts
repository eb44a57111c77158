// SPDX-License-Identifier: Apache-2.0

// What the toolbar, keys and links do with the timeline.
import type { Actions } from './actions'
import { stepDuration, type OpInfo, type TimeData } from './data'
import { neighbour, nextOp, opById } from './find'
import { faultOf, type Picked } from './pick'
import type { Timeline } from './timeline'

export class Session implements Actions {
  query = ''
  status = ''
  phase: number
  align = 'decode'
  /** The address as it was written last: what comes back of it is no news. */
  written = ''
  onStatus: () => void = () => {}
  onSearch: () => void = () => {}
  onGo: () => void = () => {}
  private rank = -1
  private chosen = 0
  private before: Picked | null = null

  constructor(
    readonly t: Timeline,
    readonly datas: TimeData[],
  ) {
    const phase = datas[0].steps.phase
    this.phase = phase.includes(2) ? 2 : (phase[0] ?? 0)
    this.setAlign('decode', false)
    t.home(false)
  }

  /**
   * The run that search, numbers and slowest steps go by: that of the last selection, or the one that was
   * chosen since.
   */
  get run(): number {
    const p = this.t.selection
    if (p && p !== this.before) this.use(p.run)
    this.before = p
    return this.chosen
  }

  use(run: number): void {
    if (run !== this.chosen) this.rank = -1
    this.chosen = this.datas[run] ? run : 0
    this.before = this.t.selection
  }

  private say(text: string): void {
    this.status = text
    this.onStatus()
  }

  private rowOf(run: number, kind: 'steps' | 'thread', index: number): string {
    const d = this.datas[run]
    if (kind === 'thread')
      return this.t.rows.find((r) => r.run === run && r.kind === 'thread' && r.index === index)?.key ?? ''
    return (
      this.t.rows.find(
        (r) =>
          r.run === run &&
          r.kind === 'steps' &&
          r.group &&
          d.text(d.steps.ctx[index]) === r.group.name &&
          r.group.pid === (d.index.threads?.[d.steps.thread[index]]?.pid ?? 0),
      )?.key ?? ''
    )
  }

  /** Selects an operator and brings it into view. */
  private take(run: number, op: OpInfo, around = 0): void {
    const p: Picked = { what: 'op', run, op, row: this.rowOf(run, 'thread', op.spans[0]?.thread ?? -1) }
    this.t.range = null
    this.t.select(p)
    const s = this.t.shift[run]
    this.t.reveal(op.start + s, op.start + op.dur + s, around)
  }

  goStep = (run: number, step: number): void => {
    const d = this.datas[run]
    this.t.range = null
    this.t.select({ what: 'step', run, step, row: this.rowOf(run, 'steps', step) })
    const from = d.steps.start[step] + this.t.shift[run]
    this.t.reveal(from, from + d.steps.dur[step], 0.04)
  }

  goGraph = (run: number, graph: number): void => {
    const d = this.datas[run]
    const row =
      this.t.rows.find(
        (r) =>
          r.run === run && (r.kind === 'graphs' || r.kind === 'device') && r.group?.set.ref.includes(graph),
      )?.key ?? ''
    this.t.range = null
    this.t.select({ what: 'graph', run, graph, row })
    const from = d.graphs.start[graph] + this.t.shift[run]
    this.t.reveal(from, from + Math.max(d.graphs.dur[graph], 1), 0.5)
  }

  goOp = (run: number, op: OpInfo): void => this.take(run, op, 1)

  goNumber(n: number, run = this.run): void {
    const i = this.datas[run].steps.byId.get(n)
    if (i === undefined) return this.say(`there is no step ${Number.isFinite(n) ? n : ''}`)
    this.say('')
    this.goStep(run, i)
  }

  first(phase: number): void {
    const run = this.run
    const i = firstOf(this.datas[run], phase)
    if (i >= 0) this.goStep(run, i)
  }

  /** The phase's steps, the slowest first. */
  bySlowness(): number[] {
    const d = this.datas[this.run]
    const s = d.steps
    return Array.from(s.order)
      .filter((i) => s.phase[i] === this.phase)
      .sort((x, y) => stepDuration(d, y) - stepDuration(d, x))
  }

  /** 0: the slowest step of the phase, 1: the next. */
  slowest(next: 0 | 1): void {
    const order = this.bySlowness()
    if (!order.length) return
    this.rank = next ? (this.rank + 1) % order.length : 0
    this.say(order.length > 1 ? `${this.rank + 1} of ${order.length}` : '')
    this.goStep(this.run, order[this.rank])
  }

  step = (run: number, dir: 1 | -1): void => {
    const p = this.t.selection
    if (!p) return
    const d = this.datas[run]
    if (p.what === 'op') {
      this.say('looking …')
      void neighbour(d, p.op, dir).then((o) => {
        this.say(o ? '' : `no step ${dir > 0 ? 'after' : 'before'} has it`)
        if (o) this.take(run, o)
      })
    } else if (p.what === 'step') {
      const at = d.steps.place[p.step] + dir
      if (at >= 0 && at < d.steps.n) this.goStep(run, d.steps.order[at])
    }
  }

  fit = (): void => {
    const r = this.t.selected()
    if (r) this.t.reveal(r.from, r.to, 0.15)
  }

  rangeOf = (run: number, from: number, to: number): void => {
    const s = this.t.shift[run]
    this.t.selection = null
    this.t.setRange({ from: from + s, to: to + s })
  }

  clear = (): void => {
    this.t.range = null
    this.t.select(null)
  }

  async search(dir: 1 | -1): Promise<void> {
    if (!this.query.trim()) return this.onSearch()
    const p = this.t.selection
    const run = this.run
    const d = this.datas[run]
    const op = p?.what === 'op' && p.run === run ? p.op : null
    const mid = (this.t.t0 + this.t.t1) / 2 - this.t.shift[run]
    this.say('looking …')
    let o = await nextOp(d, this.query, op ? op.start : mid, dir, op?.id)
    let wrapped = ''
    if (!o) {
      o = await nextOp(d, this.query, dir > 0 ? -Infinity : Infinity, dir)
      if (o) wrapped = dir > 0 ? 'from the start again' : 'from the end again'
    }
    this.say(o ? wrapped : `no operator is called ${this.query}${d.left ? ' in this file' : ''}`)
    if (o) this.take(run, o)
  }

  /** A step of each run that stand one below the other. */
  private anchors(): [number, number] {
    const of = (d: TimeData): number => {
      if (this.align === 'decode') return firstOf(d, 2)
      if (this.align === 'step') return d.steps.order[0] ?? -1
      return d.steps.byId.get(Number(this.align)) ?? -1
    }
    return this.datas.length > 1 ? [of(this.datas[0]), of(this.datas[1])] : [-1, -1]
  }

  setAlign(to: string, tell = true): void {
    if (!/^(decode|step|start|\d{1,12})$/.test(to)) return
    this.align = to
    if (this.datas.length < 2) return
    const [a, b] = to === 'start' ? [-1, -1] : this.anchors()
    this.t.shift[1] = a >= 0 && b >= 0 ? this.datas[0].steps.start[a] - this.datas[1].steps.start[b] : 0
    this.t.redraw()
    if (tell) this.t.onChange()
  }

  /** The same number of steps after the one that the runs are aligned at, within the phase. */
  partner = (run: number, step: number): number => {
    const [d, e] = [this.datas[run], this.datas[1 - run]]
    if (!e) return -1
    const phase = d.steps.phase[step]
    const mine = Array.from(d.steps.order).filter((i) => d.steps.phase[i] === phase)
    const theirs = Array.from(e.steps.order).filter((i) => e.steps.phase[i] === phase)
    const pair = this.anchors()
    const [a, b] = run === 0 ? pair : [pair[1], pair[0]]
    const from = a >= 0 && d.steps.phase[a] === phase ? mine.indexOf(a) : 0
    const to = b >= 0 && e.steps.phase[b] === phase ? theirs.indexOf(b) : 0
    return theirs[to + mine.indexOf(step) - from] ?? -1
  }

  /** The view and what is selected, as parameters of a link. */
  params(): Record<string, string | undefined> {
    const t = this.t
    const out: Record<string, string | undefined> = {
      t0: String(Math.round(t.t0)),
      t1: String(Math.round(t.t1)),
    }
    const p = t.selection
    if (p?.what === 'op') out[p.run ? 'selb' : 'sel'] = String(p.op.id)
    else if (p?.what === 'step') out[p.run ? 'atb' : 'at'] = String(this.datas[p.run].steps.id[p.step])
    else if (p?.what === 'fault') out[p.run ? 'faultb' : 'fault'] = String(p.fault)
    if (t.range) out.range = `${Math.round(t.range.from)}-${Math.round(t.range.to)}`
    if (this.datas.length > 1 && this.align !== 'decode') out.align = this.align
    if (this.run !== (p?.run ?? 0)) out.of = String(this.run)
    if (t.level) out.color = t.level.metric.id
    return out
  }

  /**
   * Does what a link says: what is seen and selected, then which run is gone by, if that is not the
   * selection's.
   */
  async open(p: Record<string, string>): Promise<void> {
    await this.follow(p)
    if (p.of === '0' || p.of === '1') this.use(Number(p.of))
    else this.use(this.t.selection?.run ?? 0)
  }

  /** t0 and t1, or step=N, or op=NAME; what is selected; a range. */
  private async follow(p: Record<string, string>): Promise<void> {
    this.written = location.hash
    const num = (s: string | undefined) => (s !== undefined && /^-?\d{1,18}$/.test(s) ? Number(s) : null)
    this.setAlign(p.align || 'decode', false)
    this.t.colour(p.color || null)
    const t0 = num(p.t0)
    const t1 = num(p.t1)
    const seen = t0 !== null && t1 !== null && t1 > t0
    if (seen) this.t.show(t0, t1, false)
    const range = /^(-?\d{1,18})-(-?\d{1,18})$/.exec(p.range ?? '')
    if (range && Number(range[2]) > Number(range[1])) {
      this.t.range = { from: Number(range[1]), to: Number(range[2]) }
      this.t.selection = null
      if (!seen) this.fit()
      else this.t.setRange(this.t.range)
      return
    }
    const step = num(p.step)
    if (step !== null && !p.op && !p.q) return this.goNumber(step, 0)
    for (const run of [0, 1]) {
      const at = num(run ? p.atb : p.at)
      const d = this.datas[run]
      if (at === null || !d) continue
      const i = d.steps.byId.get(at)
      if (i === undefined) continue
      if (!seen) return this.goStep(run, i)
      this.t.range = null
      return this.t.select({ what: 'step', run, step: i, row: this.rowOf(run, 'steps', i) })
    }
    for (const run of [0, 1]) {
      const id = num(run ? p.selb : p.sel)
      const d = this.datas[run]
      if (id === null || !d) continue
      const now = this.t.selection
      if (now?.what === 'op' && now.run === run && now.op.id === id) return
      const o = await opById(d, id)
      if (!o) return this.say(`operator ${id} is not in this file`)
      if (!seen) return this.take(run, o, 3)
      this.t.range = null
      return this.t.select({
        what: 'op',
        run,
        op: o,
        row: this.rowOf(run, 'thread', o.spans[0]?.thread ?? -1),
      })
    }
    for (const run of [0, 1]) {
      const i = num(run ? p.faultb : p.fault)
      const m = this.datas[run]?.faults?.m
      if (i === null || !m) continue
      if (!(i >= 0 && i < m.start_ns.length)) return this.say(`there is no page fault ${i}`)
      const thread = (this.datas[run].index.threads ?? []).findIndex(
        (t) => t.pid === m.pid[i] && t.tid === m.tid[i],
      )
      this.t.range = null
      this.t.select(faultOf(this.datas[run], i, { run, row: this.rowOf(run, 'thread', thread) }))
      if (!seen) this.fit()
      return
    }
    const name = p.op || p.q
    if (name) {
      this.query = name
      const d = this.datas[0]
      const i = step !== null ? d.steps.byId.get(step) : undefined
      const from = i !== undefined ? d.steps.start[i] : -Infinity
      const o = await nextOp(d, name, from, 1)
      this.say(o ? '' : `no operator is called ${name}${d.left ? ' in this file' : ''}`)
      if (o) this.take(0, o, 3)
      return
    }
    // An address without a selection has none: the one before is gone.
    this.t.range = null
    this.t.select(null, false)
    if (!seen) this.t.home()
  }

  /** A key; false if it means nothing here. */
  key(key: string): boolean {
    const t = this.t
    switch (key) {
      case 'w':
        t.zoom(0.75)
        break
      case 's':
        t.zoom(1 / 0.75)
        break
      case 'a':
      case 'ArrowLeft':
        t.pan(-0.12)
        break
      case 'd':
      case 'ArrowRight':
        t.pan(0.12)
        break
      case 'ArrowUp':
        t.scroll.scrollTop -= 40
        break
      case 'ArrowDown':
        t.scroll.scrollTop += 40
        break
      case 'PageUp':
        t.pan(-0.9)
        break
      case 'PageDown':
        t.pan(0.9)
        break
      case 'Home':
        t.home()
        break
      case 'f':
        this.fit()
        break
      case '[':
        this.step(t.selection?.run ?? 0, -1)
        break
      case ']':
        this.step(t.selection?.run ?? 0, 1)
        break
      case '/':
        this.onSearch()
        break
      case 'g':
        this.onGo()
        break
      case 'n':
        void this.search(1)
        break
      case 'N':
        void this.search(-1)
        break
      case 'Escape':
        this.clear()
        return false
      default:
        return false
    }
    return true
  }
}

function firstOf(d: TimeData, phase: number): number {
  for (const i of d.steps.order) if (d.steps.phase[i] === phase) return i
  return -1
}
