// SPDX-License-Identifier: Apache-2.0

// A map of cells: rows with names, columns, a colour for each cell. What is pointed at, or was reached with
// the arrow keys, is read out in a line above it.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { cssVar, useTheme } from '../../../ui/theme'

export interface CellRow {
  key: string
  /** Cleaned. */
  label: string
  title?: string
  /** Number of its cells. */
  n: number
  /** Behind its cells. */
  end?: ComponentChildren
}

/** Draws a cell into a rectangle of device pixels. */
export type Paint = (
  ctx: CanvasRenderingContext2D,
  row: number,
  col: number,
  x: number,
  y: number,
  w: number,
  h: number,
) => void

interface Props {
  id: string
  label: string
  rows: CellRow[]
  /** Columns of the longest row. */
  cols: number
  /** Pixels of a cell; height of a row. */
  cell: number
  height?: number
  /** Pixels left between cells. */
  gap?: number
  paint: Paint
  /** Over the cells of a row, when these are drawn. */
  over?: (
    ctx: CanvasRenderingContext2D,
    row: number,
    x: (col: number) => number,
    y: number,
    h: number,
  ) => void
  readout: (row: number, col: number) => string
  onPick?: (row: number, col: number) => void
  pick?: string
  /** Names of columns, as far as there is room. */
  foot?: { text: (col: number) => string; what: string }
  /** Names above parts of the first rows: from column to column. */
  heads?: { row: number; from: number; to: number; text: string }[]
  /** What changes the drawing beside the rows. */
  state: unknown
  children?: ComponentChildren
}

const headHeight = 15

/** Pixels that a map's cells have beside its labels. */
export const room = (): number =>
  Math.max(300, Math.min(1000, (document.getElementById('view')?.clientWidth ?? 1300) - 310))

