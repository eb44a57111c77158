// SPDX-License-Identifier: Apache-2.0

// Steps one by one: all of a short run, the slowest of a long one.
import { useMemo } from 'preact/hooks'
import type { SeriesStepPoint } from '../../api/types'
import { clean, count, num, share } from '../../lib/format'
import { sortOrder } from '../../lib/sort'
import { inUnit, unitOf } from '../../lib/units'
import { Fig } from '../../ui/figure'
import { Table, type Column } from '../../ui/table'
import { runNames, seriesOf, stepLink, type TabContext } from './context'

interface Row extends SeriesStepPoint {
  id_: string
  run: number
}

export function StepTable(ctx: TabContext) {
  const runs = ctx.sb ? [ctx.sa, ctx.sb] : [ctx.sa]
  const names = runNames(ctx)
  const { rows, thinned } = useMemo(() => {
    const rows: Row[] = []
    const thinned: string[] = []
    runs.forEach((s, run) => {
      const p = seriesOf(s, ctx)
      if (!p) return
      let list = p.steps
      if (p.steps_per_point > 1) {
        list = p.slowest
        thinned.push(ctx.sb ? names[run] : '')
      }
      for (const x of [...list, ...p.partial.filter((x) => x.n === 1)])
        rows.push({ ...x, run, id_: (ctx.sb ? run + '/' : '') + x.id })
    })
    return { rows, thinned }
  }, [ctx.sa, ctx.sb, ctx.phase, ctx.model])
  const shown = rows.filter((r) => !ctx.params.filter || String(r.id).includes(ctx.params.filter.trim()))
  const cols = useMemo(() => columnsOf(ctx, rows, names), [rows])
  if (rows.length === 0) return <p class="dim">No step of phase {ctx.phase} was seen.</p>
  const sort = sortOrder(ctx.params.sort) ?? { key: 'key', up: true }
  return (
    <>
      {thinned.length > 0 && (
        <p class="note">
          {thinned
            .filter(Boolean)
            .map((n) => n + ': ')
            .join('')}
          the run is long: the {rows.length} slowest steps are listed. All are in the plot of steps.
        </p>
      )}
      <p class="dim">
        A row goes to its step in ProfTime. Times of operators are sums over the step, without what the probes
        took; wait and off-CPU are shares of the threads’ time in operators.
      </p>
      {shown.length === 0 && <p class="dim">No step has “{clean(ctx.params.filter)}” in its number.</p>}
      {shown.length > 0 && (
        <Table
          rows={shown}
          columns={cols}
          id={(r) => r.id_}
          label={`${ctx.phase} by step`}
          sort={sort.key}
          up={sort.up}
          onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
          onSelect={(r) => (location.hash = stepLink(ctx, r.run, r.id))}
        />
      )}
    </>
  )
}

