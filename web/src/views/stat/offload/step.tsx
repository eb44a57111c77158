// SPDX-License-Identifier: Apache-2.0

// A typical step: its splits in order, a lane a backend, with what is copied between them.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Run } from '../../../api/load'
import type { OffloadPhase, OffloadSplitNode, OffloadSplitStep, OffloadStepCopy } from '../../../api/types'
import { bytes, clean, count, dims, dur, flops, plural } from '../../../lib/format'
import { inUnit, unitOf } from '../../../lib/units'
import { Name } from '../../../ui/charts'
import { Fig } from '../../../ui/figure'
import { href } from '../../../ui/route'
import { Table, type Column } from '../../../ui/table'
import { runParams, stepLink, type TabContext } from '../context'
import { Band } from './band'
import { BackendName, layersText } from './words'

export function Step({
  p,
  step,
  ctx,
  index,
}: {
  p: OffloadPhase
  step: OffloadSplitStep
  ctx: TabContext
  index: number
  run: Run
}) {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const order = ctx.params.scale === 'order'
  const key = index ? 'splitb' : 'split'
  const wanted = /^\d{1,6}$/.test(ctx.params[key] ?? '') ? Number(ctx.params[key]) : -1
  const selected = wanted >= 0 && wanted < step.splits.length ? wanted : -1
  const late = !order && step.splits.some((s) => (s.done_ns ?? 0) > step.dur_ns * 1.005)
  const select = (i: number) => ctx.set({ [key]: i === selected || i < 0 ? undefined : i }, true)
  return (
    <>
      <h3>
        A typical step, <a href={stepLink(ctx, index, step.step)}>{count(step.step)}</a>:{' '}
        <Fig v={step.dur_ns} f={dur} />
      </h3>
      <div class="tools">
        <span class="choice" role="group" aria-label="width of splits">
          <button aria-pressed={!order} onClick={() => ctx.set({ scale: undefined }, true)}>
            by time
          </button>
          <button aria-pressed={order} onClick={() => ctx.set({ scale: 'order' }, true)}>
            in order
          </button>
        </span>
        <span class="dim">
          The median of {plural(step.of_steps, 'step')} split in the same way. Filled: the host’s call.
          Hatched: until the host synchronised with it. Arrows: copies.
          {late && ' Dashed line: the step’s end.'} Click a split for its nodes.
        </span>
      </div>
      <div ref={box} class="offload-box">
        {width > 0 && (
          <Band
            step={step}
            width={width}
            order={order}
            selected={selected}
            onSelect={select}
            label={`splits of step ${step.step}, ${p.phase}`}
          />
        )}
      </div>
      {step.splits_left_out > 0 && (
        <p class="note">{plural(step.splits_left_out, 'further split')} of this step not drawn.</p>
      )}
      {step.copies_left_out > 0 && (
        <p class="note">
          {plural(step.copies_left_out, 'further copy', 'further copies')} of this step not drawn.
        </p>
      )}
      {selected >= 0 && <Selected p={p} step={step} at={selected} ctx={ctx} close={() => select(-1)} />}
    </>
  )
}

function useWidth(box: { current: HTMLDivElement | null }): number {
  const [w, set] = useState(0)
  useEffect(() => {
    const o = new ResizeObserver(() => box.current && set(Math.floor(box.current.clientWidth)))
    set(Math.floor(box.current!.clientWidth))
    o.observe(box.current!)
    return () => o.disconnect()
  }, [])
  return w
}

