// SPDX-License-Identifier: Apache-2.0

// A map of coloured cells on a canvas. What lies under the pointer, or was reached with the arrow keys, is
// read out above it; a drag over columns takes a part of them, where that is offered.
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { cssVar, useTheme } from '../../../ui/theme'

export interface Cell {
  col: number
  row: number
}

interface Props {
  id: string
  title: string
  about: ComponentChildren
  /** For whoever does not see it. */
  label: string
  cols: number
  rows: number
  /**
   * A cell's colour as 0xAABBGGRR, 0: nothing is there. It is asked for cells in order when `paint` changes.
   */
  color: (col: number, row: number) => number
  paint: unknown
  colName: string
  rowName: string
  colLabel: (col: number) => string
  rowLabel: (row: number) => string
  /** What is read out of a cell. */
  read: (c: Cell) => ComponentChildren
  hint: string
  legend?: ComponentChildren
  width: number
  height: number
  /** Columns before which something new begins: a line stands there. */
  starts?: number[]
  /** A row or column that is chosen. */
  marked?: { col?: number; row?: number }
  onPick?: (c: Cell) => void
  onRange?: (from: number, to: number) => void
  /** Further keys; true: it was one. */
  onKey?: (key: string, at: Cell | null) => boolean
}

const left = 40
const bottom = 32

/** The size of a box, and a new drawing when that changes. */
export function useWidth<E extends HTMLElement>(): [(e: E | null) => void, number] {
  const [width, set] = useState(0)
  const seen = useRef<ResizeObserver | null>(null)
  const attach = useRef((e: E | null) => {
    seen.current?.disconnect()
    seen.current = null
    if (!e) return
    set(e.clientWidth)
    seen.current = new ResizeObserver(() => set(e.clientWidth))
    seen.current.observe(e)
  })
  return [attach.current, width]
}

/** How many pixels wide the cells can be together. */
export const roomFor = (width: number): number => Math.max(60, width - left - 8)

/** Every so many of n labels, so that each has room. */
function every(n: number, size: number, least: number): number {
  const want = Math.max(1, least / size)
  for (let m = 1; ; m *= 10) for (const k of [1, 2, 5]) if (k * m >= want || k * m >= n) return k * m
}

