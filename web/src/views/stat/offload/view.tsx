// SPDX-License-Identifier: Apache-2.0

// Backends: how steps were split, what was copied, and the same operators on several backends.
import type { Run } from '../../../api/load'
import type {
  OffloadBackendProducts,
  OffloadBackend,
  OffloadCopied,
  OffloadDetail,
  OffloadPhase,
  OffloadTensor,
} from '../../../api/types'
import { bytes, clean, count, dur, flops, named, num, plural, share } from '../../../lib/format'
import { inUnit, unitOf } from '../../../lib/units'
import { Name } from '../../../ui/charts'
import { Empty, Fig } from '../../../ui/figure'
import { href } from '../../../ui/route'
import { Table, type Column } from '../../../ui/table'
import { useSectionsIfAny } from '../../../ui/use-section'
import { runParams, runNames, type TabContext } from '../context'
import { Operators } from './ops'
import { Step } from './step'
import { BackendName, layersText, isUpperBound, timedWords, wholeNumber } from './words'

export function Backends(ctx: TabContext) {
  const runs = ctx.b ? [ctx.a, ctx.b] : [ctx.a]
  const { data, error } = useSectionsIfAny('offload', runs)
  if (error) return <Empty>Backends of this recording cannot be shown: {error}.</Empty>
  if (!data) return <Empty>Loading …</Empty>
  const names = runNames(ctx)
  const phases = data.map((d) => d?.phases.find((p) => (p.phase || 'unknown') === ctx.phase) ?? null)
  const others = new Set(
    data.flatMap(
      (d) =>
        d?.phases.filter((p) => p.split && p.phase !== phases[0]?.phase).map((p) => p.phase || 'unknown') ??
        [],
    ),
  )
  return (
    <div data-offload={ctx.phase}>
      {data.map((d, i) => (
        <section key={i} data-run={i}>
          {ctx.b && <h2>{names[i]}</h2>}
          {phases[i]?.split ? (
            <One p={phases[i]!} ctx={ctx} index={i} run={runs[i]} />
          ) : (
            <p class="dim">{none(d, phases[i], runs[i], ctx.phase, [...others])}</p>
          )}
        </section>
      ))}
      <Operators phases={phases} names={names} ctx={ctx} />
    </div>
  )
}

/** Why there is nothing to draw. */
function none(
  d: OffloadDetail | null,
  p: OffloadPhase | null,
  r: Run,
  phase: string,
  others: string[],
): string {
  if (!d) return 'This recording’s page tells nothing of backends: it was made by an older profinfer.'
  const level = r.stats.weight.run.level
  if (level === 'step')
    return 'Graphs were not recorded: the recording is of level step. profinfer record --level graph records which backend computes what.'
  if (others.length > 0 && d.phases.some((x) => x.split))
    return `In ${phase} no step that was wholly seen ran on another backend than the CPU. Phases in which one did: ${others.join(', ')}.`
  if (!p) return `No step of ${phase} was wholly seen.`
  return `All steps of ${phase} ran on the CPU alone. Other backends are recorded without a flag; llama.cpp uses one where layers are offloaded (-ngl, -dev), or where BLAS is installed, in prefill.`
}

