// SPDX-License-Identifier: Apache-2.0

// From the tensors of a DAG to what is drawn: layers that are alike become one, what ran as one is one, views
// and weights are left out or not, and everything stands in a tree of groups that can be opened.
import { operatorKinds, type DAG, type DagNode, type DagNodeKind } from '../../api/types'

/** What a reader chose to see. */
export interface Choice {
  all: boolean // every layer by itself
  layer: number | null // this layer's figures in place of all layers'
  views: boolean
  weights: boolean
  inputs: boolean
}

/** Something that can be drawn: an operator or tensor, or a group of them. */
export interface Item {
  id: string
  parent: string // '' at the top
  kind: DagNodeKind | 'group'
  title: string
  /** The nodes it stands for: of a folded layer, one of each layer; of a group, all inside. */
  ids: number[]
  /** The one that is shown for all; -1 of a group. */
  rep: number
  /** Place in the graph's order. */
  order: number
  children: string[]
  /** How many layers it stands for, 1 if it is not folded. */
  times: number
  /** Number in DAG.kinds, and of what role; -1: none. */
  kindAt: number
  role: number
  /** Of a group: what it is. */
  group?: 'layer' | 'block' | 'chunk'
}

export interface Link {
  from: string
  to: string
  kind: 'data' | 'weight' | 'cache' | 'input' | 'write' | 'copy' | 'view'
  bytes: number | null
}

export interface Drawn {
  items: Map<string, Item>
  top: string[]
  links: Link[]
  /** Kinds whose layers follow one another again: the way back is not drawn. */
  hidden: { views: number; idle: number; weights: number; inputs: number }
}

/** Children that a group shows at most; more are put into groups of consecutive ones. */
export const maxChildren = 120

/** 0–3, 5 of 0 1 2 3 5; 0, 2 … 24 of every second; of many how many there are beyond the first. */
export function ranges(v: number[]): string {
  const by = v[1] - v[0]
  if (v.length > 3 && by > 1 && v.every((x, i) => x === v[0] + i * by))
    return `${v[0]}, ${v[1]} … ${v[v.length - 1]}`
  const out: string[] = []
  for (let i = 0; i < v.length;) {
    let k = i
    while (k + 1 < v.length && v[k + 1] === v[k] + 1) k++
    out.push(k === i ? `${v[i]}` : `${v[i]}–${v[k]}`)
    i = k + 1
  }
  return out.length > 6 ? `${out.slice(0, 5).join(', ')}, +${out.length - 5} more` : out.join(', ')
}

const blockTitle: Record<string, string> = { attention: 'attention', ffn: 'ffn', moe: 'moe' }

