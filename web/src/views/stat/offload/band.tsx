// SPDX-License-Identifier: Apache-2.0

// The drawing of a step's splits: a lane a backend, arrows for copies. By time, or each split as wide as the
// others.
import { useRef } from 'preact/hooks'
import type { OffloadSplitStep, OffloadStepCopy, OffloadStepSplit } from '../../../api/types'
import { backendColor } from '../../../lib/backend-color'
import { ink } from '../../../lib/color'
import { bytes, clean, dur, plural } from '../../../lib/format'
import { useTheme } from '../../../ui/theme'
import { layersText } from './words'

const left = 96
const laneHeight = 38
const between = 30
const hostHeight = 14
const slot = 74 // least width of a split in order

interface Arrow {
  x: number
  from: number
  to: number
  list: OffloadStepCopy[]
}

/** About how wide a text is at this size. */
const wide = (s: string): number => s.length * 6.1

export function Band({
  step,
  width,
  order,
  selected,
  onSelect,
  label,
}: {
  step: OffloadSplitStep
  width: number
  order: boolean
  selected: number
  onSelect: (i: number) => void
  label: string
}) {
  const theme = useTheme()
  const svg = useRef<SVGSVGElement>(null)
  const n = step.splits.length
  const backends = [...new Set(step.splits.map((s) => s.backend))].sort(
    (a, b) => Number(b === 'CPU') - Number(a === 'CPU'),
  )
  const host = step.copies.some(
    (c) =>
      c.from === 'host' ||
      c.to === 'host' ||
      !c.from ||
      !c.to ||
      !backends.includes(c.from) ||
      !backends.includes(c.to),
  )
  const top = host ? hostHeight + between : 6
  const y = (lane: number) => (lane < 0 ? 0 : top + lane * (laneHeight + between))
  const laneOf = (name: string) => backends.indexOf(name) // -1: the host, and what is not known
  const height = y(backends.length - 1) + laneHeight + 22
  const inner = order ? Math.max(width - left - 6, n * slot) : width - left - 6
  const total = left + inner + 6
  const end = Math.max(
    step.dur_ns,
    ...step.splits.map((s) => Math.max(s.start_ns + s.dur_ns, s.done_ns ?? 0)),
    1,
  )
  const at = (t: number) => left + (Math.max(0, t) / end) * inner
  const place = (s: OffloadStepSplit, i: number): { x: number; w: number; call: number } => {
    const last = s.done_ns ?? s.start_ns + s.dur_ns
    if (order) {
      const w = inner / n - 14
      return {
        x: left + (i * inner) / n + 7,
        w,
        call: s.done_ns != null && last > s.start_ns ? w * Math.min(1, s.dur_ns / (last - s.start_ns)) : w,
      }
    }
    const x = at(s.start_ns)
    return { x, w: Math.max(1.5, at(last) - x), call: Math.max(1, at(s.start_ns + s.dur_ns) - x) }
  }
  const xOf = (c: OffloadStepCopy): number =>
    order ? (c.at < n ? left + (c.at * inner) / n : left + inner) : at(c.start_ns)
  const arrows = group(
    step.copies.map((c) => ({ c, x: xOf(c), from: laneOf(c.from), to: laneOf(c.to) })),
    order ? 1 : 3,
  )
  const focus = selected >= 0 ? selected : 0
  const move = (i: number) =>
    svg.current?.querySelector<SVGGElement>(`[data-at="${Math.max(0, Math.min(n - 1, i))}"]`)?.focus()
  const key = (e: KeyboardEvent, i: number) => {
    const to: Record<string, number> = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: n - 1 }
    if (e.key === 'Enter' || e.key === ' ') onSelect(i)
    else if (e.key in to) move(to[e.key])
    else if (e.key === 'Escape') onSelect(-1)
    else return
    e.preventDefault()
    e.stopPropagation()
  }
  const labels = written(arrows, y)
  return (
    <div class="offload-scroll" tabIndex={total > width ? 0 : undefined}>
      <svg
        ref={svg}
        class="chart offload"
        width={total}
        height={height}
        viewBox={`0 0 ${total} ${height}`}
        role="group"
        aria-label={`${label}: ${plural(n, 'split')} of ${plural(backends.length, 'backend')}, ${plural(step.copies.length, 'copy', 'copies')}`}
      >
        <defs>
          {backends.map((b, k) => (
            <pattern
              key={k}
              id={`off${step.step}-${k}-${order ? 1 : 0}`}
              width="6"
              height="6"
              patternUnits="userSpaceOnUse"
              patternTransform="rotate(45)"
            >
              <rect width="6" height="6" class="offload-ground" />
              <rect width="2.2" height="6" fill={backendColor(b, theme)} />
            </pattern>
          ))}
        </defs>
        {host && (
          <text x={4} y={hostHeight - 3} class="t">
            host’s memory
          </text>
        )}
        {host && <line x1={left} x2={left + inner} y1={hostHeight - 7} y2={hostHeight - 7} class="ax" />}
        {backends.map((b, k) => (
          <g key={k}>
            <rect x={left} y={y(k)} width={inner} height={laneHeight} class="offload-lane" />
            <text x={4} y={y(k) + laneHeight / 2 + 4} class="offload-name">
              <title>{clean(b) || 'not known'}</title>
              {cut(clean(b) || 'not known', left - 10)}
            </text>
          </g>
        ))}
        {!order &&
          step.splits.map((s, i) => (
            <Idle
              key={i}
              s={s}
              x0={at(s.start_ns - (s.idle_ns ?? 0))}
              x1={at(s.start_ns)}
              y={y(laneOf(s.backend)) + laneHeight / 2}
              crossed={arrows
                .filter(
                  (a) =>
                    Math.min(a.from, a.to) < laneOf(s.backend) && Math.max(a.from, a.to) > laneOf(s.backend),
                )
                .map((a) => a.x)}
            />
          ))}
        {step.splits.map((s, i) => {
          const { x, w, call } = place(s, i)
          const lane = laneOf(s.backend)
          const color = backendColor(s.backend, theme)
          const whole = s.done_ns != null ? s.done_ns - s.start_ns : s.dur_ns
          const words = [
            `split ${s.split} on ${clean(s.backend) || 'a backend that is not known'}`,
            plural(s.nodes, 'node'),
            `layers ${layersText(s.layers)}`,
            `call ${dur(s.dur_ns)}`,
            s.done_ns != null ? `until sync ${dur(whole)}` : '',
            s.busy_ns != null ? `on the device’s queue ${dur(s.busy_ns)}` : '',
            s.idle_ns != null ? `idle before ${dur(s.idle_ns)}` : '',
          ].filter(Boolean)
          const lines = [plural(s.nodes, 'node'), (s.done_ns != null ? '≤ ' : '') + dur(whole)].map((t) =>
            wide(t) < w - 6 ? t : '',
          )
          const solid = call >= w - 1
          return (
            <g
              key={i}
              data-at={i}
              role="button"
              tabindex={i === focus ? 0 : -1}
              aria-pressed={i === selected}
              aria-label={words.join(', ')}
              class={'offload-split-mark' + (i === selected ? ' on' : '')}
              onClick={() => onSelect(i)}
              onKeyDown={(e) => key(e, i)}
            >
              <title>{words.join('\n')}</title>
              {!solid && (
                <rect
                  x={x}
                  y={y(lane)}
                  width={w}
                  height={laneHeight}
                  fill={`url(#off${step.step}-${lane}-${order ? 1 : 0})`}
                />
              )}
              <rect x={x} y={y(lane)} width={Math.min(w, call)} height={laneHeight} fill={color} />
              <rect x={x} y={y(lane)} width={Math.max(w, 3)} height={laneHeight} class="offload-frame" />
              {!solid && lines.some(Boolean) && (
                <rect
                  x={x + w / 2 - Math.max(...lines.map(wide)) / 2 - 3}
                  y={y(lane) + 4}
                  width={Math.max(...lines.map(wide)) + 6}
                  height={laneHeight - 8}
                  class="offload-plate"
                />
              )}
              {lines.map(
                (t, k) =>
                  t && (
                    <text
                      key={k}
                      x={x + w / 2}
                      y={y(lane) + 16 + 14 * k}
                      class={'mid' + (solid ? '' : ' offload-ink')}
                      fill={solid ? ink(color) : undefined}
                    >
                      {t}
                    </text>
                  ),
              )}
            </g>
          )
        })}
        {arrows.map((a, k) => {
          const [y0, y1] = ends(a, y)
          const down = y1 > y0
          return (
            <g key={k} class="offload-arrow">
              <title>
                {`${clean(a.list[0].from) || 'memory that is not known'} to ${clean(a.list[0].to) || 'memory that is not known'}:\n` +
                  a.list
                    .slice(0, 12)
                    .map(
                      (c) =>
                        `${clean(c.tensor) || 'a tensor'} ${bytes(c.bytes)}${c.dur_ns != null ? ', ' + dur(c.dur_ns) : ''}`,
                    )
                    .join('\n') +
                  (a.list.length > 12 ? `\nand ${a.list.length - 12} more` : '')}
              </title>
              <line x1={a.x} x2={a.x} y1={y0} y2={y1} />
              <path d={down ? `M${a.x - 3.5},${y1 - 6}h7l-3.5,6z` : `M${a.x - 3.5},${y1 + 6}h7l-3.5,-6z`} />
              <line x1={a.x} x2={a.x} y1={y0} y2={y1} class="hit" />
            </g>
          )
        })}
        {!order && end > step.dur_ns * 1.005 && (
          <line x1={at(step.dur_ns)} x2={at(step.dur_ns)} y1={0} y2={height - 18} class="q">
            <title>{`the step ended after ${dur(step.dur_ns)}`}</title>
          </line>
        )}
        {labels.map((l, k) => (
          <text key={k} x={l.x} y={l.y} class="t offload-bytes">
            {l.text}
          </text>
        ))}
        {!order &&
          [0, 0.25, 0.5, 0.75, 1].map((f) => (
            <g key={f}>
              <line
                x1={left + f * inner}
                x2={left + f * inner}
                y1={height - 20}
                y2={height - 16}
                class="ax"
              />
              <text
                x={left + f * inner}
                y={height - 4}
                class={'t ' + (f === 0 ? '' : f === 1 ? 'end' : 'mid')}
              >
                {dur(f * end)}
              </text>
            </g>
          ))}
        {order && (
          <text x={left} y={height - 4} class="t">
            each split as wide as the others, from left to right in order
          </text>
        )}
      </svg>
    </div>
  )
}