function One({ p, ctx, index, run }: { p: OffloadPhase; ctx: TabContext; index: number; run: Run }) {
  return (
    <>
      <p class="facts">
        <span>
          <Fig v={p.steps} f={count} name={`offload.${p.phase}.steps`} />{' '}
          {p.steps === 1 ? 'step was' : 'steps were'} split over{' '}
          {plural((p.backends ?? []).length, 'backend')}: figures are means of {p.steps === 1 ? 'it' : 'them'}
          .
        </span>
        {p.step_end_to_end_ns != null && p.step_call_ns != null && p.step_end_to_end_ns > p.step_call_ns && (
          <span>
            End to end (host sees result):{' '}
            <Fig v={p.step_end_to_end_ns} f={dur} name={`offload.${p.phase}.step_end_to_end_ns`} /> per step,{' '}
            <Fig v={p.tokens_per_s} f={num} name={`offload.${p.phase}.tokens_per_s`} /> t/s. Submit time{' '}
            <Fig v={p.step_call_ns} f={dur} name={`offload.${p.phase}.step_call_ns`} />: shares and operator
            tables are of it.
          </span>
        )}
        <span class="links">
          <a href={href('dag', { ...runParams(ctx), phase: p.phase, color: 'backend' })}>
            operator graph by backend
          </a>
        </span>
      </p>
      <BackendTable list={p.backends ?? []} phase={p.phase} ctx={ctx} />
      {p.step ? <Step p={p} step={p.step} ctx={ctx} index={index} run={run} /> : null}
      <CopyTables p={p} />
      <ProductTable list={p.products_by_backend} phase={p.phase} />
    </>
  )
}

function BackendTable({ list, phase }: { list: OffloadBackend[]; phase: string; ctx: TabContext }) {
  const u = unitOf(
    'time',
    list.flatMap((b) => [b.host_ns_per_step, b.device_ns_per_step]),
  )
  const time = (
    key:
      | 'host_ns_per_step'
      | 'device_ns_per_step'
      | 'waited_ns_per_step'
      | 'idle_ns_per_step'
      | 'busy_ns_per_step',
    head: string,
    help: string,
  ): Column<OffloadBackend> => ({
    key,
    help,
    head: (
      <>
        {head} <span class="unit">{u.name}</span>
      </>
    ),
    value: (b) => b[key],
    cell: (b) => <Fig v={b[key]} f={inUnit(u)} name={`offload.${phase}.${b.backend}.${key}`} />,
  })
  const cols: Column<OffloadBackend>[] = [
    {
      key: 'backend',
      head: `${phase}, per step`,
      text: true,
      value: (b) => b.backend,
      cell: (b) => <BackendName name={b.backend} />,
    },
    {
      key: 'graphs_per_step',
      head: 'graphs',
      help: 'parts of a step’s graph that ran on it',
      value: (b) => b.graphs_per_step,
      cell: (b) => <Fig v={b.graphs_per_step} f={wholeNumber} />,
    },
    {
      key: 'nodes_per_step',
      head: 'nodes',
      help: 'that compute: views are none',
      value: (b) => b.nodes_per_step,
      cell: (b) => <Fig v={b.nodes_per_step} f={wholeNumber} />,
    },
    {
      key: 'layers',
      head: 'layers',
      help: 'first and last of which it had nodes; in parentheses how many, where some between are another’s',
      value: (b) => b.layers?.first,
      cell: (b) => layersText(b.layers),
    },
    {
      key: 'weights_per_step',
      head: 'weights',
      help: 'bytes of the weights that its products read',
      value: (b) => b.weights_per_step,
      cell: (b) => <Fig v={b.weights_per_step} f={bytes} />,
    },
    {
      key: 'flops_per_step',
      head: 'work',
      value: (b) => b.flops_per_step,
      cell: (b) => <Fig v={b.flops_per_step} f={flops} />,
    },
    time(
      'host_ns_per_step',
      'call',
      'time of the host in the backend’s graph function: computing, or recording and submitting',
    ),
    time(
      'device_ns_per_step',
      'device',
      'from the begin of that call to when the host had waited for the backend: at least what the device took',
    ),
    ...(list.some((b) => b.queue_spans > 0)
      ? [
          time(
            'busy_ns_per_step',
            'busy',
            'of it, the device’s queue had work of these graphs: an upper bound of the device’s own time',
          ),
        ]
      : []),
    time('waited_ns_per_step', 'waited', 'of it, how long the host’s thread waited at the end'),
    time('idle_ns_per_step', 'idle', 'from the end of a span to the begin of the backend’s next one'),
    {
      key: 'ops',
      head: 'most often',
      text: true,
      value: (b) => b.ops[0]?.op,
      cell: (b) => (
        <span title={b.ops.map((o) => `${wholeNumber(o.per_step)} ${clean(o.op)}`).join(', ')}>
          {b.ops
            .slice(0, 3)
            .map((o) => `${wholeNumber(o.per_step)} ${named(o.op, 24)}`)
            .join(', ')}
        </span>
      ),
    },
  ]
  return (
    <>
      <Table rows={list} columns={cols} id={(b) => b.backend} label={`backends in ${phase}`} />
      {list.some((b) => b.unwaited > 0) && (
        <p class="dim">
          Several graphs were under way at once and waited for once: their times are one span.
        </p>
      )}
      {list.some((b) => b.backend !== 'CPU' && b.device_ns_per_step == null) && (
        <p class="dim">device “–”: nobody waited for it, or it computes within the call, as BLAS does.</p>
      )}
    </>
  )
}