export function buildGraph(d: DAG, choice: Choice): Drawn {
  const items = new Map<string, Item>()
  const hidden = { views: 0, idle: 0, weights: 0, inputs: 0 }
  const shown = (n: DagNode): boolean => {
    switch (n.kind) {
      case 'view':
        return choice.views
      case 'idle':
        return choice.views
      case 'weight':
        return choice.weights
      case 'input':
        return choice.inputs
    }
    return true
  }
  // The node that stands for it: what ran as one is one.
  const head = (i: number): number => {
    for (let n = 0; n < 8 && d.nodes[i].fused_into >= 0 && d.nodes[i].fused_into !== i; n++)
      i = d.nodes[i].fused_into
    return i
  }
  // Which layer's kind and role each node is.
  const roleOf = new Map<number, [number, number]>()
  const kindOfLayer = new Map<number, number>()
  d.kinds.forEach((k, ki) => {
    k.layers.forEach((l) => kindOfLayer.set(l, ki))
    k.roles.forEach((r, ri) => r.nodes.forEach((n) => n >= 0 && roleOf.set(n, [ki, ri])))
  })
  const folded = (ki: number) => !choice.all && d.kinds[ki].layers.length > 1
  const pickedIn = (ki: number): number =>
    choice.layer == null ? -1 : d.kinds[ki].layers.indexOf(choice.layer)

  /** The id of what stands for a node in the drawing; '' if nothing does. */
  const idOf: string[] = new Array(d.nodes.length).fill('')
  const group = (
    id: string,
    parent: string,
    title: string,
    g: Item['group'],
    kindAt = -1,
    times = 1,
  ): Item => {
    let x = items.get(id)
    if (!x) {
      x = {
        id,
        parent,
        kind: 'group',
        title,
        ids: [],
        rep: -1,
        order: Infinity,
        children: [],
        times,
        kindAt,
        role: -1,
        group: g,
      }
      items.set(id, x)
    }
    return x
  }
  d.nodes.forEach((n, i) => {
    if (head(i) !== i) return
    if (!shown(n)) {
      hidden[
        n.kind === 'view' ? 'views' : n.kind === 'idle' ? 'idle' : n.kind === 'weight' ? 'weights' : 'inputs'
      ]++
      return
    }
    const role = roleOf.get(i)
    let parent = ''
    let id = `n${i}`
    let title = titleOf(d, i)
    let times = 1
    if (n.layer != null) {
      const ki = kindOfLayer.get(n.layer) ?? -1
      let layer: Item
      if (ki >= 0 && folded(ki)) {
        if (!role) return
        const k = d.kinds[ki]
        const at = pickedIn(ki)
        if (at >= 0 && k.layers[at] !== n.layer) {
          idOf[i] = `k${ki}r${role[1]}` // its edges are the same
          return
        }
        times = at >= 0 ? 1 : k.layers.length
        layer = group(
          `k${ki}`,
          '',
          at >= 0 ? `layer ${choice.layer} of ${ranges(k.layers)}` : `layers ${ranges(k.layers)}`,
          'layer',
          ki,
          times,
        )
        id = `k${ki}r${role[1]}`
        title = k.roles[role[1]].name + (n.kind === 'weight' && n.name.endsWith('.weight') ? '.weight' : '')
      } else {
        layer = group(`L${n.layer}`, '', `layer ${n.layer}`, 'layer', ki)
        if (role && n.kind === 'op') title = d.kinds[role[0]].roles[role[1]].name
      }
      parent = layer.id
      if (n.section)
        parent = group(
          `${layer.id}.${n.section}`,
          layer.id,
          blockTitle[n.section] ?? n.section,
          'block',
          layer.kindAt,
          layer.times,
        ).id
    }
    idOf[i] = id
    const x = items.get(id)
    if (x) {
      x.ids.push(i)
      return
    }
    items.set(id, {
      id,
      parent,
      kind: n.kind,
      title,
      ids: [i],
      rep: i,
      order: i,
      children: [],
      times,
      kindAt: role?.[0] ?? -1,
      role: role?.[1] ?? -1,
    })
  })
  // Edges of a layer whose figures are not shown may name roles that the shown one lacks.
  for (let i = 0; i < idOf.length; i++) if (idOf[i] && !items.has(idOf[i])) idOf[i] = ''

  const links = linksOf(d, head, idOf, kindOfLayer, folded)
  // Leaves are numbered behind all nodes: they belong before whoever uses them.
  const leaf = (x: Item | undefined) => x && (x.kind === 'cache' || x.kind === 'weight' || x.kind === 'input')
  const first = new Map<string, number>()
  for (const l of links) {
    for (const [a, b] of [
      [l.from, l.to],
      [l.to, l.from],
    ]) {
      if (leaf(items.get(a)) && !leaf(items.get(b)))
        first.set(a, Math.min(first.get(a) ?? Infinity, items.get(b)!.order))
    }
  }
  for (const [id, at] of first) items.get(id)!.order = at - 0.5
  const top = tree(items)
  return { items, top, links, hidden }
}

/** What an operator or tensor is called: by its weight, else by its own name. */
function titleOf(d: DAG, i: number): string {
  const n = d.nodes[i]
  if (n.kind === 'weight') return n.name
  if (n.kind === 'op' && n.weight >= 0 && n.stat_key && operatorKinds[n.op_kind] !== 'copy') return n.stat_key
  if (n.kind === 'cache') return n.base || n.name
  return n.name || n.op
}

function linksOf(
  d: DAG,
  head: (i: number) => number,
  idOf: string[],
  kindOfLayer: Map<number, number>,
  folded: (k: number) => boolean,
): Link[] {
  const into: number[][] = d.nodes.map(() => [])
  d.edges.forEach((e, i) => into[e.to]?.push(i))
  const out = new Map<string, Link>()
  // A folded layer's edges to the next one lead back to itself: they are not drawn.
  const back = (a: number, b: number): boolean => {
    const la = d.nodes[a].layer
    const lb = d.nodes[b].layer
    if (la == null || lb == null || la === lb) return false
    const ka = kindOfLayer.get(la) ?? -1
    const kb = kindOfLayer.get(lb) ?? -1
    if (ka < 0 || kb < 0 || (!folded(ka) && !folded(kb))) return false
    return ka === kb || d.kinds[ka].layers[0] > d.kinds[kb].layers[0]
  }
  const add = (a: number, b: number, kind: Link['kind'], bytes: number | null) => {
    const from = idOf[a]
    const to = idOf[b]
    if (!from || !to || from === to || back(a, b)) return
    const key = `${from}>${to}`
    const l = out.get(key)
    if (!l) out.set(key, { from, to, kind, bytes })
    else if (bytes != null && (l.bytes == null || bytes > l.bytes)) l.bytes = bytes
  }
  /** The shown nodes whose values come to be source s, through what is not shown. */
  const origins = (s: number, seen: Set<number>, f: (n: number) => void) => {
    s = head(s)
    if (seen.has(s)) return
    seen.add(s)
    if (idOf[s]) return f(s)
    const k = d.nodes[s].kind
    if (k !== 'view' && k !== 'idle') return
    for (const e of into[s]) origins(d.edges[e].from, seen, f)
  }
  d.nodes.forEach((n, i) => {
    const h = head(i)
    if (!idOf[h]) return
    for (const ei of into[i]) {
      const e = d.edges[ei]
      if (head(e.from) === h) continue
      origins(e.from, new Set([h]), (s) => {
        const from = d.nodes[s]
        if (e.kind === 'write') {
          if (from.kind === 'cache') add(h, s, 'write', null)
          return
        }
        const kind =
          from.kind === 'weight' || from.kind === 'cache' || from.kind === 'input'
            ? from.kind
            : n.kind === 'view'
              ? 'view'
              : e.kind === 'copy'
                ? 'copy'
                : 'data'
        add(s, h, kind, e.bytes ?? from.tensor_bytes)
      })
    }
  })
  return [...out.values()]
}

