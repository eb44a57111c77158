// SPDX-License-Identifier: Apache-2.0

// What a pane draws: boxes of operators and groups, and what flows between them.
import { bytes, clean, count, dims, dur, share } from '../../lib/format'
import type { CountedDAG } from './data'
import type { Drawn, Item, Link, Visible } from './graph'
import { fitText } from './label'
import type { Segment } from './layout'
import { paintItem, text, value, type Metric, type Scale, type ItemSum } from './paint'

export interface PaneProps {
  d: CountedDAG
  g: Drawn
  v: Visible
  sums: Map<string, ItemSum>
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
    case 'group':
      return [230, marked ? 84 : 66]
    case 'op':
      return [214, marked ? 75 : 58]
    case 'cache':
      return [190, 46]
  }
  return [190, 36]
}

export function Edge({ s, l, hot, size }: { s: Segment; l: Link; hot: boolean; size: boolean }) {
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
        <text
          x={p[0][0] + (p[1][0] > p[0][0] + 1 ? -5 : 5)}
          y={p[0][1] + (p[1][1] < p[0][1] ? -5 : 12)}
          class={`dag-size${p[1][0] > p[0][0] + 1 ? ' dag-right' : ''}`}
        >
          {bytes(l.bytes)}
        </text>
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

export function Frame({ p, x, at, drag }: Drawing & { at?: FrameAt }) {
  if (!at) return null
  return (
    <g
      class={`dag-frame ${x.group}${p.selected === x.id ? ' selected' : ''}`}
      transform={`translate(${at.x},${at.y})`}
    >
      <rect
        width={at.w}
        height={at.h}
        rx={5}
        onClick={(e) => (e.stopPropagation(), !drag.current?.moved && p.onSelect(x.id))}
      />
    </g>
  )
}

export function Head({ p, x, at, toggle, drag }: Drawing & { at?: FrameAt }) {
  if (!at) return null
  const s = p.sums.get(x.id)!
  const mark = p.marked.get(x.id)
  const label = `${x.title}${x.times > 1 ? ` × ${x.times}` : ''}`
  const right = s.perStep == null ? '' : `${dur(s.perStep)}  ${share(s.share)}`
  return (
    <g data-group={x.id} data-open="1" transform={`translate(${at.x},${at.y})`}>
      <g
        class="dag-head"
        tabindex={0}
        role="button"
        aria-label={`close ${clean(label)}`}
        onClick={(e) => (e.stopPropagation(), !drag.current?.moved && toggle(x.id))}
        onKeyDown={(e) => act(e, () => toggle(x.id))}
      >
        <rect class="dag-grip" width={at.w} height={22} rx={5} />
        <text x={9} y={15} class="dag-name">
          − {fitText(clean(label), at.w - 140, true)}
        </text>
        <text x={at.w - 9} y={15} class="dag-right">
          {right}
        </text>
        <title>{`close ${clean(label)}`}</title>
      </g>
      {mark && (
        <g
          class="dag-info"
          tabindex={0}
          role="button"
          onClick={(e) => (e.stopPropagation(), p.onSelect(x.id))}
          onKeyDown={(e) => act(e, () => p.onSelect(x.id))}
        >
          <text x={9} y={at.h - 5} class="dag-mark">
            {fitText('▲ ' + mark, at.w - 16, true)}
          </text>
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

export function Node({ p, x, at, toggle, drag }: Drawing & { at?: [number, number] }) {
  if (!at) return null
  const [w, h] = sizeOf(x, p.marked.has(x.id))
  const s = p.sums.get(x.id)!
  const val = p.values.get(x.id) ?? null
  const c = paintItem(p.d, x, p.scale, val)
  const group = x.kind === 'group'
  const hit = p.matches.has(x.id)
  const cls = [
    'dag-node',
    x.kind,
    c || p.metric === 'kind' ? '' : 'none',
    p.selected === x.id ? 'selected' : '',
    hit ? 'hit' : p.matches.size ? 'miss' : '',
  ].join(' ')
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
      {group && x.times > 1 && (
        <path class="dag-stack" d={`M5,-3 H${w + 3} V${h - 5} M9,-6 H${w + 6} V${h - 9}`} />
      )}
      {x.kind === 'cache' ? (
        <path
          class="dag-body"
          style={style}
          d={`M0,6 A${w / 2},6 0 0 1 ${w},6 V${h - 6} A${w / 2},6 0 0 1 0,${h - 6} z M0,6 A${w / 2},6 0 0 0 ${w},6`}
        />
      ) : x.kind === 'weight' || x.kind === 'input' ? (
        <path class="dag-body" style={style} d={`M8,0 H${w} L${w - 8},${h} H0 z`} />
      ) : (
        <rect class="dag-body" style={style} width={w} height={h} rx={group ? 5 : 3} />
      )}
      <svg width={w} height={h} class="dag-clip">
        {lines.map((l, i) => (
          <g key={i} class={`dag-line${i ? '' : ' dag-name'}`} style={tone}>
            <text x={10} y={l.y} style={tone}>
              {l.left}
            </text>
            {l.right && (
              <text x={w - 10} y={l.y} class="dag-right" style={tone}>
                {l.right}
              </text>
            )}
          </g>
        ))}
      </svg>
      {p.marked.has(x.id) && (
        <text x={10} y={h - 8} class={c ? 'dag-strong' : 'dag-mark'} style={tone}>
          {fitText('▲ ' + p.marked.get(x.id), w - 20, true)}
        </text>
      )}
      <title>{clean(x.title)}</title>
    </g>
  )
}

interface Line {
  y: number
  left: string
  right?: string
}

function linesOf(p: PaneProps, x: Item, s: ItemSum, val: number | null): Line[] {
  const { d } = p
  const [w] = sizeOf(x, false)
  // Time and share stand always; the third place is that of what colours.
  const other =
    p.metric === 'time' || p.metric === 'share' || p.metric === 'kind' || p.metric === 'backend'
      ? text('bandwidth', value(s, 'bandwidth'), s.atMost)
      : text(p.metric, val, s.atMost)
  if (x.kind === 'group') {
    const title = `+ ${x.title}`
    return [
      {
        y: 17,
        left: fitText(clean(title), w - 20 - (x.times > 1 ? 40 : 0), true),
        right: x.times > 1 ? `× ${x.times}` : undefined,
      },
      {
        y: 36,
        left: s.perStep == null ? `${count(s.ops)} operators` : `${dur(s.perStep)}   ${share(s.share)}`,
        right: other === '–' ? '' : other,
      },
      {
        y: 54,
        left:
          s.perStep == null
            ? s.ops
              ? 'no times'
              : ''
            : `${count(s.ops)} operators${x.times > 1 ? ` in ${x.times} layers` : ''}`,
      },
    ]
  }
  const n = d.nodes[x.rep]
  if (x.kind !== 'op') {
    const left = x.kind === 'view' || x.kind === 'idle' ? n.op.toLowerCase() : n.type
    return [
      { y: x.kind === 'cache' ? 25 : 15, left: fitText(clean(x.title), w - 24, true) },
      {
        y: x.kind === 'cache' ? 39 : 29,
        left: fitText(`${clean(left)} ${dimsOf(n)}`, w - 84, false),
        right: bytes(n.tensor_bytes),
      },
    ]
  }
  const wt = n.own_weight ? d.nodes[n.weight] : null
  const op = fitText(clean(n.op), 104, false)
  const partly =
    x.times > 1 && x.ids.length < x.times
      ? x.ids.length === 1
        ? `layer ${n.layer} only`
        : `${x.ids.length} of ${x.times} layers`
      : ''
  const time = s.perStep == null ? (n.run ? '' : 'no time') : dur(s.perStep)
  const backend = d.parts.length > 1 ? clean(d.parts[n.part]?.backend ?? '') + ' ' : ''
  return [
    { y: 16, left: fitText(clean(x.title), w - 80, true), right: s.share == null ? '' : share(s.share) },
    {
      y: 33,
      left: op,
      right: fitText(
        partly || backend + (wt ? `${clean(wt.type)} ${bytes(wt.tensor_bytes)}` : dimsOf(n)),
        96,
        false,
      ),
    },
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
  return a
    .slice(0, len)
    .map((v, i) => (v === b[i] ? `${v}` : `${v}–${b[i]}`))
    .join(' × ')
}