const way = (from: string, to: string, kind: string) => (
  <>
    {from ? (
      <Side name={from} />
    ) : (
      <span class="dim">{kind === 'copy' ? 'inputs, weights' : 'not known'}</span>
    )}{' '}
    → {to ? <Side name={to} /> : <span class="dim">not known</span>}
  </>
)
const Side = ({ name }: { name: string }) =>
  name === 'host' ? <span>host</span> : <BackendName name={name} />

function CopyTables({ p }: { p: OffloadPhase }) {
  if (p.copies.length === 0) return <p class="dim">No copy between memories was seen in these steps.</p>
  const ut = unitOf(
    'time',
    [...p.copies, ...p.tensors].map((c) => c.dur_ns_per_step),
  )
  const cols: Column<OffloadCopied>[] = [
    {
      key: 'way',
      head: 'copies, per step',
      text: true,
      value: (c) => c.from + ' ' + c.to,
      cell: (c) => way(c.from, c.to, c.kind),
    },
    {
      key: 'per_step',
      head: 'calls',
      value: (c) => c.per_step,
      cell: (c) => <Fig v={c.per_step} f={wholeNumber} />,
    },
    {
      key: 'bytes_per_step',
      head: 'bytes',
      value: (c) => c.bytes_per_step,
      cell: (c) => <Fig v={c.bytes_per_step} f={bytes} />,
    },
    {
      key: 'dur_ns_per_step',
      head: (
        <>
          calls took <span class="unit">{ut.name}</span>
        </>
      ),
      help: 'those whose end is probed',
      value: (c) => c.dur_ns_per_step,
      cell: (c) => <Fig v={c.dur_ns_per_step} f={inUnit(ut)} />,
    },
    {
      key: 'largest',
      head: 'largest',
      text: true,
      value: (c) => c.largest,
      cell: (c) => <Name text={c.largest} />,
    },
  ]
  const one: Column<OffloadTensor>[] = [
    {
      key: 'tensor',
      head: 'copied tensor',
      help: 'N stands for its layer',
      text: true,
      value: (c) => c.tensor,
      cell: (c) => (c.tensor ? <Name text={c.tensor} /> : <span class="dim">not known</span>),
    },
    { key: 'type', head: 'type', text: true, value: (c) => c.type, cell: (c) => clean(c.type) },
    {
      key: 'way',
      head: 'from, to',
      text: true,
      value: (c) => c.from + ' ' + c.to,
      cell: (c) => way(c.from, c.to, c.kind),
    },
    {
      key: 'per_step',
      head: 'times per step',
      value: (c) => c.per_step,
      cell: (c) => <Fig v={c.per_step} f={wholeNumber} />,
    },
    {
      key: 'bytes_per_step',
      head: 'bytes per step',
      value: (c) => c.bytes_per_step,
      cell: (c) => <Fig v={c.bytes_per_step} f={bytes} />,
    },
    {
      key: 'dur_ns_per_step',
      head: (
        <>
          calls took <span class="unit">{ut.name}</span>
        </>
      ),
      value: (c) => c.dur_ns_per_step,
      cell: (c) => <Fig v={c.dur_ns_per_step} f={inUnit(ut)} />,
    },
  ]
  return (
    <>
      <h3>Copies between memories</h3>
      <div class="pair">
        <Table rows={p.copies} columns={cols} id={(c) => `${c.kind} ${c.from} ${c.to}`} label="copies" />
        <Table
          rows={p.tensors}
          columns={one}
          id={(c) => [c.kind, c.from, c.to, c.tensor, c.type].join(' ')}
          label="copies by tensor"
          limit={12}
        />
      </div>
      {p.tensors_left_out > 0 && (
        <p class="note">{plural(p.tensors_left_out, 'further tensor')} not listed.</p>
      )}
    </>
  )
}

