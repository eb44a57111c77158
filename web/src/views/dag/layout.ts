// SPDX-License-Identifier: Apache-2.0

// Places for what is drawn, computed in the worker. Each open group is laid out by itself, from the inside
// out, and is one box for what is around it: small graphs are laid out fast, and boxes never overlap. An
// edge that crosses a box's border does so at a port there.
import { layout as dagre, Graph } from '@dagrejs/dagre'

export interface LayoutRequest {
  nodes: { id: string; parent: string; w: number; h: number }[]
  frames: { id: string; parent: string }[]
  links: { from: string; to: string }[]
}

export interface Segment {
  /** Number in Ask.links of the first link it is a part of. */
  link: number
  from: string // id of the drawn thing whose value flows
  points: [number, number][]
  /** It ends at the one who reads, not at a border. */
  end: boolean
  /** It begins at the one who writes. */
  start: boolean
}

export interface GraphLayout {
  nodes: Record<string, [number, number]> // centres
  frames: Record<string, { x: number; y: number; w: number; h: number }>
  segments: Segment[]
  w: number
  h: number
  ms: number
  /** Links that are not drawn, as there are too many. */
  omitted: number
}

const pad = 14
const head = 26
/** What all the links of one box may bridge, in rows: more would take seconds. */
const maxSpan = 700

interface Box {
  id: string
  children: string[]
  links: Local[]
  w: number
  h: number
  at: Map<string, [number, number]> // of children and ports, from its corner
  segs: { l: Local; points: [number, number][] }[]
}

interface Local {
  a: string
  b: string
  from: string
  link: number
  start: boolean
  end: boolean
}

export function layoutGraph(ask: LayoutRequest): GraphLayout {
  const t0 = performance.now()
  const parent = new Map<string, string>()
  const size = new Map<string, [number, number]>()
  const boxes = new Map<string, Box>()
  const box = (id: string): Box => ({ id, children: [], links: [], w: 0, h: 0, at: new Map(), segs: [] })
  boxes.set('', box(''))
  for (const f of ask.frames) {
    boxes.set(f.id, box(f.id))
    parent.set(f.id, f.parent)
  }
  for (const n of ask.nodes) {
    parent.set(n.id, n.parent)
    size.set(n.id, [n.w, n.h])
  }
  for (const [id, p] of parent) boxes.get(p)?.children.push(id)
  const path = (id: string): string[] => {
    const out = [id]
    for (let p = parent.get(id); p; p = parent.get(p)) out.unshift(p)
    return out
  }
  const seen = new Set<string>()
  const add = (where: string, l: Local) => {
    const key = `${where}|${l.a}|${l.b}|${l.from}`
    if (seen.has(key)) return
    seen.add(key)
    boxes.get(where)!.links.push(l)
  }
  ask.links.forEach((l, link) => {
    const a = path(l.from)
    const b = path(l.to)
    if (!parent.has(l.from) || !parent.has(l.to)) return
    let k = 0
    while (k < a.length - 1 && k < b.length - 1 && a[k] === b[k]) k++
    // Out of the boxes around from, across, and into those around to.
    for (let i = a.length - 1; i > k; i--)
      add(a[i - 1], {
        a: a[i],
        b: `out:${l.from}`,
        from: l.from,
        link,
        start: i === a.length - 1,
        end: false,
      })
    add(k > 0 ? a[k - 1] : '', {
      a: a[k],
      b: b[k],
      from: l.from,
      link,
      start: k === a.length - 1,
      end: k === b.length - 1,
    })
    for (let i = k + 1; i < b.length; i++)
      add(b[i - 1], { a: `in:${l.from}`, b: b[i], from: l.from, link, start: false, end: i === b.length - 1 })
  })

  const out: GraphLayout = { nodes: {}, frames: {}, segments: [], w: 0, h: 0, ms: 0, omitted: 0 }
  const lay = (b: Box) => {
    for (const c of b.children) {
      const inner = boxes.get(c)
      if (inner) {
        lay(inner)
        size.set(c, [inner.w, inner.h])
      }
    }
    out.omitted += arrange(b, size, boxes)
  }
  const root = boxes.get('')!
  lay(root)
  const set = (b: Box, x: number, y: number) => {
    for (const c of b.children) {
      const [cx, cy] = b.at.get(c) ?? [0, 0]
      const inner = boxes.get(c)
      if (!inner) {
        out.nodes[c] = [x + cx, y + cy]
        continue
      }
      const f = { x: x + cx - inner.w / 2, y: y + cy - inner.h / 2, w: inner.w, h: inner.h }
      out.frames[c] = f
      set(inner, f.x, f.y)
    }
    for (const s of b.segs) {
      out.segments.push({
        link: s.l.link,
        from: s.l.from,
        start: s.l.start,
        end: s.l.end,
        points: s.points.map(([px, py]) => [x + px, y + py]),
      })
    }
  }
  set(root, 0, 0)
  out.w = root.w
  out.h = root.h
  out.ms = performance.now() - t0
  return out
}

