// SPDX-License-Identifier: Apache-2.0

// A page fault that is selected, and those of an operator.
import { bytes, clean, dur, plural } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { useLoaded } from '../../ui/use-section'
import type { Actions } from './actions'
import type { OpInfo, TimeData } from './data'
import { describeFault } from './faults'
import { opById } from './find'
import type { Picked } from './pick'

export function FaultDetails({
  d,
  p,
  actions,
}: {
  d: TimeData
  p: Picked & { what: 'fault' }
  actions: Actions
}) {
  const m = d.faults!.m
  const op = m.op[p.fault]
  const { data: delayed } = useLoaded(`${d.run.index} ${op}`, async () => (op ? opById(d, op) : null))
  const [head, ...rest] = describeFault(d.faults!, p.fault)
  return (
    <div class="time-cols">
      <div>
        <h3 data-selected="fault" data-fault={p.fault}>
          {head}
        </h3>
        {rest.map((t) => (
          <div key={t}>{t}</div>
        ))}
        <div class="time-buttons">
          <button onClick={actions.fit} title="f">
            zoom to it
          </button>
          {delayed && (
            <button onClick={() => actions.goOp(p.run, delayed)}>the operator that it delayed</button>
          )}
        </div>
      </div>
      {delayed && (
        <div>
          <h3>it delayed</h3>
          <div>
            {clean(delayed.def.op)} <span class="mono">{clean(delayed.def.name)}</span>
          </div>
          <div>
            which lasted <Fig v={delayed.dur} f={dur} />
          </div>
          <OpFaults d={d} op={delayed} />
        </div>
      )}
    </div>
  )
}

/** Page faults in an operator, in a line; nothing where there are none. */
export function OpFaults({ d, op }: { d: TimeData; op: OpInfo }) {
  const all = d.faults?.of(op.id) ?? []
  if (!d.faults || all.length === 0) return null
  const m = d.faults.m
  const major = all.filter((i) => m.major[i]).length
  const known = all.every((i) => m.dur_ns[i] >= 0)
  return (
    <div data-op-faults={all.length}>
      page faults in it: {plural(major, 'major', 'major')}, {all.length - major} minor
      {known && (
        <>
          , thread time <Fig v={all.reduce((n, i) => n + m.dur_ns[i], 0)} f={dur} />
        </>
      )}
      , <Fig v={all.reduce((n, i) => n + m.read_bytes[i], 0)} f={bytes} /> read
    </div>
  )
}
