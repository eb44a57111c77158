// SPDX-License-Identifier: Apache-2.0

// Requests one by one.
import type { RequestsRequest } from '../../../api/types'
import { count, share } from '../../../lib/format'
import { sortOrder } from '../../../lib/sort'
import { inUnit, unitOf } from '../../../lib/units'
import { Fig } from '../../../ui/figure'
import { Table, type Column } from '../../../ui/table'
import { stepLink, type TabContext } from '../context'
import { requestKey, shortModel, type RequestsOfRun } from './side'

interface Row extends RequestsRequest {
  key: string
  side: RequestsOfRun
}

export function RequestTable({ sides, ctx }: { sides: RequestsOfRun[]; ctx: TabContext }) {
  const rows: Row[] = sides.flatMap((side) =>
    side.list.map((r) => ({ ...r, key: requestKey(side, r), side })),
  )
  const cols = columns(rows, ctx)
  const sort = sortOrder(ctx.params.sort) ?? { key: 'id', up: true }
  return (
    <section>
      <h2>Requests</h2>
      <p class="dim">
        A click on a row marks it above; its number goes to its first step in ProfTime. In steps: part of the
        time from its first token to its last that lay in its own steps; the rest is sampling, the draft,
        steps of others.
      </p>
      <Table
        rows={rows}
        columns={cols}
        id={(r) => r.key}
        label="requests"
        sort={sort.key}
        up={sort.up}
        selected={ctx.params.sel}
        onSort={(key, up) => ctx.set({ sort: (up ? 'up:' : '') + key }, true)}
        onSelect={(r) => ctx.set({ sel: ctx.params.sel === r.key ? undefined : r.key }, true)}
      />
    </section>
  )
}

function columns(rows: Row[], ctx: TabContext): Column<Row>[] {
  const time = (key: 'ttft_ns' | 'tpot_ns' | 'tpot_p95_ns', head: string, help: string): Column<Row> => {
    const u = unitOf(
      'time',
      rows.map((r) => r[key]),
    )
    return {
      key,
      help,
      head: (
        <>
          {head} <span class="unit">{u.name}</span>
        </>
      ),
      value: (r) => r[key],
      cell: (r) => <Fig v={r[key]} f={inUnit(u)} />,
    }
  }
  const begin = unitOf(
    'time',
    rows.map((r) => r.start_ns - r.side.begin),
  )
  const several = (f: (r: Row) => unknown) => new Set(rows.map(f)).size > 1
  const cols: Column<Row>[] = [
    {
      key: 'id',
      head: 'request',
      value: (r) => r.id,
      cell: (r) => (
        <a href={stepLink(ctx, r.side.index, r.step)} onClick={(e) => e.stopPropagation()}>
          <Fig v={r.id} f={count} />
        </a>
      ),
    },
  ]
  if (ctx.b)
    cols.push({ key: 'run', head: 'run', text: true, value: (r) => r.side.index, cell: (r) => r.side.name })
  if (
    several((r) => `${r.side.index} ${r.pid}`) &&
    rows.some((r) => r.pid !== rows.find((x) => x.side === r.side)!.pid)
  ) {
    cols.push({
      key: 'pid',
      head: 'process',
      value: (r) => r.pid,
      cell: (r) => <Fig v={r.pid} f={(v) => String(v)} />,
    })
  }
  if (several((r) => shortModel(r.side, r.model)))
    cols.push({
      key: 'model',
      head: 'model',
      text: true,
      value: (r) => shortModel(r.side, r.model),
      cell: (r) => shortModel(r.side, r.model) || '–',
    })
  cols.push(
    {
      key: 'seq',
      head: 'sequence',
      help: 'the engine’s number; it is used again',
      value: (r) => r.seq,
      cell: (r) => <Fig v={r.seq} f={count} />,
    },
    {
      key: 'begin',
      head: (
        <>
          begin <span class="unit">{begin.name}</span>
        </>
      ),
      help: 'of its first step, after that of the first request',
      value: (r) => r.start_ns - r.side.begin,
      cell: (r) => <Fig v={r.start_ns - r.side.begin} f={inUnit(begin)} />,
    },
    {
      key: 'prompt',
      head: 'prompt',
      help: 'tokens computed until its first logits',
      value: (r) => r.prompt,
      cell: (r) => <Fig v={r.prompt} f={count} />,
    },
  )
  if (rows.some((r) => r.cached))
    cols.push({
      key: 'cached',
      head: 'cached',
      help: 'position of its first token: computed before, for another request or sequence',
      value: (r) => r.cached,
      cell: (r) => <Fig v={r.cached} f={count} />,
    })
  cols.push(
    {
      key: 'generated',
      head: 'tokens',
      help: 'generated, that of the prompt’s logits included; ≥: there can be more',
      value: (r) => r.generated,
      cell: (r) => (
        <>
          {r.at_least && r.generated != null && '≥ '}
          <Fig v={r.generated} f={count} />
        </>
      ),
    },
    {
      key: 'steps',
      head: 'steps',
      help: 'that it took part in',
      value: (r) => r.steps,
      cell: (r) => <Fig v={r.steps} f={count} />,
    },
    time(
      'ttft_ns',
      'TTFT',
      'from the start of its first step to the end of the first that asks for its logits',
    ),
    time('tpot_ns', 'TPOT', 'time from its first token to its last, by the tokens after the first'),
    time('tpot_p95_ns', 'p95', 'over its tokens, of the time since the one before; within 1 %'),
    {
      key: 'in_steps_share',
      head: 'in steps',
      value: (r) => r.in_steps_share,
      cell: (r) => <Fig v={r.in_steps_share} f={share} />,
    },
  )
  if (rows.some((r) => r.rounds != null)) {
    const part = (r: Row) => (r.rounds == null || seen(r) <= 0 ? null : r.accepted! / seen(r))
    cols.push({
      key: 'accepted',
      head: 'accepted',
      help: 'of the tokens drafted for it, in rounds whose outcome was seen; sorted by their share',
      value: part,
      cell: (r) =>
        r.rounds != null && (
          <span title={`${share(part(r))} in ${count(r.rounds)} rounds`}>
            <Fig v={r.accepted} f={count} /> of <Fig v={seen(r)} f={count} />
          </span>
        ),
    })
  }
  return cols
}

const seen = (r: RequestsRequest): number => (r.drafted ?? 0) - (r.unseen ?? 0)