/** From lane to lane: where an arrow begins and ends. */
function ends(a: Arrow, y: (lane: number) => number): [number, number] {
  const low = (lane: number) => (lane < 0 ? hostHeight - 6 : y(lane) + laneHeight)
  if (a.from === a.to) return [y(a.to) - 14, y(a.to)] // within one memory
  return a.from < a.to ? [low(a.from), y(a.to)] : [y(a.from), low(a.to)]
}

/** Copies of one direction that lie on each other are one arrow. */
function group(list: { c: OffloadStepCopy; x: number; from: number; to: number }[], near: number): Arrow[] {
  const out: Arrow[] = []
  for (const { c, x, from, to } of list) {
    const a = out.find((o) => o.from === from && o.to === to && Math.abs(o.x - x) <= near)
    if (a) a.list.push(c)
    else out.push({ x, from, to, list: [c] })
  }
  return out
}

/** What arrows carry, where there is room for it. */
function written(arrows: Arrow[], y: (lane: number) => number): { x: number; y: number; text: string }[] {
  const used = new Map<number, [number, number][]>()
  const out: { x: number; y: number; text: string }[] = []
  for (const a of arrows) {
    const known = a.list.every((c) => c.bytes != null)
    const sum = a.list.reduce((n, c) => n + (c.bytes ?? 0), 0)
    const text = known ? bytes(sum) : plural(a.list.length, 'copy', 'copies')
    const gap = Math.max(a.from, a.to, 0) // written above the lower one of its lanes
    const x = a.x + 5
    const span: [number, number] = [x - 8, x + wide(text) + 4]
    const taken = used.get(gap) ?? []
    // an arrow that passes would go through the text
    const crossed = arrows.some(
      (o) =>
        o !== a &&
        o.x > x - 2 &&
        o.x < span[1] &&
        Math.min(o.from, o.to) < gap &&
        Math.max(o.from, o.to) >= gap,
    )
    if (crossed || taken.some(([p, q]) => span[0] < q && p < span[1])) continue
    used.set(gap, [...taken, span])
    out.push({ x, y: y(gap) - between / 2 + 4, text })
  }
  return out
}

/** Between two splits of a backend nothing of this program ran there. */
function Idle({
  s,
  x0,
  x1,
  y,
  crossed,
}: {
  s: OffloadStepSplit
  x0: number
  x1: number
  y: number
  crossed: number[]
}) {
  if (s.idle_ns == null || x1 - x0 < 4) return null
  const text = `idle ${dur(s.idle_ns)}`
  const free =
    x1 - x0 > wide(text) + 24 && !crossed.some((x) => Math.abs(x - (x0 + x1) / 2) < wide(text) / 2 + 3)
  return (
    <g>
      <line x1={x0} x2={x1} y1={y} y2={y} class="offload-idle" />
      {free && (
        <text x={(x0 + x1) / 2} y={y - 4} class="t mid">
          {text}
        </text>
      )}
    </g>
  )
}

function cut(s: string, room: number): string {
  const most = Math.floor(room / 7)
  return s.length > most ? s.slice(0, most - 1) + '…' : s
}
