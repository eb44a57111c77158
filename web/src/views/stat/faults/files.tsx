// SPDX-License-Identifier: Apache-2.0

// What of the model's files was in memory: the file from begin to end, layer below layer, in cells of pages.
import { useMemo } from 'preact/hooks'
import type { MemorySeries, MemoryFileGroup, MemoryFileMap, MemoryFileTensor } from '../../../api/types'
import type { Theme } from '../../../lib/color'
import { memoryClassName } from '../../../lib/faults'
import { bytes, clean, count, named, share } from '../../../lib/format'
import { sortOrder } from '../../../lib/sort'
import { inUnit, unitOf } from '../../../lib/units'
import { Meter, Name } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'
import { cssVar, useTheme } from '../../../ui/theme'
import type { TabContext } from '../context'
import { Cells, fill, room, type CellRow } from './cells'
import { memoryColors } from './colors'

/** Cells that stand side by side at most. */
const maxLine = 480

export function Files({ ctx, d, run }: { ctx: TabContext; d: MemorySeries; run: number }) {
  const drawn = d.files.filter((f) => f.groups.length > 0)
  const rest = d.files.filter((f) => f.groups.length === 0)
  const wanted = Number(ctx.params.file)
  const at =
    Number.isInteger(wanted) && wanted >= 0 && wanted < drawn.length
      ? wanted
      : Math.max(
          0,
          drawn.findIndex((f) => f.mapped),
        )
  return (
    <section data-files={run}>
      <h2>What of the model is in memory</h2>
      {d.files.length === 0 && (
        <p class="dim">No file of a model was mapped, nor named on the engine’s command line.</p>
      )}
      {drawn.length > 1 && (
        <select
          aria-label="file"
          value={String(at)}
          onChange={(e) => ctx.set({ file: e.currentTarget.value, sel: undefined })}
        >
          {drawn.map((f, i) => (
            <option key={i} value={String(i)}>
              {clean(base(f.path))} (process {f.pid})
            </option>
          ))}
        </select>
      )}
      {drawn.length > 0 && (
        <OneFile key={at} ctx={ctx} f={drawn[at]} n={d.files.indexOf(drawn[at])} run={run} />
      )}
      {rest.length > 0 && <Rest files={rest} drawn={drawn.length > 0} />}
    </section>
  )
}

const base = (path: string): string => path.slice(path.lastIndexOf('/') + 1) || path

const part = (v: number | null, of: number): number | null => (v == null || of <= 0 ? null : v / of)
const came = (t: { resident_end_bytes: number | null; stayed_bytes: number | null }): number | null =>
  t.resident_end_bytes == null || t.stayed_bytes == null ? null : t.resident_end_bytes - t.stayed_bytes
const went = (t: { resident_start_bytes: number | null; stayed_bytes: number | null }): number | null =>
  t.resident_start_bytes == null || t.stayed_bytes == null ? null : t.resident_start_bytes - t.stayed_bytes

/** Other files: how much of them, or why it is not known. */
function Rest({ files, drawn }: { files: MemoryFileMap[]; drawn: boolean }) {
  const cols: Column<MemoryFileMap>[] = [
    {
      key: 'path',
      head: drawn ? 'other files' : 'file',
      text: true,
      value: (f) => f.path,
      cell: (f) => <Name text={f.path} />,
    },
    { key: 'pid', head: 'process', value: (f) => f.pid, cell: (f) => f.pid },
    { key: 'bytes', head: 'size', value: (f) => f.bytes, cell: (f) => <Fig v={f.bytes} f={bytes} /> },
    {
      key: 'start',
      head: 'in memory at the start',
      value: (f) => part(f.resident_start_bytes, f.bytes),
      cell: (f) => <Fig v={part(f.resident_start_bytes, f.bytes)} f={share} />,
    },
    {
      key: 'end',
      head: 'at the end',
      value: (f) => part(f.resident_end_bytes, f.bytes),
      cell: (f) => <Fig v={part(f.resident_end_bytes, f.bytes)} f={share} />,
    },
    {
      key: 'why',
      head: '',
      text: true,
      value: (f) => f.failed,
      cell: (f) => (f.failed ? <span class="warn">not known: {clean(f.failed)}</span> : ''),
    },
  ]
  return <Table rows={files} columns={cols} id={(f) => `${f.pid} ${f.path}`} label="other files" limit={8} />
}

type Show = 'change' | 'start' | 'end'

/** A line of cells of a group. */
interface Line {
  g: number
  from: number
  n: number
}