const isPort = (id: string) => id.startsWith('in:') || id.startsWith('out:')

/** Lays out one box's children. Returns how many links were left out. */
function arrange(b: Box, size: Map<string, [number, number]>, boxes: Map<string, Box>): number {
  const g = new Graph({ multigraph: true })
  const few = b.children.length + b.links.length < 60
  g.setGraph({
    rankdir: 'TB',
    nodesep: 22,
    edgesep: 12,
    ranksep: few ? 34 : 28,
    ranker: few ? 'network-simplex' : 'tight-tree',
  })
  g.setDefaultEdgeLabel(() => ({}))
  for (const c of b.children) {
    const [width, height] = size.get(c)!
    g.setNode(c, { width, height })
  }
  const links = thin(b)
  let ins = false
  let outs = false
  for (const l of links) {
    for (const p of [l.a, l.b]) {
      if (!isPort(p) || g.hasNode(p)) continue
      g.setNode(p, { width: 2, height: 2 })
      if (p.startsWith('in:')) {
        if (!ins) g.setNode('in', { width: 0, height: 0 })
        ins = true
        g.setEdge('in', p, { weight: 20, minlen: 1 })
      } else {
        if (!outs) g.setNode('out', { width: 0, height: 0 })
        outs = true
        g.setEdge(p, 'out', { weight: 20, minlen: 1 })
      }
    }
  }
  for (const l of links) if (l.a !== l.b) g.setEdge(l.a, l.b, { minlen: 1 }, l.from)
  // What nothing leads to still begins at the top.
  dagre(g)
  let x0 = Infinity,
    y0 = Infinity,
    x1 = -Infinity,
    y1 = -Infinity
  const grow = (x: number, y: number, w = 0, h = 0) => {
    ;((x0 = Math.min(x0, x - w / 2)),
      (x1 = Math.max(x1, x + w / 2)),
      (y0 = Math.min(y0, y - h / 2)),
      (y1 = Math.max(y1, y + h / 2)))
  }
  let top = Infinity,
    bottom = -Infinity // of children, without ports
  for (const c of b.children) {
    const n = g.node(c) as { x: number; y: number; width: number; height: number }
    grow(n.x, n.y, n.width, n.height)
    top = Math.min(top, n.y - n.height / 2)
    bottom = Math.max(bottom, n.y + n.height / 2)
  }
  for (const e of g.edges()) {
    if (e.v === 'in' || e.w === 'out') continue
    for (const p of (g.edge(e) as { points?: { x: number; y: number }[] }).points ?? []) grow(p.x, p.y)
  }
  if (!Number.isFinite(x0)) x0 = y0 = x1 = y1 = 0
  const outer = b.id === '' ? 8 : pad
  if (b.id !== '') {
    y0 = Math.min(top - head - 10, ins ? y0 - head + 6 : Infinity)
    y1 = Math.max(bottom + pad, outs ? y1 + 2 : -Infinity)
  }
  const edge = b.id === '' ? 8 : 0
  const ox = outer - x0
  const oy = edge - y0
  b.w = x1 - x0 + 2 * outer
  b.h = y1 - y0 + 2 * edge
  if (b.id !== '') b.w = Math.max(b.w, 230)
  const shift = (b.w - (x1 - x0 + 2 * outer)) / 2
  for (const id of g.nodes()) {
    const n = g.node(id) as { x: number; y: number }
    if (id.startsWith('in:')) b.at.set(id, [n.x + ox + shift, 0])
    else if (id.startsWith('out:')) b.at.set(id, [n.x + ox + shift, b.h])
    else if (id !== 'in' && id !== 'out') b.at.set(id, [n.x + ox + shift, n.y + oy])
  }
  // A row is as high as its highest box: an edge that passes by goes straight down there, beside it.
  const half = new Map<number, number>()
  const row = (y: number) => Math.round(y)
  for (const c of b.children) {
    const n = g.node(c) as { y: number; height: number }
    half.set(row(n.y), Math.max(half.get(row(n.y)) ?? 0, n.height / 2))
  }
  const drawn: { l: Local; mid: [number, number][] }[] = []
  const into = new Map<string, { l: Local; x: number }[]>()
  for (const l of links) {
    if (l.a === l.b) continue
    const e = g.edge({ v: l.a, w: l.b, name: l.from }) as { points?: { x: number; y: number }[] } | undefined
    if (!e?.points?.length) continue
    const mid: [number, number][] = []
    for (const p of e.points.slice(1, -1)) {
      const h = half.get(row(p.y)) ?? 0
      mid.push([p.x + ox + shift, p.y - h + oy])
      if (h > 0) mid.push([p.x + ox + shift, p.y + h + oy])
    }
    if (mid.length > 1 && mid[0][1] > mid[mid.length - 1][1]) mid.length = 0 // upwards, of a circle
    drawn.push({ l, mid })
    if (!isPort(l.b)) {
      const list = into.get(l.b) ?? []
      list.push({ l, x: mid.length ? mid[mid.length - 1][0] : b.at.get(l.a)![0] })
      into.set(l.b, list)
    }
  }
  for (const list of into.values()) list.sort((p, q) => p.x - q.x)
  for (const { l, mid } of drawn) {
    const inner = (id: string, port: string): [number, number] | null => {
      const x = boxes.get(id)
      const at = b.at.get(id)
      const p = x?.at.get(port)
      return x && at && p ? [at[0] - x.w / 2 + p[0], at[1] - x.h / 2 + p[1]] : null
    }
    const pa = b.at.get(l.a)!
    const pb = b.at.get(l.b)!
    const down = isPort(l.a) || isPort(l.b) || pb[1] > pa[1]
    let from: [number, number]
    let to: [number, number]
    if (isPort(l.a)) from = pa
    else from = inner(l.a, `out:${l.from}`) ?? [pa[0], pa[1] + ((down ? 1 : -1) * size.get(l.a)![1]) / 2]
    if (isPort(l.b)) to = pb
    else {
      const list = into.get(l.b)!
      const [w, h] = size.get(l.b)!
      const gap = Math.min(28, (w - 24) / list.length)
      const i = list.findIndex((q) => q.l === l)
      to = inner(l.b, `in:${l.from}`) ?? [
        pb[0] + (i - (list.length - 1) / 2) * gap,
        pb[1] - ((down ? 1 : -1) * h) / 2,
      ]
    }
    b.segs.push({ l, points: [from, ...mid, to] })
  }
  return b.links.length - links.length
}

/** Leaves out the links that bridge most, where all of them would take too long. */
function thin(b: Box): Local[] {
  if (b.links.length <= 150) return b.links
  const index = new Map(b.children.map((c, i) => [c, i])) // children come in the graph's order
  const span = (l: Local) => Math.abs((index.get(l.a) ?? 0) - (index.get(l.b) ?? b.children.length))
  const sorted = [...b.links].sort((x, y) => span(x) - span(y))
  let sum = 0
  const pairs = new Set<string>()
  return sorted.filter((l) => {
    const pair = `${l.a}|${l.b}`
    if (pairs.has(pair) && sorted.length > 600) return false
    sum += span(l)
    if (sum > maxSpan) return false
    pairs.add(pair)
    return true
  })
}
