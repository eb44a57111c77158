// SPDX-License-Identifier: Apache-2.0

// One graph as SVG: moved by dragging, zoomed by the wheel.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { work } from '../../api/worker-client'
import type { Visible } from './graph'
import type { GraphLayout } from './layout'
import { Edge, Frame, Head, Node, sizeOf, type PaneProps } from './nodes'
import { paintItem } from './paint'
import { layoutTask } from './task'

const small = 0.45 // below this zoom, text is not read

export function Pane(props: PaneProps) {
  const svg = useRef<SVGSVGElement>(null)
  const view = useRef({ x: 0, y: 0, k: 1, touched: false })
  const [laid, setLaid] = useState<{ places: GraphLayout; props: PaneProps } | null>(null)
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
    work(layoutTask, {
      nodes,
      frames: want.frames.map((f) => ({ id: f.id, parent: f.parent })),
      links: want.links.map((l) => ({ from: l.from, to: l.to })),
    }).then(
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
    view.current = {
      x: (el.clientWidth - places.w * k) / 2,
      y: (el.clientHeight - places.h * k) / 2,
      k,
      touched: false,
    }
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
  const known = useRef<GraphLayout | null>(null)
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
    const at = places && p.goto ? (places.nodes[p.goto] ?? center(places, p.goto)) : null
    if (!el || !at) return
    const { x, y, k } = view.current
    const sx = at[0] * k + x
    const sy = at[1] * k + y
    if (sx < 40 || sy < 40 || sx > el.clientWidth - 40 || sy > el.clientHeight - 40) {
      const z = Math.max(k, 0.7)
      view.current = {
        x: el.clientWidth / 2 - at[0] * z,
        y: el.clientHeight / 2 - at[1] * z,
        k: z,
        touched: true,
      }
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
      anchor.current = {
        id,
        x: at[0] * k + x,
        y: at[1] * k + y,
        focus: !!svg.current
          ?.querySelector(`[data-group="${CSS.escape(id)}"]`)
          ?.contains(document.activeElement),
      }
      view.current.touched = true
    }
    props.onToggle(id)
  }
  const keys = (e: KeyboardEvent) => {
    const el = svg.current!
    const step = 60
    switch (e.key) {
      case 'ArrowLeft':
        view.current.x += step
        break
      case 'ArrowRight':
        view.current.x -= step
        break
      case 'ArrowUp':
        view.current.y += step
        break
      case 'ArrowDown':
        view.current.y -= step
        break
      case '+':
      case '=':
        return zoom(1.25, el.clientWidth / 2, el.clientHeight / 2)
      case '-':
        return zoom(0.8, el.clientWidth / 2, el.clientHeight / 2)
      case 'f':
      case '0':
        return fitAll()
      default:
        return
    }
    e.preventDefault()
    view.current.touched = true
    apply()
  }
  // One size stands where values leave, however many read them: the largest.
  const sized = useMemo(() => {
    const best = new Map<string, number>()
    places?.segments.forEach((s, i) => {
      const size = v.links[s.link]?.bytes
      if (!s.start || size == null) return
      const was = best.get(s.from)
      if (was === undefined || size > (v.links[places.segments[was].link].bytes ?? 0)) best.set(s.from, i)
    })
    return new Set(best.values())
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
          <marker
            id="dag-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
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
                <Edge
                  key={i}
                  s={s}
                  l={v.links[s.link]}
                  size={sized.has(i)}
                  hot={
                    near.has(`${v.links[s.link].from}>${v.links[s.link].to}`) ||
                    (p.selected !== '' && s.from === p.selected)
                  }
                />
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
          <button onClick={fitAll} title="show all of it (f)">
            fit
          </button>
          <button
            onClick={() => zoom(1.25, svg.current!.clientWidth / 2, svg.current!.clientHeight / 2)}
            aria-label="zoom in"
            title="zoom in (+)"
          >
            +
          </button>
          <button
            onClick={() => zoom(0.8, svg.current!.clientWidth / 2, svg.current!.clientHeight / 2)}
            aria-label="zoom out"
            title="zoom out (−)"
          >
            −
          </button>
        </div>
      )}
      {places && (places.h > 900 || places.w > 1600) && (
        <svg
          class="dag-mini"
          viewBox={`0 0 ${places.w} ${places.h}`}
          preserveAspectRatio="xMidYMid meet"
          aria-hidden="true"
          onPointerDown={(e) => {
            const el = svg.current!
            const m = (e.currentTarget as SVGSVGElement).getScreenCTM()!
            const x = (e.clientX - m.e) / m.a
            const y = (e.clientY - m.f) / m.d
            const { k } = view.current
            view.current = { x: el.clientWidth / 2 - x * k, y: el.clientHeight / 2 - y * k, k, touched: true }
            apply()
          }}
        >
          {v.nodes.map((x) => {
            const at = places.nodes[x.id]
            const [w, h] = sizeOf(x, p.marked.has(x.id))
            const c = paintItem(d, x, p.scale, p.values.get(x.id) ?? null)
            return (
              at && (
                <rect
                  key={x.id}
                  x={at[0] - w / 2}
                  y={at[1] - h / 2}
                  width={w}
                  height={h}
                  class="dag-none"
                  style={c ? { fill: c.fill } : undefined}
                />
              )
            )
          })}
          <rect ref={mini} class="dag-mini-view" />
        </svg>
      )}
    </div>
  )
}

function center(p: GraphLayout, id: string): [number, number] | null {
  const f = p.frames[id]
  return f ? [f.x + f.w / 2, f.y + 20] : null
}

function topOf(p: GraphLayout, id: string): [number, number] | null {
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