function linesOf(f: MemoryFileMap, most: number): { lines: Line[]; width: number } {
  const cellsOf = (g: MemoryFileGroup) => (g.end ?? g.start ?? []).length
  const layers = f.groups.filter((g) => g.layer != null)
  const width = Math.min(maxLine, most, Math.max(...(layers.length ? layers : f.groups).map(cellsOf), 1))
  const lines: Line[] = []
  f.groups.forEach((g, i) => {
    for (let from = 0; from < cellsOf(g); from += width)
      lines.push({ g: i, from, n: Math.min(width, cellsOf(g) - from) })
  })
  return { lines, width }
}

function groupName(g: MemoryFileGroup): string {
  return g.layer != null
    ? `layer ${g.layer}`
    : g.name
      ? clean(g.name.replace(/\.weight$/, ''))
      : 'in no tensor'
}

function OneFile({ ctx, f, n, run }: { ctx: TabContext; f: MemoryFileMap; n: number; run: number }) {
  const theme = useTheme()
  const both = f.stayed_bytes != null
  const can: Show[] = [
    ...(both ? ['change' as const] : []),
    ...(f.resident_start_bytes != null ? ['start' as const] : []),
    ...(f.resident_end_bytes != null ? ['end' as const] : []),
  ]
  const show = can.includes(ctx.params.show as Show) ? (ctx.params.show as Show) : can[0]
  const m = memoryColors(theme)
  const { lines, width } = useMemo(() => linesOf(f, Math.floor(room() / 2)), [f])
  const rows: CellRow[] = useMemo(
    () =>
      lines.map((l) => {
        const g = f.groups[l.g]
        const of = show === 'start' ? g.start : g.end
        return {
          key: `${l.g}/${l.from}`,
          n: l.n,
          label: l.from === 0 ? groupName(g) : '',
          title: `${groupName(g)}: ${bytes(g.bytes)} from ${bytes(g.offset)} on`,
          end:
            l.from === 0
              ? of
                ? share(
                    part(
                      of.reduce((s, v) => s + v, 0),
                      g.bytes,
                    ),
                  )
                : 'not known'
              : undefined,
        }
      }),
    [lines, show],
  )
  const heads = useMemo(() => {
    const g = f.groups.findIndex((g) => g.layer != null)
    return lines
      .flatMap((l, row) =>
        l.g !== g
          ? []
          : f.tensors
              .filter((t) => t.group === g)
              .map((t) => {
                const at = (offset: number) =>
                  Math.max(0, Math.min(l.n, (offset - f.groups[g].offset) / f.cell_bytes - l.from))
                return { row, from: at(t.offset), to: at(t.offset + t.bytes), text: clean(stem(t.name)) }
              }),
      )
      .filter((h) => h.to > h.from)
  }, [lines])
  const selected = f.tensors.find((t) => t.name === ctx.params.sel) ?? null
  const sizeOf = (l: Line, i: number) =>
    Math.min(f.cell_bytes, f.groups[l.g].bytes - (l.from + i) * f.cell_bytes)
  const cell = Math.max(2, Math.min(12, Math.floor(room() / width)))
  const at = (l: Line, i: number) => {
    const from = f.groups[l.g].offset + (l.from + i) * f.cell_bytes
    return [from, from + sizeOf(l, i)]
  }
  const inside = (from: number, to: number) =>
    f.tensors.filter((t) => t.offset < to && t.offset + t.bytes > from)
  const pick = (r: number, i: number) => {
    const [from, to] = at(lines[r], i)
    const list = inside(from, to)
    if (list.length === 0) return
    const overlap = (t: MemoryFileTensor) => Math.min(to, t.offset + t.bytes) - Math.max(from, t.offset)
    ctx.set({ sel: list.reduce((a, b) => (overlap(b) > overlap(a) ? b : a)).name }, true)
  }
  return (
    <>
      <p class="facts" data-file={n}>
        <span>
          <Name text={f.path} /> (process {f.pid}):{' '}
          <Fig v={f.bytes} f={bytes} name={`faults.files.${n}.bytes`} />, in memory
        </span>
        <span>
          at the start{' '}
          <Fig v={f.resident_start_bytes} f={bytes} name={`faults.files.${n}.resident_start_bytes`} /> (
          {share(part(f.resident_start_bytes, f.bytes))})
        </span>
        <span>
          at the end <Fig v={f.resident_end_bytes} f={bytes} name={`faults.files.${n}.resident_end_bytes`} />{' '}
          ({share(part(f.resident_end_bytes, f.bytes))})
        </span>
        {both && (
          <span>
            stayed <Fig v={f.stayed_bytes} f={bytes} />, came <Fig v={came(f)} f={bytes} />, went{' '}
            <Fig v={went(f)} f={bytes} />
          </span>
        )}
      </p>
      {!f.mapped && f.graphs_seen && (
        <p class="note">
          No tensor is computed with where it is mapped: its weights were copied when it was loaded, and
          nothing of the file is needed after that.
        </p>
      )}
      {!f.graphs_seen && <p class="note">No graph was seen, so it is not known where tensors lie in it.</p>}
      <p class="dim">
        The file from its begin to its end, layer below layer. A cell is {bytes(f.cell_bytes)},{' '}
        {count(f.cell_bytes / f.page_bytes)} {f.cell_bytes === f.page_bytes ? 'page' : 'pages'}; a cell that
        is partly in memory is filled partly. Whoever brought a page there: other processes count too. At the
        right what of the line’s part of the file{' '}
        {show === 'start' ? 'was in memory at the start' : 'was in memory at the end'}.
      </p>
      <div class="tools">
        <span class="choice" role="group" aria-label="when">
          {(['change', 'start', 'end'] as const).map((k) => (
            <button
              key={k}
              aria-pressed={k === show}
              disabled={!can.includes(k)}
              onClick={() => ctx.set({ show: k }, true)}
            >
              {{ change: 'what changed', start: 'at the start', end: 'at the end' }[k]}
            </button>
          ))}
        </span>
        <span class="key">
          {show === 'change' ? (
            <>
              <span>
                <i style={{ background: m.stayed }} />
                stayed
              </span>
              <span>
                <i style={{ background: m.came }} />
                came
              </span>
              <span>
                <i style={{ background: m.went }} />
                went
              </span>
              <span>
                <i style={{ background: m.absent }} />
                at neither end
              </span>
            </>
          ) : (
            <>
              <span>
                <i style={{ background: m.stayed }} />
                in memory
              </span>
              <span>
                <i style={{ background: m.absent }} />
                not
              </span>
            </>
          )}
        </span>
      </div>
      <Cells
        id={`file${run}`}
        label={`pages of ${named(base(f.path))} in memory, ${f.groups.length} parts, ${lines.length} lines`}
        rows={rows}
        cols={width}
        cell={cell}
        height={15}
        gap={1}
        state={`${show} ${selected?.name}`}
        heads={heads}
        readout={(r, i) => told(f, lines[r], i, at(lines[r], i), inside)}
        onPick={pick}
        pick="its tensor"
        paint={(c, r, i, x, y, w, h) => {
          const l = lines[r]
          const g = f.groups[l.g]
          const k = l.from + i
          const size = sizeOf(l, i)
          fill(c, m.absent, x, y, w, h)
          const parts: [number, string][] =
            show === 'change'
              ? [
                  [g.stayed![k], m.stayed],
                  [g.end![k] - g.stayed![k], m.came],
                  [g.start![k] - g.stayed![k], m.went],
                ]
              : [[(show === 'start' ? g.start! : g.end!)[k], m.stayed]]
          let sum = 0
          let y1 = y + h
          for (const [v, color] of parts) {
            if (v <= 0) continue
            sum += v
            // What there is a little of is seen none the less.
            const y0 = Math.min(y1 - 1, y + h - Math.round((h * sum) / size))
            fill(c, color, x, y0, w, y1 - y0)
            y1 = y0
          }
        }}
        over={(c, r, X, y, h) => marks(c, f, lines[r], selected, X, y, h, theme)}
      />
      {f.tensors.length > 0 && <Tensors ctx={ctx} f={f} selected={selected} />}
    </>
  )
}

