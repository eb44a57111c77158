// SPDX-License-Identifier: Apache-2.0

// The same operator on two backends, of one recording or of two.
import type { OffloadPhase } from '../../../api/types'
import { bytes, clean, count, flops, num, share } from '../../../lib/format'
import { sortOrder } from '../../../lib/sort'
import { inUnit, unitOf } from '../../../lib/units'
import { Name } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'
import type { TabContext } from '../context'
import { compareOperators, operatorSides, type Row, type Side } from './pairs'
import { upperBoundSign, BackendName, layersText } from './words'

export function Operators({
  phases,
  names,
  ctx,
}: {
  phases: (OffloadPhase | null)[]
  names: [string, string]
  ctx: TabContext
}) {
  const all = operatorSides(phases)
  if (all.length < 2) return null
  const pick = (name: string, or: number) => {
    const i = all.findIndex((s) => s.id === ctx.params[name])
    return i >= 0 ? i : or
  }
  const ia = pick('left', 0)
  // of two recordings the second's, on another backend if it has one
  const rank = (s: Side) => (s.run !== all[ia].run ? 2 : 0) + (s.backend !== all[ia].backend ? 1 : 0)
  const best = Math.max(...all.map(rank))
  let ib = pick(
    'right',
    all.findIndex((s) => rank(s) === best),
  )
  if (ib === ia) ib = ia === 0 ? 1 : 0
  const [a, b] = [all[ia], all[ib]]
  const text = (s: Side) => (ctx.b ? `${names[s.run]}: ` : '') + (clean(s.backend) || 'not known')
  const words = (ctx.params.filter ?? '').toLowerCase().split(/\s+/).filter(Boolean)
  const every = compareOperators(a, b)
  const rows = every.filter((r) =>
    words.every((w) => `${r.name} ${r.op} ${r.type}`.toLowerCase().includes(w)),
  )
  const both = every.filter((r) => r.ratio != null).length
  return (
    <section data-compared={`${a.id} ${b.id}`}>
      <h2>The same operator on two backends, {ctx.phase}</h2>
      <div class="tools">
        <Pick
          label="one"
          all={all}
          at={ia}
          text={text}
          onPick={(i) => ctx.set({ left: all[i].id, right: i === ib ? all[ia].id : all[ib].id }, true)}
        />
        <span class="dim">vs</span>
        <Pick
          label="other"
          all={all}
          at={ib}
          text={text}
          onPick={(i) => ctx.set({ right: all[i].id, left: i === ia ? all[ib].id : all[ia].id }, true)}
        />
        <input
          type="search"
          placeholder="filter rows"
          aria-label="filter rows"
          value={ctx.params.filter ?? ''}
          onInput={(e) => ctx.set({ filter: e.currentTarget.value }, true)}
        />
        <span class="dim">
          Of the same name and dimensions, means of a call without probes. A graph of several operators stands
          beside the sum of what they take on the other side.
        </span>
      </div>
      {both === 0 && (
        <p class="dim">
          No operator’s time is known on both sides:{' '}
          {every.length === 0
            ? 'they have none in common.'
            : 'of backends other than the CPU only graphs are timed.'}
        </p>
      )}
      {rows.length > 0 ? (
        <Compared rows={rows} a={a} b={b} ctx={ctx} text={text} />
      ) : (
        every.length > 0 && <p class="dim">No row has “{clean(ctx.params.filter ?? '')}” in its name.</p>
      )}
    </section>
  )
}

function Pick({
  label,
  all,
  at,
  text,
  onPick,
}: {
  label: string
  all: Side[]
  at: number
  text: (s: Side) => string
  onPick: (i: number) => void
}) {
  return (
    <select
      aria-label={`${label} backend`}
      value={at}
      onChange={(e) => onPick(Number(e.currentTarget.value))}
    >
      {all.map((s, i) => (
        <option key={s.id} value={i}>
          {text(s)}
        </option>
      ))}
    </select>
  )
}