/** Puts items below their groups, and too many of them into groups of consecutive ones. */
function tree(items: Map<string, Item>): string[] {
  const top: string[] = []
  for (const x of items.values()) {
    if (x.kind === 'group') continue
    for (let p = x.parent; p; p = items.get(p)!.parent) {
      const g = items.get(p)!
      g.order = Math.min(g.order, x.order)
      for (const n of x.ids) g.ids.push(n)
    }
  }
  for (const x of items.values()) (x.parent ? items.get(x.parent)!.children : top).push(x.id)
  const byOrder = (a: string, b: string) => items.get(a)!.order - items.get(b)!.order
  const part = (children: string[], parent: string): string[] => {
    children.sort(byOrder)
    for (let level = 0; children.length > maxChildren; level++) {
      const size = Math.min(100, Math.ceil(Math.sqrt(children.length)) * 2)
      const next: string[] = []
      for (let i = 0; i < children.length; i += size) {
        const inside = children.slice(i, i + size)
        const id = `${parent || 'g'}c${level}_${i / size}`
        const x: Item = {
          id,
          parent,
          kind: 'group',
          title: '',
          ids: [],
          rep: -1,
          order: items.get(inside[0])!.order,
          children: inside,
          times: 1,
          kindAt: -1,
          role: -1,
          group: 'chunk',
        }
        let last = x.order
        for (const c of inside) {
          const child = items.get(c)!
          child.parent = id
          for (const n of child.ids) x.ids.push(n)
          last = Math.max(last, child.order)
        }
        x.title = `nodes ${Math.ceil(x.order)}–${Math.ceil(last)}`
        items.set(id, x)
        next.push(id)
      }
      children = next
    }
    return children
  }
  for (const x of [...items.values()]) if (x.kind === 'group') x.children = part(x.children, x.id)
  return part(top, '')
}

/** The groups around an item, outermost first. */
export function neighbours(g: Drawn, id: string): string[] {
  const out: string[] = []
  for (let p = g.items.get(id)?.parent; p; p = g.items.get(p)?.parent) out.unshift(p)
  return out
}

/** What is on the screen with these groups open: items, groups around them, and the links between. */
export interface Visible {
  nodes: Item[]
  frames: Item[]
  links: Link[]
  /** Groups that stay closed as too much would be drawn. */
  refused: string[]
}

const maxDrawn = 800

export function visibleGraph(g: Drawn, open: Set<string>): Visible {
  const v: Visible = { nodes: [], frames: [], links: [], refused: [] }
  const at = new Map<string, string>() // item to what is drawn for it
  const put = (id: string, under: string) => {
    const x = g.items.get(id)!
    at.set(id, under)
    x.children.forEach((c) => put(c, under))
  }
  // Level by level, so that what stays closed is what lies deepest.
  let count = g.top.length
  let level = g.top
  while (level.length) {
    const next: string[] = []
    for (const id of level) {
      const x = g.items.get(id)!
      if (x.kind === 'group' && open.has(id)) {
        if (count + x.children.length <= maxDrawn) {
          count += x.children.length
          v.frames.push(x)
          next.push(...x.children)
          continue
        }
        v.refused.push(id)
      }
      v.nodes.push(x)
      put(id, id)
    }
    level = next
  }
  const links = new Map<string, Link>()
  for (const l of g.links) {
    const from = at.get(l.from)
    const to = at.get(l.to)
    if (!from || !to || from === to) continue
    const key = `${from}>${to}`
    const o = links.get(key)
    if (!o) links.set(key, { ...l, from, to })
    else {
      if (l.bytes != null && (o.bytes == null || l.bytes > o.bytes)) o.bytes = l.bytes
      if (l.kind === 'data') o.kind = 'data'
    }
  }
  v.links = [...links.values()]
  v.nodes.sort((a, b) => a.order - b.order)
  return v
}