const stem = (name: string): string => name.replace(/^(.*\.)?blk\.\d+\./, '$1').replace(/\.weight$/, '')

/** Where tensors begin, and around the one that is selected. */
function marks(
  c: CanvasRenderingContext2D,
  f: MemoryFileMap,
  l: Line,
  selected: MemoryFileTensor | null,
  X: (col: number) => number,
  y: number,
  h: number,
  theme: Theme,
): void {
  const g = f.groups[l.g]
  const col = (offset: number) => (offset - g.offset) / f.cell_bytes - l.from
  c.fillStyle = theme === 'dark' ? '#000c' : '#fffc'
  for (const t of f.tensors) {
    if (t.group !== l.g) continue
    const at = col(t.offset)
    if (at > 0 && at < l.n) c.fillRect(X(at), y, Math.max(1, devicePixelRatio || 1), h)
  }
  if (!selected) return
  const a = Math.max(0, col(selected.offset))
  const b = Math.min(l.n, col(selected.offset + selected.bytes))
  if (selected.offset < g.offset + g.bytes && selected.offset + selected.bytes > g.offset && b > a) {
    c.strokeStyle = cssVar('--fg')
    c.lineWidth = 2 * (devicePixelRatio || 1)
    c.strokeRect(X(a) + 1, y + 1, Math.max(2, X(b) - X(a) - 2), h - 2)
  }
}