export function Grid(p: Props) {
  const theme = useTheme()
  const canvas = useRef<HTMLCanvasElement>(null)
  const [at, show] = useState<Cell | null>(null)
  const now = useRef<Cell | null>(null) // keys come faster than drawings
  const setAt = (c: Cell | null) => {
    now.current = c
    show(c)
  }
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null)
  const down = useRef<{ x: number; col: number } | null>(null)
  const w = roomFor(p.width)
  const cw = Math.min(26, w / p.cols)
  const ch = p.height / p.rows
  const wide = cw * p.cols

  useEffect(() => setAt(null), [p.cols, p.rows, p.id])
  useLayoutEffect(() => {
    const c = canvas.current
    if (!c || p.width === 0) return
    const px = devicePixelRatio || 1
    c.width = Math.ceil(left + wide + 8) * px
    c.height = (p.height + bottom) * px
    const ctx = c.getContext('2d')!
    // A pixel a cell, then drawn large: a frame costs its cells, however large they are.
    const small = document.createElement('canvas')
    small.width = p.cols
    small.height = p.rows
    const img = new ImageData(p.cols, p.rows)
    const out = new Uint32Array(img.data.buffer)
    for (let col = 0; col < p.cols; col++)
      for (let row = 0; row < p.rows; row++) out[row * p.cols + col] = p.color(col, row)
    small.getContext('2d')!.putImageData(img, 0, 0)
    ctx.scale(px, px)
    ctx.imageSmoothingEnabled = false
    ctx.fillStyle = cssVar('--panel')
    ctx.fillRect(left, 0, wide, p.height)
    ctx.drawImage(small, left, 0, wide, p.height)
    ctx.fillStyle = cssVar('--bg')
    if (cw >= 5) for (let x = 1; x < p.cols; x++) ctx.fillRect(left + x * cw - 0.5, 0, 1, p.height)
    if (ch >= 5) for (let y = 1; y < p.rows; y++) ctx.fillRect(left, y * ch - 0.5, wide, 1)
    ctx.fillStyle = cssVar('--fg')
    for (const x of p.starts ?? []) ctx.fillRect(left + x * cw - 0.5, 0, 1, p.height + 4)
    ctx.strokeStyle = cssVar('--line')
    ctx.strokeRect(left - 0.5, -0.5, wide + 1, p.height + 1)
    ctx.font = '11px ' + cssVar('--sans')
    ctx.fillStyle = cssVar('--dim')
    ctx.textBaseline = 'middle'
    ctx.textAlign = 'right'
    for (let r = 0, k = every(p.rows, ch, 13); r < p.rows; r += k)
      ctx.fillText(p.rowLabel(r), left - 5, Math.max(6, (r + 0.5) * ch))
    ctx.textAlign = 'center'
    ctx.textBaseline = 'top'
    const longest = Math.max(
      ctx.measureText(p.colLabel(p.cols - 1)).width,
      ctx.measureText(p.colLabel(0)).width,
    )
    for (let x = 0, k = every(p.cols, cw, longest + 14); x < p.cols; x += k) {
      const text = p.colLabel(x)
      const half = ctx.measureText(text).width / 2
      const mid = Math.max(left + half - 8, Math.min(left + wide - half + 8, left + (x + 0.5) * cw))
      ctx.fillText(text, mid, p.height + 4)
    }
    ctx.textAlign = 'left'
    ctx.fillText(p.colName, left, p.height + 18)
  }, [p.paint, p.cols, p.rows, p.width, p.height, theme])

  const cellAt = (e: PointerEvent): Cell | null => {
    const box = canvas.current!.getBoundingClientRect()
    const x = e.clientX - box.left - left
    const y = e.clientY - box.top
    if (x < 0 || y < 0 || x >= wide || y >= p.height) return null
    return { col: Math.min(p.cols - 1, Math.floor(x / cw)), row: Math.min(p.rows - 1, Math.floor(y / ch)) }
  }
  const colAt = (e: PointerEvent): number => {
    const x = e.clientX - canvas.current!.getBoundingClientRect().left - left
    return Math.max(0, Math.min(p.cols - 1, Math.floor(x / cw)))
  }
  const move = (e: PointerEvent) => {
    const d = down.current
    if (d && p.onRange && Math.abs(e.clientX - d.x) > 3)
      setDrag({ from: Math.min(d.col, colAt(e)), to: Math.max(d.col, colAt(e)) })
    setAt(cellAt(e))
  }
  const up = (e: PointerEvent) => {
    const d = down.current
    down.current = null
    if (drag) {
      setDrag(null)
      if (drag.to > drag.from) p.onRange?.(drag.from, drag.to)
      return
    }
    const c = cellAt(e)
    if (d && c) p.onPick?.(c)
  }
  const key = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return
    const at = now.current
    const start = at ?? { col: Math.max(0, p.marked?.col ?? 0), row: Math.max(0, p.marked?.row ?? 0) }
    const step = e.shiftKey ? 10 : 1
    const to = (dc: number, dr: number) =>
      setAt(
        at === null
          ? start
          : {
              col: Math.max(0, Math.min(p.cols - 1, start.col + dc * step)),
              row: Math.max(0, Math.min(p.rows - 1, start.row + dr * step)),
            },
      )
    if (e.key === 'ArrowRight') to(1, 0)
    else if (e.key === 'ArrowLeft') to(-1, 0)
    else if (e.key === 'ArrowDown') to(0, 1)
    else if (e.key === 'ArrowUp') to(0, -1)
    else if (e.key === 'Home') setAt({ col: 0, row: start.row })
    else if (e.key === 'End') setAt({ col: p.cols - 1, row: start.row })
    else if (e.key === 'Enter' && at) p.onPick?.(at)
    else if (!p.onKey?.(e.key, at)) return
    e.preventDefault()
    e.stopPropagation()
  }
  const box = (from: number, to: number, row0: number, row1: number, kind: string) => (
    <div
      class={'cell ' + kind}
      style={{
        left: `${left + from * cw}px`,
        top: `${row0 * ch}px`,
        width: `${(to - from + 1) * cw}px`,
        height: `${(row1 - row0 + 1) * ch}px`,
      }}
    />
  )
  return (
    <figure class="plot" data-plot={p.id} data-points={p.cols * p.rows}>
      <figcaption>
        <h3>{p.title}</h3>
        <p class="dim">{p.about}</p>
      </figcaption>
      <div class="legend">
        {p.legend}
        <span class="readout" aria-live="polite">
          {at ? p.read(at) : <span class="dim">{p.hint}</span>}
        </span>
      </div>
      <div
        class="cells"
        tabIndex={0}
        role="img"
        aria-label={p.label}
        data-cols={p.cols}
        data-rows={p.rows}
        data-left={left}
        data-cell={`${cw} ${ch}`}
        onPointerDown={(e) => {
          if (e.button === 0) down.current = { x: e.clientX, col: colAt(e) }
        }}
        onPointerMove={move}
        onPointerUp={up}
        onPointerLeave={() => {
          down.current = null
          setDrag(null)
          setAt(null)
        }}
        onKeyDown={key}
        onBlur={() => setAt(null)}
        style={{ width: `${left + wide + 8}px`, height: `${p.height + bottom}px` }}
      >
        <canvas
          ref={canvas}
          style={{ width: `${Math.ceil(left + wide + 8)}px`, height: `${p.height + bottom}px` }}
        />
        {p.marked?.row !== undefined &&
          p.marked.row >= 0 &&
          box(0, p.cols - 1, p.marked.row, p.marked.row, 'marked')}
        {p.marked?.col !== undefined &&
          p.marked.col >= 0 &&
          box(p.marked.col, p.marked.col, 0, p.rows - 1, 'marked')}
        {drag && box(drag.from, drag.to, 0, p.rows - 1, 'drag')}
        {at && !drag && box(at.col, at.col, at.row, at.row, 'at')}
      </div>
    </figure>
  )
}