function Compared({
  rows,
  a,
  b,
  ctx,
  text,
}: {
  rows: Row[]
  a: Side
  b: Side
  ctx: TabContext
  text: (s: Side) => string
}) {
  const u = unitOf(
    'time',
    rows.flatMap((r) => [r.a?.mean, r.b?.mean]),
  )
  const head = (s: Side, i: number) => (
    <>
      {i ? 'other' : 'one'}: <BackendName name={s.backend} /> <span class="unit">{u.name}</span>
      {ctx.b && <span class="of">{text(s)}</span>}
    </>
  )
  const time = (key: 'a' | 'b'): Column<Row> => ({
    key: 'mean_' + key,
    head: head(key === 'a' ? a : b, key === 'a' ? 0 : 1),
    help: 'mean of a call; “–”: its time is not known there, as it ran in a graph with others',
    value: (r) => r[key]?.mean,
    cell: (r) => {
      const v = r[key]
      return v ? (
        <span title={v.note}>
          {v.mean != null && v.by && upperBoundSign(v.by)}
          <Fig v={v.mean} f={inUnit(u)} />
        </span>
      ) : (
        <span class="dim" title="it does not run there">
          –
        </span>
      )
    },
  })
  const cols: Column<Row>[] = [
    {
      key: 'name',
      head: 'operator',
      text: true,
      value: (r) => r.name,
      cell: (r) => (
        <span title={clean(r.all)}>
          <Name text={r.name} /> {r.op !== r.name && !r.graph && <span class="dim">{clean(r.op)}</span>}
        </span>
      ),
    },
    { key: 'type', head: 'type', text: true, value: (r) => r.type, cell: (r) => clean(r.type) },
    {
      key: 'dims',
      head: 'dimensions',
      help: 'of a product m × n × k, else of the result',
      text: true,
      value: (r) => r.dims,
      cell: (r) => r.dims,
    },
    time('a'),
    time('b'),
    {
      key: 'ratio',
      head: 'ratio',
      help: 'the other’s time to the one’s: below 1 the other is faster',
      value: (r) => r.ratio,
      cell: (r) => (
        <span title={r.ratioNote}>
          {r.ratio != null && r.sign}
          <Fig v={r.ratio} f={num} />
        </span>
      ),
    },
    {
      key: 'known',
      head: 'known',
      help: 'of a graph’s operators, those whose time is known on the other side, and their part of its work',
      value: (r) => r.known,
      cell: (r) =>
        r.graph ? (
          <>
            <Fig v={r.known} f={count} /> of {count(r.of)}
            {r.work != null && r.known < r.of && <span class="dim"> {share(r.work)}</span>}
          </>
        ) : (
          ''
        ),
    },
    {
      key: 'layers_a',
      head: 'layers',
      help: 'on the one side, on the other side',
      text: true,
      value: (r) => r.a?.layers?.first,
      cell: (r) => (
        <span class="dim">
          {layersText(r.a?.layers)} | {layersText(r.b?.layers)}
        </span>
      ),
    },
    { key: 'flops', head: 'work', value: (r) => r.flops, cell: (r) => <Fig v={r.flops} f={flops} /> },
    { key: 'bytes', head: 'bytes', value: (r) => r.bytes, cell: (r) => <Fig v={r.bytes} f={bytes} /> },
    {
      key: 'rate_a',
      head: 'GFLOP/s',
      help: 'on the one side, on the other side',
      value: (r) => r.a?.rate,
      cell: (r) => (
        <span class="dim">
          <Fig v={r.a?.rate} f={num} /> | <Fig v={r.b?.rate} f={num} />
        </span>
      ),
    },
  ]
  const sort = sortOrder(ctx.params.sort) ?? { key: '', up: false }
  return (
    <Table
      key={a.id + ' ' + b.id}
      rows={rows}
      columns={cols}
      id={(r) => r.id}
      label="operators by backend"
      sort={sort.key}
      up={sort.up}
      limit={40}
      onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
    />
  )
}
