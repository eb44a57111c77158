// SPDX-License-Identifier: Apache-2.0

// One graph as SVG: moved by dragging, zoomed by the wheel.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { bytes, clean, count, dims, dur, share } from '../format'
import { work } from '../worker-client'
import { fit } from './label'
import type { Drawn, Item, Link, Visible } from './graph'
import type { Places, Segment } from './layout'
import { paint, text, value, type Metric, type Scale, type Sum } from './paint'
import type { DAG } from './types'

export interface PaneProps {
  d: DAG
  g: Drawn
  v: Visible
  sums: Map<string, Sum>
  /** Values by item: of the metric that colours. */
  values: Map<string, number | null>
  scale: Scale
  metric: Metric
  selected: string
  matches: Set<string>
  marked: Map<string, string> // groups with an outlier, and how it is told
  title: string
  onSelect: (id: string) => void
  onToggle: (id: string) => void
  onReady: (ms: number, omitted: number) => void
  /** Item to bring into sight, when it changes. */
  goto: string
  svgRef?: (el: SVGSVGElement | null) => void
}

export function sizeOf(x: Item, marked: boolean): [number, number] {
  switch (x.kind) {
    case 'group': return [230, marked ? 84 : 66]
    case 'op': return [214, marked ? 75 : 58]
    case 'cache': return [190, 46]
  }
  return [190, 36]
}

const small = 0.45 // below this zoom, text is not read