export function Cells(p: Props) {
  const { rows, cols, cell, height = 17, gap = 1 } = p
  const theme = useTheme()
  const canvas = useRef<HTMLCanvasElement>(null)
  const [at, setAt] = useState<[number, number] | null>(null)
  const width = Math.max(1, cols * cell)
  const tops: number[] = []
  let total = 0
  rows.forEach((_, r) => {
    if (p.heads?.some((h) => h.row === r)) total += headHeight
    tops.push(total)
    total += height
  })

  useEffect(() => setAt(null), [rows])
  useEffect(() => {
    const c = canvas.current
    const ctx = c?.getContext('2d')
    if (!c || !ctx) return
    const px = devicePixelRatio || 1
    c.width = Math.round(width * px)
    c.height = Math.round(total * px)
    const X = (col: number) => Math.round(col * cell * px)
    const space = cell > 5 ? Math.round(gap * px) : 0
    rows.forEach((row, r) => {
      const y = Math.round(tops[r] * px)
      const h = Math.round((height - gap) * px)
      for (let i = 0; i < row.n; i++) p.paint(ctx, r, i, X(i), y, X(i + 1) - X(i) - space, h)
      p.over?.(ctx, r, X, y, h)
    })
    if (at && rows[at[0]] && at[1] < rows[at[0]].n) {
      const x0 = X(at[1])
      const x1 = X(at[1] + 1) - space
      // Dark and light, so that it stands out of every colour.
      for (const [color, wide] of [
        ['--bg', 4],
        ['--fg', 2],
      ] as const) {
        ctx.strokeStyle = cssVar(color)
        ctx.lineWidth = wide * px
        ctx.strokeRect(
          x0 - px,
          Math.round(tops[at[0]] * px) - px,
          x1 - x0 + 2 * px,
          Math.round((height - gap) * px) + 2 * px,
        )
      }
    }
  }, [rows, cols, cell, height, theme, p.state, at?.[0], at?.[1]])

  const place = (e: PointerEvent | MouseEvent): [number, number] | null => {
    const b = canvas.current!.getBoundingClientRect()
    const y = e.clientY - b.top
    const col = Math.floor((e.clientX - b.left) / cell)
    const row = tops.findIndex((t) => y >= t && y < t + height)
    return row >= 0 && col >= 0 && col < rows[row].n ? [row, col] : null
  }
  const key = (e: KeyboardEvent) => {
    const [r, c] = at ?? [0, -1]
    const to = (row: number, col: number) => {
      const n = rows[row]?.n ?? 0
      if (n > 0) setAt([row, Math.max(0, Math.min(n - 1, col))])
    }
    if (e.key === 'ArrowRight') to(r, c + 1)
    else if (e.key === 'ArrowLeft') to(r, c - 1)
    else if (e.key === 'ArrowDown') to(Math.min(rows.length - 1, at ? r + 1 : 0), Math.max(0, c))
    else if (e.key === 'ArrowUp') to(Math.max(0, r - 1), Math.max(0, c))
    else if (e.key === 'Home') to(r, 0)
    else if (e.key === 'End') to(r, Infinity)
    else if (e.key === 'Escape') setAt(null)
    else if ((e.key === 'Enter' || e.key === ' ') && at && p.onPick) p.onPick(at[0], at[1])
    else return
    e.preventDefault()
    e.stopPropagation()
  }
  const every = Math.max(1, Math.ceil(30 / cell))
  const text = at && rows[at[0]] && at[1] < rows[at[0]].n ? p.readout(at[0], at[1]) : ''
  return (
    <div class="cells" data-cells={p.id}>
      <div class="readout" aria-live="polite" title={text}>
        {text || (
          <span class="dim">
            {p.onPick ? `click or Enter: ${p.pick}; ` : ''}point at a cell, or go with the arrow keys
          </span>
        )}
      </div>
      <div class="table-scroll wide">
        <div class="cells-grid" style={{ height: `${total + (p.foot ? 18 : 2)}px` }}>
          <div class="cells-labels" style={{ height: `${total}px` }}>
            {rows.map(
              (row, r) =>
                row.label && (
                  <bdi
                    key={row.key}
                    class="clip"
                    style={{ top: `${tops[r]}px`, height: `${height}px`, lineHeight: `${height}px` }}
                    title={row.title ?? row.label}
                  >
                    {row.label}
                  </bdi>
                ),
            )}
            {p.foot && (
              <span class="dim" style={{ top: `${total + 1}px` }}>
                {p.foot.what}
              </span>
            )}
          </div>
          <div class="cells-body" style={{ width: `${width}px` }}>
            {p.heads?.map(
              (h, i) =>
                (h.to - h.from) * cell >= 34 && (
                  <span
                    key={i}
                    class="cells-head clip"
                    style={{
                      left: `${h.from * cell + 1}px`,
                      width: `${(h.to - h.from) * cell - 4}px`,
                      top: `${tops[h.row] - headHeight}px`,
                    }}
                    title={h.text}
                  >
                    {h.text}
                  </span>
                ),
            )}
            <canvas
              ref={canvas}
              style={{ width: `${width}px`, height: `${total}px` }}
              tabIndex={0}
              role="img"
              aria-label={p.label}
              data-rows={rows.length}
              onPointerMove={(e) => setAt(place(e))}
              onPointerLeave={() => setAt(null)}
              onKeyDown={key}
              onClick={(e) => {
                const got = place(e)
                if (got) p.onPick?.(got[0], got[1])
              }}
            />
            {p.foot &&
              Array.from({ length: Math.ceil(cols / every) }, (_, i) => i * every).map((c) => (
                <span
                  key={c}
                  class="cells-foot dim"
                  style={{ left: `${(c + 0.5) * cell - 20}px`, top: `${total + 1}px` }}
                >
                  {p.foot!.text(c)}
                </span>
              ))}
          </div>
          <div class="cells-ends">
            {rows.map(
              (row, r) =>
                row.end && (
                  <span
                    key={row.key}
                    style={{ top: `${tops[r]}px`, height: `${height}px`, lineHeight: `${height}px` }}
                  >
                    {row.end}
                  </span>
                ),
            )}
          </div>
        </div>
      </div>
      {p.children}
    </div>
  )
}

/** Fills a cell. */
export function fill(
  ctx: CanvasRenderingContext2D,
  color: string,
  x: number,
  y: number,
  w: number,
  h: number,
): void {
  ctx.fillStyle = color
  ctx.fillRect(x, y, Math.max(1, w), h)
}