function columnsOf(ctx: TabContext, rows: Row[], names: [string, string]): Column<Row>[] {
  const has = (f: (r: Row) => unknown) => rows.some((r) => f(r) != null)
  const time = (key: keyof SeriesStepPoint, head: string, help: string): Column<Row> => {
    const unit = unitOf(
      'time',
      rows.map((r) => r[key] as number | null),
    )
    return {
      key,
      help,
      head: (
        <>
          {head} <span class="unit">{unit.name}</span>
        </>
      ),
      value: (r) => r[key] as number | null,
      cell: (r) => <Fig v={r[key] as number | null} f={inUnit(unit)} />,
    }
  }
  const part = (r: Row, v: number | null): number | null => {
    const all =
      r.busy_ns == null || r.wait_ns == null || r.off_cpu_ns == null
        ? 0
        : r.busy_ns + r.wait_ns + r.off_cpu_ns
    return v == null || all === 0 ? null : v / all
  }
  const first = [0, 1].map((run) =>
    rows.reduce((m, r) => (r.run === run ? Math.min(m, r.start_ns) : m), Infinity),
  )
  const unit = unitOf(
    'time',
    rows.map((r) => r.start_ns - first[r.run]),
  )
  const cols: Column<Row>[] = [
    {
      key: 'key',
      head: 'step',
      value: (r) => r.id,
      cell: (r) => (
        <a href={stepLink(ctx, r.run, r.id)}>
          <Fig v={r.id} f={count} />
        </a>
      ),
    },
    {
      key: 'start_ns',
      head: (
        <>
          from <span class="unit">{unit.name}</span>
        </>
      ),
      help: 'start, after the first step listed',
      value: (r) => r.start_ns - first[r.run],
      cell: (r) => <Fig v={r.start_ns - first[r.run]} f={inUnit(unit)} />,
    },
    { key: 'tokens', head: 'tokens', value: (r) => r.tokens, cell: (r) => <Fig v={r.tokens} f={count} /> },
  ]
  if (ctx.sb)
    cols.unshift({ key: 'run', head: 'run', text: true, value: (r) => r.run, cell: (r) => names[r.run] })
  if (has((r) => r.pos))
    cols.push({
      key: 'pos',
      head: 'position',
      help: 'tokens of the longest sequence after the step',
      value: (r) => r.pos,
      cell: (r) => <Fig v={r.pos} f={count} />,
    })
  if (has((r) => r.cells))
    cols.push({
      key: 'cells',
      head: 'KV cells',
      help: 'cells of the KV cache that attention read',
      value: (r) => r.cells,
      cell: (r) => <Fig v={r.cells} f={count} />,
    })
  const late = rows.some((r) => r.late_ns !== 0)
  cols.push(
    time('dur_ns', late ? 'call' : 'step', late ? 'duration of the step’s call' : 'duration of the step'),
  )
  if (late)
    cols.push(
      time(
        'late_ns',
        'results after',
        'from the call’s end until the step’s results were there: a device, or another process, works on',
      ),
    )
  if (has((r) => r.matmul_ns)) {
    cols.push({
      key: 'calls',
      head: 'operators',
      value: (r) => r.operators,
      cell: (r) => <Fig v={r.operators} f={count} />,
    })
    cols.push(
      time('matmul_ns', 'matmul', 'matrix weight matmul'),
      time('attn_ns', 'attention', 'attention: scores, softmax, values'),
      time('other_ns', 'other', 'all other operators'),
      time('outside_operators_ns', 'outside', 'time outside operators'),
    )
    cols.push({
      key: 'gb_per_s',
      head: 'GB/s',
      help: 'bytes of all operators / their time',
      value: (r) => rate(r),
      cell: (r) => <Fig v={rate(r)} f={num} />,
    })
    cols.push({
      key: 'wait_share',
      head: 'barrier wait',
      value: (r) => part(r, r.wait_ns),
      cell: (r) => <Fig v={part(r, r.wait_ns)} f={share} />,
    })
    if (ctx.a.stats.weight.has_off_cpu)
      cols.push({
        key: 'off_cpu_share',
        head: 'off-CPU',
        value: (r) => part(r, r.off_cpu_ns),
        cell: (r) => <Fig v={part(r, r.off_cpu_ns)} f={share} />,
      })
  }
  if (rows.some((r) => r.incomplete || r.untraced)) {
    cols.push({
      key: 'note',
      head: 'not seen',
      text: true,
      value: (r) => r.incomplete ?? r.untraced ?? '',
      cell: (r) => (
        <span class="warn">
          {clean(
            r.incomplete
              ? 'left out: ' + r.incomplete
              : r.untraced
                ? 'operators not recorded: ' + r.untraced
                : '',
          )}
        </span>
      ),
    })
  }
  return cols
}

const rate = (r: SeriesStepPoint): number | null =>
  r.bytes == null || r.bytes_dur_ns <= 0 ? null : r.bytes / r.bytes_dur_ns