export function Pane(props: PaneProps) {
  const svg = useRef<SVGSVGElement>(null)
  const view = useRef({ x: 0, y: 0, k: 1, touched: false })
  const [laid, setLaid] = useState<{ places: Places; props: PaneProps } | null>(null)
  // Until new places have come, what was drawn stays as it was.
  const p = laid && laid.props.v !== props.v ? laid.props : props
  const { d, v } = p
  const places = laid?.places ?? null
  const [error, setError] = useState('')
  const world = useRef<SVGGElement>(null)
  const mini = useRef<SVGRectElement>(null)
  useEffect(() => {
    let gone = false
    const want = props.v
    const nodes = want.nodes.map((x) => {
      const [w, h] = sizeOf(x, props.marked.has(x.id))
      return { id: x.id, parent: x.parent, w, h }
    })
    work('dagLayout', { nodes, frames: want.frames.map((f) => ({ id: f.id, parent: f.parent })), links: want.links.map((l) => ({ from: l.from, to: l.to })) }).then(
      (r) => {
        if (gone) return
        setLaid({ places: r, props })
        setError('')
        props.onReady(r.ms, r.omitted)
      },
      (e) => {
        if (gone) return
        setError(String(e?.message ?? e))
        props.onReady(0, 0)
      },
    )
    return () => {
      gone = true
    }
  }, [props.v])

  const apply = () => {
    const { x, y, k } = view.current
    world.current?.setAttribute('transform', `translate(${x},${y}) scale(${k})`)
    svg.current?.classList.toggle('far', k < small)
    const el = svg.current
    if (mini.current && el && places) {
      mini.current.setAttribute('x', String(-x / k))
      mini.current.setAttribute('y', String(-y / k))
      mini.current.setAttribute('width', String(el.clientWidth / k))
      mini.current.setAttribute('height', String(el.clientHeight / k))
    }
  }
  const fitAll = () => {
    const el = svg.current
    if (!el || !places) return
    const k = Math.min(1.15, el.clientWidth / (places.w + 24), el.clientHeight / (places.h + 24))
    view.current = { x: (el.clientWidth - places.w * k) / 2, y: (el.clientHeight - places.h * k) / 2, k, touched: false }
    apply()
  }
  /** At first: all of it if it can be read, else its width from the top. */
  const first = () => {
    const el = svg.current
    if (!el || !places) return
    fitAll()
    const k = Math.min(1, Math.max(0.6, (el.clientWidth - 24) / places.w))
    if (view.current.k < 0.72) {
      // What does not fit begins with its first node in the middle.
      const start = places.nodes[v.nodes[0]?.id] ?? (v.frames[0] && center(places, v.frames[0].id))
      const mid = places.w * k > el.clientWidth && start ? start[0] : places.w / 2
      view.current = { x: el.clientWidth / 2 - mid * k, y: 8, k, touched: false }
      apply()
    }
  }
  const known = useRef<Places | null>(null)
  const anchor = useRef<{ id: string; x: number; y: number; focus: boolean } | null>(null)
  useLayoutEffect(() => {
    if (!places) return
    const was = known.current
    known.current = places
    // What was opened or closed stays where it was on the screen.
    const a = anchor.current
    anchor.current = null
    const now = a && topOf(places, a.id)
    if (was && a && now) {
      view.current.x = a.x - now[0] * view.current.k
      view.current.y = a.y - now[1] * view.current.k
      apply()
      if (a.focus) {
        const g = svg.current?.querySelector<SVGElement>(`[data-group="${CSS.escape(a.id)}"]`)
        ;(g?.querySelector<SVGElement>('.dag-head') ?? g)?.focus({ preventScroll: true })
      }
    } else if (!was || !view.current.touched) first()
    else apply()
  }, [places])
  useEffect(() => {
    const el = svg.current
    if (!el) return
    const ro = new ResizeObserver(() => (view.current.touched ? apply() : first()))
    ro.observe(el)
    return () => ro.disconnect()
  }, [places])
  useEffect(() => {
    const el = svg.current
    const at = places && p.goto ? places.nodes[p.goto] ?? center(places, p.goto) : null
    if (!el || !at) return
    const { x, y, k } = view.current
    const sx = at[0] * k + x
    const sy = at[1] * k + y
    if (sx < 40 || sy < 40 || sx > el.clientWidth - 40 || sy > el.clientHeight - 40) {
      const z = Math.max(k, 0.7)
      view.current = { x: el.clientWidth / 2 - at[0] * z, y: el.clientHeight / 2 - at[1] * z, k: z, touched: true }
      apply()
    }
  }, [p.goto, places])

  const zoom = (f: number, cx: number, cy: number) => {
    const { x, y, k } = view.current
    const z = Math.min(4, Math.max(0.03, k * f))
    view.current = { x: cx - ((cx - x) * z) / k, y: cy - ((cy - y) * z) / k, k: z, touched: true }
    apply()
  }
  useEffect(() => {
    const el = svg.current
    if (!el) return
    const wheel = (e: WheelEvent) => {
      e.preventDefault()
      const r = el.getBoundingClientRect()
      zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), e.clientX - r.left, e.clientY - r.top)
    }
    el.addEventListener('wheel', wheel, { passive: false })
    return () => el.removeEventListener('wheel', wheel)
  }, [])
  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null)
  const toggle = (id: string) => {
    const at = places && topOf(places, id)
    if (at) {
      const { x, y, k } = view.current
      anchor.current = { id, x: at[0] * k + x, y: at[1] * k + y, focus: !!svg.current?.querySelector(`[data-group="${CSS.escape(id)}"]`)?.contains(document.activeElement) }
      view.current.touched = true
    }
    props.onToggle(id)
  }
  const keys = (e: KeyboardEvent) => {
    const el = svg.current!
    const step = 60
    switch (e.key) {
      case 'ArrowLeft': view.current.x += step; break
      case 'ArrowRight': view.current.x -= step; break
      case 'ArrowUp': view.current.y += step; break
      case 'ArrowDown': view.current.y -= step; break
      case '+': case '=': return zoom(1.25, el.clientWidth / 2, el.clientHeight / 2)
      case '-': return zoom(0.8, el.clientWidth / 2, el.clientHeight / 2)
      case 'f': case '0': return fitAll()
      default: return
    }
    e.preventDefault()
    view.current.touched = true
    apply()
  }
  // A tensor's size stands once where it leaves its operator, however many read it.
  const sized = useMemo(() => {
    const told = new Set<string>()
    const out = new Set<number>()
    places?.segments.forEach((s, i) => {
      const l = v.links[s.link]
      const key = `${s.from} ${l?.bytes}`
      if (!s.start || l?.bytes == null || told.has(key)) return
      told.add(key)
      out.add(i)
    })
    return out
  }, [places])
  const near = useMemo(() => neighbours(v, p.selected), [v, p.selected])

  return (
    <div class="dag-pane">
      {p.title && <div class="dag-pane-title clip">{p.title}</div>}
      <svg
        ref={(el) => {
          svg.current = el
          p.svgRef?.(el)
        }}
        class="dag"
        tabindex={0}
        role="group"
        aria-label="operator graph"
        onKeyDown={keys}
        onPointerDown={(e) => {
          if (e.button !== 0) return
          drag.current = { x: e.clientX, y: e.clientY, moved: false }
        }}
        onPointerMove={(e) => {
          const s = drag.current
          if (!s) return
          if (!(e.buttons & 1)) {
            drag.current = null
            return
          }
          const dx = e.clientX - s.x
          const dy = e.clientY - s.y
          if (!s.moved && Math.abs(dx) + Math.abs(dy) < 4) return
          if (!s.moved) (e.currentTarget as SVGSVGElement).setPointerCapture(e.pointerId)
          drag.current = { x: e.clientX, y: e.clientY, moved: true }
          view.current.x += dx
          view.current.y += dy
          view.current.touched = true
          apply()
        }}
        onPointerUp={() => setTimeout(() => (drag.current = null))}
        onClick={(e) => {
          if (!drag.current?.moved && e.target === e.currentTarget) p.onSelect('')
        }}
      >
        <defs>
          <marker id="dag-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0.5 L7.5 4 L0 7.5 z" class="dag-arrow" />
          </marker>
        </defs>
        <g ref={world}>
          {places && (
            <>
              {v.frames.map((f) => (
                <Frame key={f.id} p={p} x={f} at={places.frames[f.id]} toggle={toggle} drag={drag} />
              ))}
              {places.segments.map((s, i) => (
                <Edge key={i} s={s} l={v.links[s.link]} size={sized.has(i)} hot={near.has(`${v.links[s.link].from}>${v.links[s.link].to}`) || (p.selected !== '' && s.from === p.selected)} />
              ))}
              {v.frames.map((f) => (
                <Head key={f.id} p={p} x={f} at={places.frames[f.id]} toggle={toggle} drag={drag} />
              ))}
              {v.nodes.map((x) => (
                <Node key={x.id} p={p} x={x} at={places.nodes[x.id]} toggle={toggle} drag={drag} />
              ))}
            </>
          )}
        </g>
      </svg>
      {error && <div class="empty">The graph could not be laid out: {error}</div>}
      {places && (
        <div class="dag-zoom">
          <button onClick={fitAll} title="show all of it (f)">fit</button>
          <button onClick={() => zoom(1.25, svg.current!.clientWidth / 2, svg.current!.clientHeight / 2)} aria-label="zoom in" title="zoom in (+)">+</button>
          <button onClick={() => zoom(0.8, svg.current!.clientWidth / 2, svg.current!.clientHeight / 2)} aria-label="zoom out" title="zoom out (−)">−</button>
        </div>
      )}
      {places && (places.h > 900 || places.w > 1600) && (
        <svg class="dag-mini" viewBox={`0 0 ${places.w} ${places.h}`} preserveAspectRatio="xMidYMid meet" aria-hidden="true"
          onPointerDown={(e) => {
            const el = svg.current!
            const m = (e.currentTarget as SVGSVGElement).getScreenCTM()!
            const x = (e.clientX - m.e) / m.a
            const y = (e.clientY - m.f) / m.d
            const { k } = view.current
            view.current = { x: el.clientWidth / 2 - x * k, y: el.clientHeight / 2 - y * k, k, touched: true }
            apply()
          }}>
          {v.nodes.map((x) => {
            const at = places.nodes[x.id]
            const [w, h] = sizeOf(x, p.marked.has(x.id))
            const c = paint(d, x, p.scale, p.values.get(x.id) ?? null)
            return at && <rect key={x.id} x={at[0] - w / 2} y={at[1] - h / 2} width={w} height={h} class="dag-none" style={c ? { fill: c.fill } : undefined} />
          })}
          <rect ref={mini} class="dag-mini-view" />
        </svg>
      )}
    </div>
  )
}

