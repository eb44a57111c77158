// SPDX-License-Identifier: Apache-2.0

// What other processes on the machine computed for the steps: RPC, with client and server in one recording.
import type { Run } from '../../../api/load'
import type { SummaryRemote, SummaryStat, SummaryRow } from '../../../api/types'
import { bytes, clean, count, dur, gbps, gflops, num, plural, share } from '../../../lib/format'
import { threadColors } from '../../../lib/palette'
import { inUnit, unitOf } from '../../../lib/units'
import { Name, StackBar } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { Swatch } from '../../../ui/plot-legend'
import { Table, type Column } from '../../../ui/table'
import { useTheme } from '../../../ui/theme'
import { runNames, statBy, type TabContext } from '../context'

const unknown = (phase: string) => phase || 'unknown'
const idOf = (r: SummaryRemote) => [unknown(r.phase), r.client_pid, r.server_pid, r.backend].join('.')

export function Remote(ctx: TabContext) {
  const runs = ctx.b ? [ctx.a, ctx.b] : [ctx.a]
  const names = runNames(ctx)
  return (
    <div data-remote={ctx.phase}>
      {runs.map((run, i) => (
        <section key={i} data-run={i}>
          {ctx.b && <h2>{names[i]}</h2>}
          <One run={run} ctx={ctx} />
        </section>
      ))}
    </div>
  )
}

function One({ run, ctx }: { run: Run; ctx: TabContext }) {
  const all = remoteOf(run.stats.weight)
  const list = all.filter((r) => unknown(r.phase) === ctx.phase)
  if (list.length === 0) return <p class="dim">{none(run, all, ctx.phase)}</p>
  const unlinked = new Map(all.map((r) => [`${r.client_pid} ${r.backend}`, r.unlinked_graphs]))
  const left = [...unlinked.values()].reduce((v, n) => v + n, 0)
  return (
    <>
      <Split list={list} />
      <h3>Means per graph</h3>
      <Sums list={list} />
      {left > 0 && (
        <p class="note">
          {plural(left, 'graph')} handed over, in all phases, that no recorded process was seen to compute.
        </p>
      )}
      {list.map((r) => (
        <Rows key={idOf(r)} run={run} r={r} ctx={ctx} />
      ))}
    </>
  )
}

/** Why there is nothing to draw. */
function none(run: Run, all: SummaryRemote[], phase: string): string {
  const s = run.stats.weight
  if (s.run.level === 'step')
    return 'Graphs were not recorded: the recording is of level step. profinfer record --level graph records which process computes what.'
  const others = [...new Set(all.map((r) => unknown(r.phase)))]
  if (others.length)
    return `No other process computed a graph of ${phase}. Phases in which one did: ${others.join(', ')}.`
  const rpc = (s.phases ?? []).some((p) => (p.backends ?? []).some((b) => b.backend === 'RPC'))
  if (rpc)
    return 'Graphs were handed over to another process, which was not recorded, or runs on another machine. On this machine: profinfer record -p $(pidof ggml-rpc-server) -- COMMAND.'
  return 'No other process was seen to compute graphs for these steps. Where llama.cpp uses an RPC server on this machine (--rpc), both are recorded by profinfer record -p $(pidof ggml-rpc-server) -- COMMAND.'
}

const who = (r: SummaryRemote) => `${r.server_comm.trim() || 'process'} ${r.server_pid}`