function told(
  f: MemoryFileMap,
  l: Line,
  i: number,
  [from, to]: number[],
  inside: (from: number, to: number) => MemoryFileTensor[],
): string {
  const g = f.groups[l.g]
  const k = l.from + i
  const list = inside(from, to)
  const names = list.slice(0, 2).map((t) => `${named(t.name, 40)} ${clean(t.type)}`)
  if (list.length > 2) names.push(`${list.length - 2} more`)
  const parts = [
    groupName(g),
    names.join(', '),
    `${count(from)} to ${count(to)}`,
    `of ${bytes(to - from)} in memory:`,
  ]
  const state = []
  if (g.start) state.push(`${bytes(g.start[k])} at the start`)
  if (g.end) state.push(`${bytes(g.end[k])} at the end`)
  if (g.stayed) state.push(`${bytes(g.stayed[k])} at both`)
  return parts.filter(Boolean).join(' · ') + ' ' + state.join(', ')
}

function Tensors({
  ctx,
  f,
  selected,
}: {
  ctx: TabContext
  f: MemoryFileMap
  selected: MemoryFileTensor | null
}) {
  const size = unitOf(
    'bytes',
    f.tensors.map((t) => t.bytes),
  )
  const fig = inUnit(size)
  const end = (t: MemoryFileTensor) => part(t.resident_end_bytes, t.bytes)
  const start = (t: MemoryFileTensor) => part(t.resident_start_bytes, t.bytes)
  const cols: Column<MemoryFileTensor>[] = [
    {
      key: 'tensor',
      head: 'tensor',
      text: true,
      value: (t) => t.name,
      cell: (t) => (
        <>
          <Name text={t.name} /> <span class="dim">{clean(t.type)}</span>
        </>
      ),
    },
    {
      key: 'class',
      head: 'what',
      text: true,
      value: (t) => memoryClassName(t.class),
      cell: (t) => memoryClassName(t.class),
    },
    {
      key: 'offset',
      head: 'offset',
      help: 'in the file, bytes',
      value: (t) => t.offset,
      cell: (t) => <Fig v={t.offset} f={count} />,
    },
    {
      key: 'bytes',
      head: (
        <>
          size <span class="unit">{size.name}</span>
        </>
      ),
      value: (t) => t.bytes,
      cell: (t) => <Fig v={t.bytes} f={fig} />,
    },
    {
      key: 'resident_start_bytes',
      head: (
        <>
          at the start <span class="unit">{size.name}</span>
        </>
      ),
      value: (t) => t.resident_start_bytes,
      cell: (t) => <Fig v={t.resident_start_bytes} f={fig} />,
    },
    { key: 'start', head: '% at start', value: start, cell: (t) => <Fig v={start(t)} f={share} /> },
    {
      key: 'resident_end_bytes',
      head: (
        <>
          at the end <span class="unit">{size.name}</span>
        </>
      ),
      value: (t) => t.resident_end_bytes,
      cell: (t) => <Fig v={t.resident_end_bytes} f={fig} />,
    },
    {
      key: 'end',
      head: '% at end',
      value: end,
      cell: (t) => (
        <>
          <Meter part={end(t) ?? 0} /> <Fig v={end(t)} f={share} />
        </>
      ),
    },
    {
      key: 'came',
      head: 'came',
      help: 'not in memory at the start, in memory at the end',
      value: came,
      cell: (t) => <Fig v={came(t)} f={fig} />,
    },
    {
      key: 'went',
      head: 'went',
      help: 'in memory at the start, not at the end',
      value: went,
      cell: (t) => <Fig v={went(t)} f={fig} />,
    },
  ]
  const sort = sortOrder(ctx.params.order)
  const known = sort && cols.some((c) => c.key === sort.key)
  return (
    <>
      <h3>Tensors in the file</h3>
      <Table
        rows={f.tensors}
        columns={cols}
        id={(t) => `${t.offset}`}
        label="tensors in the file"
        limit={12}
        sort={known ? sort.key : 'end'}
        up={known ? sort.up : true}
        onSort={(key, up) => ctx.set({ order: (up ? 'up:' : '') + key }, true)}
        selected={selected ? `${selected.offset}` : undefined}
        onSelect={(t) => ctx.set({ sel: selected === t ? undefined : t.name }, true)}
      />
      {f.tensors_left_out > 0 && (
        <p class="note">{count(f.tensors_left_out)} tensors are left out: there are too many.</p>
      )}
    </>
  )
}