function center(p: Places, id: string): [number, number] | null {
  const f = p.frames[id]
  return f ? [f.x + f.w / 2, f.y + 20] : null
}

function topOf(p: Places, id: string): [number, number] | null {
  const f = p.frames[id]
  if (f) return [f.x + f.w / 2, f.y]
  const n = p.nodes[id]
  return n ? [n[0], n[1] - 33] : null
}

/** Links of the selected item, as from>to. */
function neighbours(v: Visible, id: string): Set<string> {
  const out = new Set<string>()
  if (id) for (const l of v.links) if (l.from === id || l.to === id) out.add(`${l.from}>${l.to}`)
  return out
}

function Edge({ s, l, hot, size }: { s: Segment; l: Link; hot: boolean; size: boolean }) {
  const w = l.bytes && l.bytes > 0 ? Math.min(4, Math.max(0.8, Math.log2(l.bytes) / 6 - 0.6)) : 0.9
  const p = s.points
  const f = (v: number) => v.toFixed(1)
  let path = `M${f(p[0][0])},${f(p[0][1])}`
  for (let i = 1; i < p.length; i++) {
    const [x0, y0] = p[i - 1]
    const [x1, y1] = p[i]
    const m = (y0 + y1) / 2
    path += Math.abs(x0 - x1) < 0.5 ? `V${f(y1)}` : `C${f(x0)},${f(m)} ${f(x1)},${f(m)} ${f(x1)},${f(y1)}`
  }
  return (
    <g class={`dag-edge ${l.kind}${hot ? ' hot' : ''}`}>
      <path d={path} style={{ strokeWidth: w + 'px' }} marker-end={s.end ? 'url(#dag-arrow)' : undefined}>
        <title>{`${l.kind === 'data' ? '' : l.kind + ' '}${bytes(l.bytes)}`}</title>
      </path>
      {size && (
        <text x={p[0][0] + 5} y={p[0][1] + 12} class="dag-size">{bytes(l.bytes)}</text>
      )}
    </g>
  )
}

