// SPDX-License-Identifier: Apache-2.0

// Places for what is drawn, computed in the worker. Each open group is laid out by itself, from the inside
// out, and is one box for what is around it: small graphs are laid out fast, and boxes never overlap. An
// edge that crosses a box's border does so at a port there.
import { Graph, layout as dagre } from '@dagrejs/dagre'

export interface Ask {
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

export interface Places {
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
const maxSpan = 4000

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

export function place(ask: Ask): Places {
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
    for (let i = a.length - 1; i > k; i--) add(a[i - 1], { a: a[i], b: `out:${l.from}`, from: l.from, link, start: i === a.length - 1, end: false })
    add(k > 0 ? a[k - 1] : '', { a: a[k], b: b[k], from: l.from, link, start: k === a.length - 1, end: k === b.length - 1 })
    for (let i = k + 1; i < b.length; i++) add(b[i - 1], { a: `in:${l.from}`, b: b[i], from: l.from, link, start: false, end: i === b.length - 1 })
  })

  const out: Places = { nodes: {}, frames: {}, segments: [], w: 0, h: 0, ms: 0, omitted: 0 }
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
      out.segments.push({ link: s.l.link, from: s.l.from, start: s.l.start, end: s.l.end, points: s.points.map(([px, py]) => [x + px, y + py]) })
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
  g.setGraph({ rankdir: 'TB', nodesep: 22, edgesep: 12, ranksep: few ? 30 : 26, ranker: few ? 'network-simplex' : 'tight-tree' })
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
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity
  const grow = (x: number, y: number, w = 0, h = 0) => {
    x0 = Math.min(x0, x - w / 2), x1 = Math.max(x1, x + w / 2), y0 = Math.min(y0, y - h / 2), y1 = Math.max(y1, y + h / 2)
  }
  for (const c of b.children) {
    const n = g.node(c) as { x: number; y: number; width: number; height: number }
    grow(n.x, n.y, n.width, n.height)
  }
  for (const e of g.edges()) {
    if (e.v === 'in' || e.w === 'out') continue
    for (const p of (g.edge(e) as { points?: { x: number; y: number }[] }).points ?? []) grow(p.x, p.y)
  }
  if (!Number.isFinite(x0)) x0 = y0 = x1 = y1 = 0
  const outer = b.id === '' ? 8 : pad
  const up = b.id === '' ? 8 : head + (ins ? 12 : 8)
  const down = b.id === '' ? 8 : outs ? 16 : pad
  const ox = outer - x0
  const oy = up - y0
  b.w = x1 - x0 + 2 * outer
  b.h = y1 - y0 + up + down
  if (b.id !== '') b.w = Math.max(b.w, 230)
  const shift = (b.w - (x1 - x0 + 2 * outer)) / 2
  for (const id of g.nodes()) {
    const n = g.node(id) as { x: number; y: number }
    if (id.startsWith('in:')) b.at.set(id, [n.x + ox + shift, 0])
    else if (id.startsWith('out:')) b.at.set(id, [n.x + ox + shift, b.h])
    else if (id !== 'in' && id !== 'out') b.at.set(id, [n.x + ox + shift, n.y + oy])
  }
  for (const l of links) {
    if (l.a === l.b) continue
    const e = g.edge({ v: l.a, w: l.b, name: l.from }) as { points?: { x: number; y: number }[] } | undefined
    if (!e?.points?.length) continue
    const points = e.points.map((p) => [p.x + ox + shift, p.y + oy] as [number, number])
    const first = points[0]
    const last = points[points.length - 1]
    // Where it passes a border, the border's port says where.
    const port = (id: string, of: string, end: boolean): [number, number] | null => {
      if (isPort(id)) return b.at.get(id) ?? null
      const inner = boxes.get(id)
      const at = b.at.get(id)
      const p = inner?.at.get(of)
      if (!inner || !at || !p) return null
      return [at[0] - inner.w / 2 + p[0], at[1] + (end ? -1 : 1) * (inner.h / 2)]
    }
    const s = port(l.a, `out:${l.from}`, false)
    const t = port(l.b, `in:${l.from}`, true)
    if (s) (first[0] = s[0]), (first[1] = s[1])
    else {
      const [x, y] = b.at.get(l.a)!
      const [w, h] = size.get(l.a)!
      first[0] = Math.min(x + w / 2 - 8, Math.max(x - w / 2 + 8, first[0]))
      first[1] = y + (last[1] >= first[1] ? h / 2 : -h / 2)
    }
    if (t) (last[0] = t[0]), (last[1] = t[1])
    else {
      const [x, y] = b.at.get(l.b)!
      const [w, h] = size.get(l.b)!
      last[0] = Math.min(x + w / 2 - 8, Math.max(x - w / 2 + 8, last[0]))
      last[1] = y - (last[1] >= first[1] ? h / 2 : -h / 2)
    }
    b.segs.push({ l, points })
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