/** A split's figures, copies and nodes. */
function Selected({
  p,
  step,
  at,
  ctx,
  close,
}: {
  p: OffloadPhase
  step: OffloadSplitStep
  at: number
  ctx: TabContext
  close: () => void
}) {
  const s = step.splits[at]
  const nodes = step.lists[s.list] ?? []
  const copies = step.copies.filter((c) => c.at === at)
  const ut = unitOf(
    'time',
    nodes.map((n) => n.dur_ns),
  )
  const timed = nodes.some((n) => n.dur_ns != null)
  const cols: Column<OffloadSplitNode>[] = [
    { key: 'node', head: 'node', value: (n) => n.node, cell: (n) => <Fig v={n.node} f={count} /> },
    { key: 'op', head: 'operator', text: true, value: (n) => n.op, cell: (n) => clean(n.op) },
    {
      key: 'name',
      head: 'tensor',
      text: true,
      value: (n) => n.name,
      cell: (n) =>
        n.name ? (
          <a href={href('dag', { ...runParams(ctx), phase: p.phase, color: 'backend', q: n.name })}>
            <Name text={n.name} />
          </a>
        ) : (
          ''
        ),
    },
    {
      key: 'ne',
      head: 'result',
      text: true,
      value: (n) => n.ne.reduce((a, b) => a * b, 1),
      cell: (n) => `${clean(n.type)} ${dims(n.ne)}`,
    },
    { key: 'layer', head: 'layer', value: (n) => n.layer, cell: (n) => n.layer ?? '–' },
    {
      key: 'weight',
      head: 'weight',
      text: true,
      value: (n) => n.weight,
      cell: (n) =>
        n.weight ? (
          <>
            <Name text={n.weight} /> <span class="dim">{clean(n.weight_type)}</span>
          </>
        ) : (
          ''
        ),
    },
    { key: 'flops', head: 'work', value: (n) => n.flops, cell: (n) => <Fig v={n.flops} f={flops} /> },
    { key: 'bytes', head: 'bytes', value: (n) => n.bytes, cell: (n) => <Fig v={n.bytes} f={bytes} /> },
  ]
  if (timed) {
    cols.push({
      key: 'dur_ns',
      head: (
        <>
          time <span class="unit">{ut.name}</span>
        </>
      ),
      help: 'in this step, without the probes',
      value: (n) => n.dur_ns,
      cell: (n) =>
        n.into >= 0 ? <span class="dim">with node {n.into}</span> : <Fig v={n.dur_ns} f={inUnit(ut)} />,
    })
  }
  return (
    <div class="detail offload-split" data-split={at}>
      <header>
        <h3>Split {s.split}</h3>
        <BackendName name={s.backend} />
        <span>
          {plural(s.nodes, 'node')}, layers {layersText(s.layers)}
        </span>
        <button class="icon" onClick={close} aria-label="close" title="close">
          ×
        </button>
      </header>
      <p class="facts">
        <span>
          host’s call <Fig v={s.dur_ns} f={dur} />
        </span>
        {s.done_ns != null && (
          <span>
            until sync <Fig v={s.done_ns - s.start_ns} f={dur} />
          </span>
        )}
        {s.busy_ns != null && (
          <span>
            on the device’s queue <Fig v={s.busy_ns} f={dur} />
          </span>
        )}
        {s.waited_ns != null && (
          <span>
            waited <Fig v={s.waited_ns} f={dur} />
          </span>
        )}
        {s.before > 0 && <span>{plural(s.before, 'graph')} under way before it</span>}
        {s.operators_ns != null && (
          <span>
            its operators <Fig v={s.operators_ns} f={dur} />
          </span>
        )}
        <span>
          idle before <Fig v={s.idle_ns} f={dur} />
        </span>
        <span>
          weights <Fig v={s.weights} f={bytes} />
        </span>
        <span>
          work <Fig v={s.flops} f={flops} />
        </span>
      </p>
      {copies.length > 0 && (
        <p>
          Copied before it:{' '}
          {copies.slice(0, 12).map((c, i) => (
            <span key={i}>
              {i > 0 && ', '}
              {copyText(c)}
            </span>
          ))}
          {copies.length > 12 && ` and ${copies.length - 12} more`}.
        </p>
      )}
      {nodes.length > 0 ? (
        <Table
          rows={nodes}
          columns={cols}
          id={(n) => String(n.node)}
          label={`nodes of split ${s.split}`}
          limit={60}
        />
      ) : (
        <p class="dim">Its nodes are not known.</p>
      )}
      {nodes.length > 0 && !timed && (
        <p class="dim">Single operators of {clean(s.backend) || 'this backend'} were not timed.</p>
      )}
    </div>
  )
}

const copyText = (c: OffloadStepCopy) => (
  <>
    <Name text={c.tensor || 'a tensor'} /> <Fig v={c.bytes} f={bytes} />
  </>
)