interface Drawing {
  p: PaneProps
  x: Item
  toggle: (id: string) => void
  drag: { current: { moved: boolean } | null }
}

type FrameAt = { x: number; y: number; w: number; h: number }

function Frame({ p, x, at, drag }: Drawing & { at?: FrameAt }) {
  if (!at) return null
  return (
    <g class={`dag-frame ${x.group}${p.selected === x.id ? ' selected' : ''}`} transform={`translate(${at.x},${at.y})`}>
      <rect width={at.w} height={at.h} rx={5} onClick={(e) => (e.stopPropagation(), !drag.current?.moved && p.onSelect(x.id))} />
    </g>
  )
}

function Head({ p, x, at, toggle, drag }: Drawing & { at?: FrameAt }) {
  if (!at) return null
  const s = p.sums.get(x.id)!
  const mark = p.marked.get(x.id)
  const label = `${x.title}${x.times > 1 ? ` × ${x.times}` : ''}`
  const right = s.perStep == null ? '' : `${dur(s.perStep)}  ${share(s.share)}`
  return (
    <g data-group={x.id} data-open="1" transform={`translate(${at.x},${at.y})`}>
      <g class="dag-head" tabindex={0} role="button" aria-label={`close ${clean(label)}`} onClick={(e) => (e.stopPropagation(), !drag.current?.moved && toggle(x.id))} onKeyDown={(e) => act(e, () => toggle(x.id))}>
        <rect class="dag-grip" width={at.w} height={22} rx={5} />
        <text x={9} y={15} class="dag-name">− {fit(clean(label), at.w - 140, true)}</text>
        <text x={at.w - 9} y={15} class="dag-right">{right}</text>
        <title>{`close ${clean(label)}`}</title>
      </g>
      {mark && (
        <g class="dag-info" tabindex={0} role="button" onClick={(e) => (e.stopPropagation(), p.onSelect(x.id))} onKeyDown={(e) => act(e, () => p.onSelect(x.id))}>
          <text x={9} y={at.h - 5} class="dag-mark">{fit('▲ ' + mark, at.w - 16, true)}</text>
        </g>
      )}
    </g>
  )
}

function act(e: KeyboardEvent, f: () => void) {
  if (e.key !== 'Enter' && e.key !== ' ') return
  e.preventDefault()
  e.stopPropagation()
  f()
}

function Node({ p, x, at, toggle, drag }: Drawing & { at?: [number, number] }) {
  if (!at) return null
  const [w, h] = sizeOf(x, p.marked.has(x.id))
  const s = p.sums.get(x.id)!
  const val = p.values.get(x.id) ?? null
  const c = paint(p.d, x, p.scale, val)
  const group = x.kind === 'group'
  const hit = p.matches.has(x.id)
  const cls = ['dag-node', x.kind, c ? '' : 'none', p.selected === x.id ? 'selected' : '', hit ? 'hit' : p.matches.size ? 'miss' : ''].join(' ')
  const style = c ? { fill: c.fill } : undefined
  const tone = c ? { fill: c.ink } : undefined
  const lines = linesOf(p, x, s, val)
  return (
    <g
      class={cls}
      transform={`translate(${at[0] - w / 2},${at[1] - h / 2})`}
      data-node={group ? undefined : x.id}
      data-group={group ? x.id : undefined}
      data-v={val ?? ''}
      tabindex={0}
      role="button"
      aria-label={clean(`${group ? 'open ' : ''}${x.title}`)}
      onClick={(e) => {
        e.stopPropagation()
        if (drag.current?.moved) return
        if (group) toggle(x.id)
        else p.onSelect(x.id)
      }}
      onKeyDown={(e) => act(e, () => (group ? toggle(x.id) : p.onSelect(x.id)))}
    >
      {group && x.times > 1 && <path class="dag-stack" d={`M5,-3 H${w + 3} V${h - 5} M9,-6 H${w + 6} V${h - 9}`} />}
      {x.kind === 'cache' ? (
        <path class="dag-body" style={style} d={`M0,6 A${w / 2},6 0 0 1 ${w},6 V${h - 6} A${w / 2},6 0 0 1 0,${h - 6} z M0,6 A${w / 2},6 0 0 0 ${w},6`} />
      ) : x.kind === 'weight' || x.kind === 'input' ? (
        <path class="dag-body" style={style} d={`M8,0 H${w} L${w - 8},${h} H0 z`} />
      ) : (
        <rect class="dag-body" style={style} width={w} height={h} rx={group ? 5 : 3} />
      )}
      <svg width={w} height={h} class="dag-clip">
      {lines.map((l, i) => (
        <g key={i} class={`dag-line${i ? '' : ' dag-name'}`} style={tone}>
          <text x={10} y={l.y} style={tone}>{l.left}</text>
          {l.right && <text x={w - 10} y={l.y} class="dag-right" style={tone}>{l.right}</text>}
        </g>
      ))}
      </svg>
      {p.marked.has(x.id) && <text x={10} y={h - 8} class={c ? 'dag-strong' : 'dag-mark'} style={tone}>{fit('▲ ' + p.marked.get(x.id), w - 20, true)}</text>}
      <title>{clean(x.title)}</title>
    </g>
  )
}