function ProductTable({ list, phase }: { list: OffloadBackendProducts[]; phase: string }) {
  if (list.length === 0) return null
  const u = unitOf(
    'time',
    list.map((x) => x.timed_ns_per_step),
  )
  const least = (x: OffloadBackendProducts) =>
    isUpperBound(x.timed_by) || x.other_operators_per_step > 0 ? '≥ ' : ''
  const how = (x: OffloadBackendProducts) =>
    (x.timed_by === ''
      ? ''
      : {
          operators: 'its operators',
          call: 'calls of graphs',
          span: 'graphs until sync',
          busy: 'graphs on the device’s queue',
        }[x.timed_by]) +
    (x.other_operators_per_step > 0
      ? `, with ${wholeNumber(x.other_operators_per_step)} other operators`
      : '') +
    (x.timed_share != null && x.timed_share < 1 && x.timed_ns_per_step != null
      ? `, of ${share(x.timed_share)} of them`
      : '')
  const cols: Column<OffloadBackendProducts>[] = [
    {
      key: 'backend',
      head: 'matmuls, per step',
      text: true,
      value: (x) => x.backend,
      cell: (x) => <BackendName name={x.backend} />,
    },
    {
      key: 'products_per_step',
      head: 'matmuls',
      value: (x) => x.products_per_step,
      cell: (x) => <Fig v={x.products_per_step} f={wholeNumber} />,
    },
    {
      key: 'flops_per_step',
      head: 'work',
      value: (x) => x.flops_per_step,
      cell: (x) => <Fig v={x.flops_per_step} f={flops} />,
    },
    {
      key: 'bytes_per_step',
      head: 'bytes',
      help: 'what they must read and write',
      value: (x) => x.bytes_per_step,
      cell: (x) => <Fig v={x.bytes_per_step} f={bytes} />,
    },
    {
      key: 'timed_ns_per_step',
      head: (
        <>
          took <span class="unit">{u.name}</span>
        </>
      ),
      help: 'of those whose time is known',
      value: (x) => x.timed_ns_per_step,
      cell: (x) => <Fig v={x.timed_ns_per_step} f={inUnit(u)} />,
    },
    {
      key: 'gflop_per_s',
      head: 'GFLOP/s',
      help: '≥: other operators, or more than the device’s time, are in it',
      value: (x) => x.gflop_per_s,
      cell: (x) => (
        <>
          {x.gflop_per_s != null && least(x)}
          <Fig v={x.gflop_per_s} f={num} />
        </>
      ),
    },
    {
      key: 'gb_per_s',
      head: 'GB/s',
      value: (x) => x.gb_per_s,
      cell: (x) => (
        <>
          {x.gb_per_s != null && least(x)}
          <Fig v={x.gb_per_s} f={num} />
        </>
      ),
    },
    {
      key: 'timed_by',
      head: 'timed by',
      text: true,
      value: (x) => x.timed_by,
      cell: (x) => <span title={timedWords[x.timed_by]}>{how(x)}</span>,
    },
  ]
  return (
    <>
      <h3>Matmuls by backend</h3>
      <Table rows={list} columns={cols} id={(x) => x.backend} label={`matmuls in ${phase}`} />
    </>
  )
}
