// SPDX-License-Identifier: Apache-2.0

// What ran: engine, model, machine, command.
import type { Run } from '../../api/load'
import type { FactsModel, SummaryStat } from '../../api/types'
import { bytes, clean, count, dur, parameterCount, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import { losses } from './lost'

function Types({ m }: { m: FactsModel }) {
  const types = m.types ?? []
  return (
    <>
      {types.slice(0, 4).map((t, i) => {
        const part = t.bytes != null && m.bytes ? t.bytes / m.bytes : null
        if (types.length > 1 && part != null && part < 0.015) return null
        const alone = part == null || part > 0.985
        return (
          <span key={i}>
            {i > 0 ? ' ' : ''}
            {clean(t.type)}
            {alone ? '' : ` ${share(part)}`}
          </span>
        )
      })}
    </>
  )
}

/** What ran, in a line or two. */
export function RanShort({ run }: { run: Run }) {
  const s: SummaryStat = run.stats.weight
  const all = s.run.processes ?? []
  const p = all.find((q) => q.steps > 0) ?? all[0]
  const models = s.models ?? []
  const m = models[0]
  return (
    <div class="top">
      {p && (
        <Facts
          of={[
            <b>
              <bdi>{p.comm ? clean(p.comm) : `process ${p.pid}`}</bdi>
            </b>,
            p.engine && `${clean(p.engine)} ${clean(p.engine_version)}`,
            p.threads > 0 &&
              s.run.cores > 0 &&
              `${p.threads} thread${p.threads === 1 ? '' : 's'} on ${s.run.cores} CPU${s.run.cores === 1 ? '' : 's'}`,
            p.cpu_variant && `cpu ${clean(p.cpu_variant)}`,
            all.length > 1 && `and ${all.length - 1} more process${all.length === 2 ? '' : 'es'}`,
          ]}
        />
      )}
      {m && (
        <Facts
          of={[
            m.family ? clean(m.family) : 'model',
            m.layers > 0 && `${m.layers} layer${m.layers === 1 ? '' : 's'}`,
            m.width != null && `n_embd ${m.width}`,
            <Types m={m} />,
            `${parameterCount(m.parameters)} parameters`,
            m.bytes != null && bytes(m.bytes),
            models.length > 1 && `and ${models.length - 1} more`,
          ]}
        />
      )}
      <Facts
        of={[
          `${count(s.run.steps)} step${s.run.steps === 1 ? '' : 's'} in ${dur(s.run.dur_ns)}`,
          clear(s) ? 'nothing was dropped' : <span class="warn">something was not seen, see below</span>,
        ]}
      />
    </div>
  )
}

function clear(s: SummaryStat): boolean {
  const l = losses(s)
  return l.grave.length === 0 && l.facts.length === 0
}

function ModelLine({ m, i }: { m: FactsModel; i: number }) {
  const facts = [
    <b>{m.family ? clean(m.family) : 'model'}</b>,
    m.layers > 0 && (
      <>
        <Fig v={m.layers} f={count} name={`models.${i}.layers`} /> layer{m.layers === 1 ? '' : 's'}
      </>
    ),
    m.width != null && (
      <>
        n_embd <Fig v={m.width} f={count} name={`models.${i}.width`} />
      </>
    ),
    m.heads != null && m.heads_kv != null && m.head_dim != null && (
      <>
        {m.heads} heads, {m.heads_kv} KV heads, head_dim {m.head_dim}
      </>
    ),
    m.experts != null && (
      <>
        {m.experts} experts{m.experts_used != null ? `, ${m.experts_used} used` : ''}
      </>
    ),
    m.vocab != null && <>vocab {count(m.vocab)}</>,
    <Types m={m} />,
    <>
      <Fig v={m.parameters} f={(v) => parameterCount(v ?? 0)} name={`models.${i}.parameters`} /> parameters
    </>,
    m.bytes != null && <Fig v={m.bytes} f={bytes} name={`models.${i}.bytes`} />,
  ]
  return <Facts of={facts} />
}

function Facts({ of }: { of: unknown[] }) {
  return (
    <span class="facts">
      {of.filter(Boolean).map((f, i) => (
        <span key={i}>{f as preact.ComponentChild}</span>
      ))}
    </span>
  )
}

function quote(a: string): string {
  return /^[\w@%+=:,./-]+$/.test(a) ? a : `'${a.replace(/'/g, `'\\''`)}'`
}

/** When the recording began, as this reader's clock has it. */
function when(ns: number | null): string {
  if (ns == null) return ''
  const d = new Date(ns / 1e6)
  return Number.isNaN(d.getTime())
    ? ''
    : d.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
}

export function Ran({ run }: { run: Run }) {
  const s: SummaryStat = run.stats.weight
  const all = s.run.processes ?? []
  const procs = all.filter((p) => p.steps > 0 || p.threads > 0)
  const shown = (procs.length > 0 ? procs : all).slice(0, 4)
  const models = s.models ?? []
  return (
    <dl class="ran">
      <dt>ran</dt>
      <dd>
        {shown.map((p) => (
          <Facts
            key={p.pid}
            of={[
              <b>{p.comm ? clean(p.comm) : `process ${p.pid}`}</b>,
              p.engine && `${clean(p.engine)} ${clean(p.engine_version)}`,
              p.ggml_version &&
                `ggml ${clean(p.ggml_version)}${p.cpu_variant ? `, cpu ${clean(p.cpu_variant)}` : ''}`,
              p.threads > 0 && (
                <>
                  <Fig v={p.threads} f={count} name={`run.processes.${all.indexOf(p)}.threads`} /> thread
                  {p.threads === 1 ? '' : 's'}
                </>
              ),
              <>
                <Fig v={s.run.steps} f={count} name="run.steps" /> step{s.run.steps === 1 ? '' : 's'} in{' '}
                <Fig v={s.run.dur_ns} f={dur} name="run.dur_ns" />
              </>,
            ]}
          />
        ))}
        {procs.length > 4 && <span class="dim">and {procs.length - 4} more processes</span>}
        {shown.length === 0 && <span class="dim">no process was seen</span>}
      </dd>
      {models.length > 0 && (
        <>
          <dt>model</dt>
          <dd>
            {models.slice(0, 4).map((m, i) => (
              <ModelLine key={i} m={m} i={i} />
            ))}
            {models.length > 4 && <span class="dim">and {models.length - 4} more</span>}
          </dd>
        </>
      )}
      <dt>machine</dt>
      <dd>
        <Facts
          of={[
            s.run.cpu && clean(s.run.cpu),
            s.run.cores > 0 && (
              <>
                <Fig v={s.run.cores} f={count} name="run.cores" /> CPU{s.run.cores === 1 ? '' : 's'}
              </>
            ),
            (s.run.kernel || s.run.arch) && `Linux ${clean(s.run.kernel)} ${clean(s.run.arch)}`,
            s.run.host && clean(s.run.host),
          ]}
        />
      </dd>
      <dt>recorded</dt>
      <dd>
        <Facts
          of={[
            when(s.run.recorded_ns),
            s.run.level && `level ${clean(s.run.level)}`,
            s.run.part && `a part of the recording: ${clean(s.run.part)}`,
            s.run.filter && `only ${clean(s.run.filter)}`,
            s.run.overhead_budget && `within a budget of ${share(Number(s.run.overhead_budget))}`,
            s.run.probe_share != null && (
              <>
                probes <Fig v={s.run.probe_share} f={share} name="run.probe_share" /> of the threads' time in
                operators
              </>
            ),
          ]}
        />
      </dd>
      {shown
        .filter((p) => (p.command ?? []).length > 0)
        .map((p) => {
          const text = (p.command ?? []).map(quote).join(' ')
          return (
            <>
              <dt>command</dt>
              <dd>
                <code class="command" tabIndex={0} title={clean(text)} dir="ltr">
                  {clean(text)}
                </code>
              </dd>
            </>
          )
        })}
    </dl>
  )
}