interface Line {
  y: number
  left: string
  right?: string
}

function linesOf(p: PaneProps, x: Item, s: Sum, val: number | null): Line[] {
  const { d } = p
  const [w] = sizeOf(x, false)
  // Time and share stand always; the third place is that of what colours.
  const other = p.metric === 'time' || p.metric === 'share' || p.metric === 'kind' ? text('bandwidth', value(s, 'bandwidth'), s.atMost) : text(p.metric, val, s.atMost)
  if (x.kind === 'group') {
    const title = `+ ${x.title}`
    return [
      { y: 17, left: fit(clean(title), w - 20 - (x.times > 1 ? 40 : 0), true), right: x.times > 1 ? `× ${x.times}` : undefined },
      { y: 36, left: s.perStep == null ? `${count(s.ops)} operators` : `${dur(s.perStep)}   ${share(s.share)}`, right: other === '–' ? '' : other },
      { y: 54, left: s.perStep == null ? (s.ops ? 'no times' : '') : `${count(s.ops)} operators${x.times > 1 ? ` in ${x.times} layers` : ''}` },
    ]
  }
  const n = d.nodes[x.rep]
  if (x.kind !== 'op') {
    const left = x.kind === 'view' || x.kind === 'idle' ? n.op.toLowerCase() : n.type
    return [
      { y: x.kind === 'cache' ? 25 : 15, left: fit(clean(x.title), w - 24, true) },
      { y: x.kind === 'cache' ? 39 : 29, left: fit(`${clean(left)} ${dimsOf(n)}`, w - 84, false), right: bytes(n.tensor_bytes) },
    ]
  }
  const wt = n.weight >= 0 && !n.op.startsWith('ROPE') ? d.nodes[n.weight] : null // whose factors serve every layer
  const op = fit(clean(n.op), 104, false)
  const partly = x.times > 1 && x.ids.length < x.times ? (x.ids.length === 1 ? `layer ${n.layer} only` : `${x.ids.length} of ${x.times} layers`) : ''
  const time = s.perStep == null ? (n.run ? '' : 'no time') : dur(s.perStep)
  const backend = d.parts.length > 1 ? clean(d.parts[n.part]?.backend ?? '') + ' ' : ''
  return [
    { y: 16, left: fit(clean(x.title), w - 80, true), right: s.share == null ? '' : share(s.share) },
    { y: 33, left: op, right: fit(partly || backend + (wt ? `${clean(wt.type)} ${bytes(wt.tensor_bytes)}` : dimsOf(n)), 96, false) },
    { y: 50, left: time, right: other === '–' ? '' : other },
  ]
}

/** Dimensions, with how far they grew: 64 × 256–512. */
export function dimsOf(n: { ne: number[]; ne_max?: number[] }): string {
  if (!n.ne_max) return dims(n.ne)
  const a = n.ne
  const b = n.ne_max
  let len = 4
  while (len > 1 && a[len - 1] === 1 && b[len - 1] === 1) len--
  return a.slice(0, len).map((v, i) => (v === b[i] ? `${v}` : `${v}–${b[i]}`)).join(' × ')
}