/** Where the time from handing over to the result goes. */
function Split({ list }: { list: SummaryRemote[] }) {
  const c = threadColors(useTheme())
  const known = list.filter((r) => r.client_ns != null && r.response_ns != null)
  if (known.length === 0)
    return <p class="dim">How long the client waited was not seen: only what the server computed is known.</p>
  const most = Math.max(...known.map((r) => r.client_ns!))
  return (
    <section class="plot" data-plot="remote" data-points={known.length}>
      <h3>A graph from submit to result</h3>
      <div class="legend">
        <Swatch shape="area" color={c.idle} name="request: serialise, send, read" />
        <Swatch shape="area" color={c.off} name="server queue: behind the previous graph" />
        <Swatch shape="area" color={c.busy} name="the server computes" />
        <Swatch shape="area" color={c.wait} name="response: the client wakes up" />
      </div>
      <table class="plain" aria-label="a graph from submit to result">
        <tbody>
          {known.map((r) => (
            <tr key={idOf(r)} data-id={idOf(r)}>
              <td class="text">
                <Name text={who(r)} />
              </td>
              <td class="wide">
                <StackBar
                  of={most}
                  label={who(r)}
                  parts={[
                    {
                      name: 'request',
                      value: Math.max(0, r.client_ns! - r.server_ns - r.server_queue_ns - r.response_ns!),
                      color: c.idle,
                    },
                    { name: 'server queue', value: r.server_queue_ns, color: c.off },
                    { name: 'the server computes', value: r.server_ns, color: c.busy },
                    { name: 'response', value: r.response_ns!, color: c.wait },
                  ]}
                />
              </td>
              <td>
                <Fig v={r.client_ns} f={dur} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

function Sums({ list }: { list: SummaryRemote[] }) {
  const u = unitOf(
    'time',
    list.flatMap((r) => [r.client_ns, r.server_ns, r.step_end_to_end_ns]),
  )
  const small = unitOf(
    'time',
    list.flatMap((r) => [r.rpc_overhead_ns, r.request_ns, r.response_ns]),
  )
  type Key =
    | 'client_ns'
    | 'server_ns'
    | 'operators_ns'
    | 'rpc_overhead_ns'
    | 'request_ns'
    | 'server_queue_ns'
    | 'response_ns'
    | 'step_end_to_end_ns'
  const time = (key: Key, head: string, help: string, unit = u): Column<SummaryRemote> => ({
    key,
    help,
    head: (
      <>
        {head} <span class="unit">{unit.name}</span>
      </>
    ),
    value: (r) => r[key],
    cell: (r) => <Fig v={r[key]} f={inUnit(unit)} name={`remote.${idOf(r)}.${key}`} />,
  })
  const cols: Column<SummaryRemote>[] = [
    {
      key: 'server',
      head: 'computed by',
      text: true,
      value: (r) => r.server_comm,
      cell: (r) => <Name text={who(r)} />,
    },
    {
      key: 'client',
      head: 'for',
      text: true,
      value: (r) => r.client_comm,
      cell: (r) => <Name text={`${r.client_comm.trim() || 'process'} ${r.client_pid}, ${r.backend}`} />,
    },
    {
      key: 'graphs',
      head: 'graphs',
      value: (r) => r.graphs,
      cell: (r) => <Fig v={r.graphs} f={count} name={`remote.${idOf(r)}.graphs`} />,
    },
    time(
      'client_ns',
      'client',
      'from when handing a graph over began to when a thread of the client had waited for it',
    ),
    time('server_ns', 'server', 'the server’s graph'),
    time('operators_ns', 'operators', 'the part in operators'),
    time('rpc_overhead_ns', 'RPC overhead', 'client time without server and server queue', small),
    {
      key: 'part',
      head: 'of client',
      help: 'the share of RPC overhead',
      value: (r) => (r.client_ns ? (r.rpc_overhead_ns ?? 0) / r.client_ns : null),
      cell: (r) => (
        <Fig
          v={r.client_ns && r.rpc_overhead_ns != null ? r.rpc_overhead_ns / r.client_ns : null}
          f={share}
        />
      ),
    },
    time('request_ns', 'request', 'from submit to the server’s begin, server queue included', small),
    time(
      'server_queue_ns',
      'server queue',
      'part of request, while the server still computed the previous graph',
      small,
    ),
    time('response_ns', 'response', 'from the server’s end until the client sees the result', small),
    {
      key: 'to',
      head: 'to server',
      help: 'bytes of tensors per step',
      value: (r) => r.to_server_bytes_per_step,
      cell: (r) => <Fig v={r.to_server_bytes_per_step} f={bytes} />,
    },
    {
      key: 'from',
      head: 'from it',
      help: 'bytes of tensors per step',
      value: (r) => r.from_server_bytes_per_step,
      cell: (r) => <Fig v={r.from_server_bytes_per_step} f={bytes} />,
    },
    time(
      'step_end_to_end_ns',
      'step',
      'end to end: from a step’s begin until the host sees its results; its own call returns before',
    ),
    {
      key: 'tps',
      head: 'tokens/s',
      help: 'of the steps with that wait',
      value: (r) => r.tokens_per_s,
      cell: (r) => <Fig v={r.tokens_per_s} f={num} name={`remote.${idOf(r)}.tokens_per_s`} />,
    },
  ]
  return <Table rows={list} columns={cols} id={idOf} label="computed by other processes" />
}

/** The server's operators, of its own time. */
function Rows({ run, r, ctx }: { run: Run; r: SummaryRemote; ctx: TabContext }) {
  const by =
    ctx.params.by === 'op' || ctx.params.by === 'layer' || ctx.params.by === 'block'
      ? ctx.params.by
      : 'weight'
  const rows = remoteOf(statBy(run, by)).find((x) => idOf(x) === idOf(r))?.rows ?? []
  const filter = (ctx.params.filter ?? '').toLowerCase()
  const shown = rows.filter((x) => `${x.key} ${x.type} ${x.op}`.toLowerCase().includes(filter))
  const u = unitOf(
    'time',
    rows.map((x) => x.dur_per_step_ns),
  )
  const cols: Column<SummaryRow>[] = [
    {
      key: 'key',
      head: by,
      text: true,
      value: (x) => x.key,
      cell: (x) => (
        <>
          <Name text={x.key || 'none'} /> <span class="dim">{clean(x.type)}</span>
        </>
      ),
    },
    {
      key: 'calls',
      head: 'calls per step',
      value: (x) => x.calls_per_step,
      cell: (x) => <Fig v={x.calls_per_step} f={num} />,
    },
    {
      key: 'per',
      head: (
        <>
          a step <span class="unit">{u.name}</span>
        </>
      ),
      value: (x) => x.dur_per_step_ns,
      cell: (x) => <Fig v={x.dur_per_step_ns} f={inUnit(u)} />,
    },
    {
      key: 'share',
      head: 'share',
      help: 'of the server’s graphs for this phase',
      value: (x) => x.share,
      cell: (x) => <Fig v={x.share} f={share} />,
    },
    { key: 'mean', head: 'mean', value: (x) => x.mean_ns, cell: (x) => <Fig v={x.mean_ns} f={dur} /> },
    { key: 'p95', head: 'p95', value: (x) => x.p95_ns, cell: (x) => <Fig v={x.p95_ns} f={dur} /> },
    {
      key: 'gbps',
      head: 'bandwidth',
      value: (x) => x.gb_per_s,
      cell: (x) => (
        <>
          {x.bytes_at_most && x.gb_per_s != null && '≤ '}
          <Fig v={x.gb_per_s} f={gbps} />
        </>
      ),
    },
    {
      key: 'gflops',
      head: 'rate',
      value: (x) => x.gflop_per_s,
      cell: (x) => <Fig v={x.gflop_per_s} f={gflops} />,
    },
    {
      key: 'wait',
      head: 'barrier wait',
      value: (x) => x.wait_share,
      cell: (x) => <Fig v={x.wait_share} f={share} />,
    },
    {
      key: 'off',
      head: 'off-CPU',
      value: (x) => x.off_cpu_share,
      cell: (x) => <Fig v={x.off_cpu_share} f={share} />,
    },
  ]
  return (
    <section>
      <h3>
        <span class="clip">{clean(who(r))}</span>: its operators for {ctx.phase}
      </h3>
      <div class="tools">
        <span class="choice" role="group" aria-label="rows">
          {(['weight', 'op', 'layer', 'block'] as const).map((k) => (
            <button key={k} aria-pressed={k === by} onClick={() => ctx.set({ by: k })}>
              by {k === 'op' ? 'operator' : k}
            </button>
          ))}
        </span>
        <input
          type="search"
          placeholder="filter rows"
          aria-label="filter rows"
          value={ctx.params.filter ?? ''}
          onInput={(e) => ctx.set({ filter: e.currentTarget.value }, true)}
        />
      </div>
      {shown.length > 0 ? (
        <Table
          key={by}
          rows={shown}
          columns={cols}
          id={(x) => `${x.key} ${x.type}`}
          label={`operators of ${r.server_pid}`}
          limit={40}
        />
      ) : (
        <p class="dim">
          {rows.length > 0
            ? 'No row.'
            : `Operators of the server were not recorded (level ${clean(run.stats.weight.run.level)}).`}
        </p>
      )}
    </section>
  )
}

/** The list, empty where no other process was seen to compute. */
export const remoteOf = (s: SummaryStat): SummaryRemote[] =>
  (s as SummaryStat & { remote?: SummaryRemote[] }).remote ?? []
