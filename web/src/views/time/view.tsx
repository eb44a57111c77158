// SPDX-License-Identifier: Apache-2.0

// ProfTime: tracks of steps, graphs, threads and CPUs over time.
import './time.css'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { phases } from '../../api/timeline'
import { clean, count, dur, share } from '../../lib/format'
import { moment, ruler } from '../../lib/time-scale'
import { Empty, Fig } from '../../ui/figure'
import { go, href } from '../../ui/route'
import { Table } from '../../ui/table'
import { useTheme } from '../../ui/theme'
import { useLoaded } from '../../ui/use-section'
import type { ViewProps } from '../../ui/view-props'
import { stepDuration, TimeData } from './data'
import { describe, threadName } from './describe'
import { occurrences } from './find'
import { Legend } from './legend'
import { Details } from './panel'
import { RangePanel } from './rangepanel'
import type { Row } from './rows'
import { Session } from './session'
import { stepLabel } from './steps'
import { Timeline } from './timeline'
import { Top } from './top'

export function Time({ a, b, route }: ViewProps) {
  const runs = b ? [a, b] : [a]
  const missing = runs.find((r) => !r.has('time'))
  const { data: datas, error } = useLoaded(runs.map((r) => r.index).join(), () =>
    Promise.all(missing ? [] : runs.map((r) => TimeData.load(r))),
  )
  if (missing)
    return (
      <div data-ready>
        <Empty>{clean(missing.file)} has no timeline in this page.</Empty>
      </div>
    )
  if (error)
    return (
      <div data-ready>
        <Empty>The timeline cannot be read: {error}.</Empty>
      </div>
    )
  if (!datas) return <Empty>Loading …</Empty>
  if (datas.every((d) => !d.steps.n && !d.index.spans && !d.index.cpus?.length && !d.graphs.n)) {
    return (
      <div data-ready>
        <Empty>
          Nothing ran in this recording: no step, no graph and no operator was seen.
          {datas.some((d) => d.index.losses?.length) && ' Summary says what was dropped or left out.'}
        </Empty>
      </div>
    )
  }
  return <Loaded key={datas.map((d) => d.run.index).join()} datas={datas} params={route.params} />
}

function Loaded({ datas, params }: { datas: TimeData[]; params: Record<string, string> }) {
  const scroll = useRef<HTMLDivElement>(null)
  const stage = useRef<HTMLDivElement>(null)
  const head = useRef<HTMLDivElement>(null)
  const tip = useRef<HTMLDivElement>(null)
  const corner = useRef<HTMLDivElement>(null)
  const [, tick] = useState(0)
  const [t, setTimeline] = useState<Timeline | null>(null)
  const theme = useTheme()
  const keep = useMemo(() => ({ run: params.run, with: params.with }), [params.run, params.with])
  const session = useMemo(() => (t ? new Session(t, datas) : null), [t])

  useEffect(() => {
    const line = new Timeline(datas, scroll.current!)
    stage.current!.append(line.main, line.over)
    head.current!.append(line.head)
    line.over.tabIndex = 0
    line.over.setAttribute('role', 'application')
    line.over.setAttribute(
      'aria-label',
      'Timeline. w and s zoom, a and d move, up and down scroll, bracket keys go to the same operator in the previous and next step, f zooms to the selection.',
    )
    line.onRows = () => tick((n) => n + 1)
    setTimeline(line)
    line.over.focus({ preventScroll: true })
    return () => line.destroy()
  }, [])

  // The page follows the canvas, once a frame at most; the address a little later.
  useEffect(() => {
    if (!t || !session) return
    let asked = 0
    let later = 0
    t.onChange = () => {
      corner.current!.textContent = Top.corner(ruler(t.t0, t.t1, t.width))
      // While it moves the rest of the page need not be drawn anew in each frame.
      if (!asked) asked = window.setTimeout(() => ((asked = 0), tick((n) => n + 1)), 60)
      clearTimeout(later)
      later = window.setTimeout(() => {
        const p = { ...session.params(), ...keep }
        session.written = href('time', p)
        go('time', p, true)
      }, 300)
    }
    t.onHover = (p, x, y) =>
      showTip(
        tip.current!,
        p && describe(datas[p.run], p, t.rows.find((r) => r.key === p.row)?.index),
        x,
        y,
        t.width,
      )
    return () => {
      clearTimeout(asked)
      clearTimeout(later)
    }
  }, [t, session])

  useEffect(() => t?.recolor(), [theme, t])
  // A link was followed, or the address edited.
  useEffect(() => {
    if (session && location.hash !== session.written) void session.open(params).then(() => tick((n) => n + 1))
  }, [session, params])
  useEffect(() => {
    if (!session) return
    const key = (e: KeyboardEvent) => {
      const el = e.target as HTMLElement
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName)) return
      if (session.key(e.key)) e.preventDefault()
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [session])

  const spans = datas.reduce((n, d) => n + d.spans, 0)
  const total = datas.reduce((n, d) => n + d.index.spans, 0)
  const idle = !datas.some((d) => d.busy)
  const ready = t?.drawn && (idle || spans > 0)
  const sel = t?.selection
  const seen = sel ? describe(datas[sel.run], sel).join('; ') : ''
  return (
    <div
      class="time"
      data-ready={ready ? '' : undefined}
      data-spans={spans}
      data-idle={idle ? '' : undefined}
    >
      {session ? (
        <Tools session={session} datas={datas} tick={() => tick((n) => n + 1)} />
      ) : (
        <div class="time-tools" />
      )}
      <Notes datas={datas} />
      <div class="time-head">
        <div class="time-corner dim" ref={corner} />
        <div ref={head} />
      </div>
      <div class="time-scroll" ref={scroll}>
        <div
          class="time-inner"
          style={{
            height: `${t?.rows.length ? t.rows[t.rows.length - 1].y + t.rows[t.rows.length - 1].h : 0}px`,
          }}
        >
          <div class="time-labels">
            {t?.rows.map((row) => (
              <Label key={row.key} row={row} onFold={() => t.fold(row.key)} />
            ))}
          </div>
          <div class="time-stage" ref={stage} />
        </div>
        <div class="time-tip" ref={tip} hidden />
      </div>
      <div class="time-panel">
        {t &&
          session &&
          (sel ? (
            <Details picked={sel} datas={datas} actions={session} keep={keep} />
          ) : t.range ? (
            datas.map((d, run) => (
              <RangePanel
                key={run}
                d={d}
                from={t.range!.from - t.shift[run]}
                to={t.range!.to - t.shift[run]}
                actions={session}
                head={datas.length > 1 ? clean(d.run.label || d.run.file) : 'range'}
              />
            ))
          ) : (
            <Idle datas={datas} total={total} session={session} />
          ))}
      </div>
      <div class="hidden-text" aria-live="polite">
        {seen}
      </div>
    </div>
  )
}

function Label({ row, onFold }: { row: Row; onFold: () => void }) {
  const style = { top: `${row.y}px`, height: `${row.h}px` }
  if (row.kind === 'group') {
    return (
      <button
        class="time-label group"
        style={style}
        title={row.title}
        aria-expanded={!row.folded}
        onClick={onFold}
      >
        {row.folded ? '▸' : '▾'} {row.label}
      </button>
    )
  }
  return (
    <div class={`time-label ${row.kind}`} style={style} title={row.title}>
      {row.label}
    </div>
  )
}

/** What stands below while nothing is selected: the legend, threads over the whole run, the slowest steps. */
function Idle({ datas, total, session }: { datas: TimeData[]; total: number; session: Session }) {
  const sched = datas.some((d) => d.index.has_sched)
  return (
    <>
      <Legend
        sched={sched}
        level={session.t.level}
        faults={datas.some((d) => (d.faults?.byThread.size ?? 0) > 0)}
        backends={[...new Set(datas.flatMap((d) => d.graphRows.filter((g) => g.device).map((g) => g.name)))]}
      />
      {!sched && (
        <p class="dim">
          Scheduling was not recorded (--no-sched): there are no CPU tracks and no thread states.
        </p>
      )}
      <div class="time-cols">
        {datas.map((d, run) => (
          <div key={run}>
            <h3>{datas.length > 1 ? clean(d.run.label || d.run.file) : 'threads over the whole run'}</h3>
            <Totals d={d} />
            {run === 0 && <div class="dim">{count(total)} operators on threads</div>}
          </div>
        ))}
        {datas.map((d, run) => (
          <CPUs key={run} d={d} name={datas.length > 1 ? clean(d.run.label || d.run.file) : ''} />
        ))}
        <div>
          <h3>
            slowest {phases[session.phase] || ''} steps
            {datas.length > 1 ? ` of the ${session.run ? 'second' : 'first'} run` : ''}
          </h3>
          <Slowest key={session.run} d={datas[session.run]} run={session.run} session={session} />
        </div>
      </div>
    </>
  )
}

function Totals({ d }: { d: TimeData }) {
  const rows = (d.index.threads ?? []).map((t, i) => ({ t, i })).filter((r) => r.t.operators > 0)
  if (!rows.length) return <div class="dim">no operators were recorded</div>
  const part = (r: (typeof rows)[number], v: number) => (
    <>
      <Fig v={v} f={dur} />{' '}
      <span class="dim">{share(v / Math.max(1, r.t.busy_ns + r.t.wait_ns + r.t.off_cpu_ns))}</span>
    </>
  )
  return (
    <Table
      label="threads over the whole run"
      rows={rows}
      id={(r) => String(r.t.tid)}
      limit={16}
      columns={[
        { key: 'thread', head: 'thread', text: true, value: (r) => r.i, cell: (r) => threadName(d, r.i) },
        {
          key: 'ops',
          head: 'operators',
          value: (r) => r.t.operators,
          cell: (r) => <Fig v={r.t.operators} f={count} />,
        },
        { key: 'busy', head: 'busy', value: (r) => r.t.busy_ns, cell: (r) => part(r, r.t.busy_ns) },
        { key: 'wait', head: 'barrier wait', value: (r) => r.t.wait_ns, cell: (r) => part(r, r.t.wait_ns) },
        { key: 'off', head: 'off-CPU', value: (r) => r.t.off_cpu_ns, cell: (r) => part(r, r.t.off_cpu_ns) },
      ]}
    />
  )
}

/** How much of the recording each CPU was used, by the engine and by others. */
function CPUs({ d, name }: { d: TimeData; name: string }) {
  const use = d.run.stats.weight.cpu_use
  if (!use?.each?.length) return null
  return (
    <div>
      <h3>CPU utilisation{name && `, ${name}`}</h3>
      <Table
        label="CPU utilisation"
        rows={use.each}
        id={(c) => String(c.cpu)}
        limit={16}
        columns={[
          { key: 'cpu', head: 'CPU', text: true, value: (c) => c.cpu, cell: (c) => `CPU ${c.cpu}` },
          {
            key: 'engine',
            head: 'engine',
            value: (c) => c.engine_share,
            cell: (c) => <Fig v={c.engine_share} f={share} />,
          },
          {
            key: 'others',
            head: 'other processes',
            value: (c) => c.others_share,
            cell: (c) => <Fig v={c.others_share} f={share} />,
          },
        ]}
      />
      <div class="dim">of the time in steps</div>
    </div>
  )
}

function Slowest({ d, run, session }: { d: TimeData; run: number; session: Session }) {
  const steps = useMemo(() => session.bySlowness().slice(0, 5), [session.phase, d, run])
  if (!steps.length) return <div class="dim">there are none</div>
  return (
    <Table
      label="slowest steps"
      rows={steps}
      id={(i) => String(d.steps.id[i])}
      onSelect={(i) => session.goStep(run, i)}
      columns={[
        { key: 'step', head: 'step', text: true, value: (i) => d.steps.id[i], cell: (i) => stepLabel(d, i) },
        {
          key: 'dur',
          head: 'duration',
          value: (i) => stepDuration(d, i),
          cell: (i) => <Fig v={stepDuration(d, i)} f={dur} />,
        },
        {
          key: 'start',
          head: 'starts at',
          value: (i) => d.steps.start[i],
          cell: (i) => <Fig v={d.steps.start[i]} f={(v) => moment(v ?? 0)} />,
        },
      ]}
    />
  )
}

/** What is missing in the picture, in words. */
function Notes({ datas }: { datas: TimeData[] }) {
  const out: preact.ComponentChildren[] = []
  for (const d of datas) {
    const x = d.index
    const of = datas.length > 1 ? `${clean(d.run.file)}: ` : ''
    if (d.left) {
      const left = d.chunks.reduce((n, c) => n + (c.kept ? 0 : c.spans), 0)
      out.push(
        <>
          {of}
          {count(left)} of {count(d.chunks.reduce((n, c) => n + c.spans, 0))} spans are left out of this file,
          which holds the slowest and the first steps of each phase; elsewhere the overview is drawn. All of
          them: <code>profinfer serve -i {clean(d.run.file)}</code>
        </>,
      )
    }
    if (x.spans_left_out)
      out.push(
        <>
          {of}
          {count(x.spans_left_out)} operators on further threads are not drawn: there are too many threads.
        </>,
      )
    if (d.faults?.m.left_out)
      out.push(
        <>
          {of}
          {count(d.faults.m.left_out)} page faults are not drawn: there are too many, the longest are.
        </>,
      )
    if (x.copies_left_out || x.device_spans_left_out)
      out.push(
        <>
          {of}
          {count((x.copies_left_out ?? 0) + (x.device_spans_left_out ?? 0))} copies and waits for devices at
          the end are not drawn: there are too many.
        </>,
      )
    if (x.sched_left_out)
      out.push(
        <>
          {of}
          {count(x.sched_left_out)} scheduling events at the end are not drawn: there are too many.
        </>,
      )
    if (!x.spans && x.level === 'step') out.push(<>{of}recorded with --level step: operators were not.</>)
    else if (!x.spans && x.level === 'graph')
      out.push(<>{of}recorded with --level graph: operators were not.</>)
  }
  return (
    <>
      {out.map((n, i) => (
        <p key={i} class="note time-note">
          {n}
        </p>
      ))}
    </>
  )
}

function Tools({ session, datas, tick }: { session: Session; datas: TimeData[]; tick: () => void }) {
  const [query, setQuery] = useState(session.query)
  const input = useRef<HTMLInputElement>(null)
  const step = useRef<HTMLInputElement>(null)
  useEffect(() => {
    session.onSearch = () => input.current?.focus()
    session.onGo = () => step.current?.select()
    session.onStatus = tick
  }, [session])
  useEffect(() => setQuery(session.query), [session.query])
  const d = datas[session.run]
  const found = useMemo(() => (query.trim() ? occurrences(d, query) : -1), [query, d])
  const have = phases.map((_, i) => i).filter((i) => d.steps.phase.includes(i))
  const search = (dir: 1 | -1) => {
    session.query = query
    void session.search(dir)
  }
  return (
    <div class="time-tools" role="toolbar" aria-label="go to">
      <button onClick={() => session.t.home()} title="Home">
        whole run
      </button>
      {datas.length > 1 && (
        <label title="the run that the search, step numbers and slowest steps go by; a click on the other's row changes it">
          in{' '}
          <select
            data-of
            value={session.run}
            onChange={(e) => {
              session.use(Number(e.currentTarget.value))
              session.t.onChange()
              tick()
            }}
          >
            <option value={0}>first run</option>
            <option value={1}>second run</option>
          </select>
        </label>
      )}
      {d.steps.n > 0 && (
        <>
          <label>
            step{' '}
            <input
              ref={step}
              class="time-step"
              type="text"
              inputMode="numeric"
              aria-label="number of the step to go to"
              placeholder="no."
              onKeyDown={(e) => e.key === 'Enter' && session.goNumber(Number(e.currentTarget.value))}
            />
          </label>
          <button onClick={() => session.first(2)} disabled={!have.includes(2)}>
            first decode
          </button>
          <button onClick={() => session.slowest(0)} title="the longest step of the phase">
            slowest
          </button>
          <button onClick={() => session.slowest(1)} title="the next longest">
            next slowest
          </button>
          {have.length > 1 && (
            <select
              aria-label="phase"
              value={session.phase}
              onChange={(e) => {
                session.phase = Number(e.currentTarget.value)
                tick()
              }}
            >
              {have.map((i) => (
                <option key={i} value={i}>
                  {phases[i] || 'unknown phase'}
                </option>
              ))}
            </select>
          )}
        </>
      )}
      {datas.length > 1 && (
        <label title="which steps of the two runs stand one below the other">
          aligned at{' '}
          <select
            value={session.align}
            onChange={(e) => {
              session.setAlign(e.currentTarget.value)
              tick()
            }}
          >
            <option value="decode">first decode step</option>
            <option value="step">first step</option>
            <option value="start">start of recording</option>
            {/^\d+$/.test(session.align) && <option value={session.align}>step {session.align}</option>}
          </select>
        </label>
      )}
      <Colours session={session} datas={datas} tick={tick} />
      <span class="time-search">
        <input
          ref={input}
          type="search"
          placeholder="operator (/)"
          aria-label="search an operator by name"
          value={query}
          onInput={(e) => setQuery(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === 'Enter') search(e.shiftKey ? -1 : 1)
            if (e.key === 'Escape') session.t.over.focus()
          }}
        />
        <button
          onClick={() => search(-1)}
          disabled={found <= 0}
          aria-label="previous occurrence"
          title="shift Enter"
        >
          ‹
        </button>
        <button onClick={() => search(1)} disabled={found <= 0} aria-label="next occurrence" title="Enter">
          ›
        </button>
        <span class="dim">{found >= 0 ? `${count(found)} times` : ''}</span>
      </span>
      <span class="dim time-status" role="status">
        {session.status}
      </span>
    </div>
  )
}

/** What operators are coloured by: there is a choice where counters were recorded. */
function Colours({ session, datas, tick }: { session: Session; datas: TimeData[]; tick: () => void }) {
  const all = datas.flatMap((d) => d.metrics).filter((m, i, l) => l.findIndex((o) => o.id === m.id) === i)
  if (!all.length) return null
  return (
    <label>
      colour{' '}
      <select
        data-color
        value={session.t.level?.metric.id ?? ''}
        onChange={(e) => {
          session.t.colour(e.currentTarget.value || null)
          tick()
        }}
      >
        <option value="">kind of operator</option>
        {all.map((m) => (
          <option key={m.id} value={m.id}>
            {m.kind === 'count' ? `counter: ${m.head}` : m.head}
            {m.scaled ? ' (scaled)' : ''}
          </option>
        ))}
      </select>
    </label>
  )
}

/** Shows the tooltip beside the pointer, within the view. */
function showTip(el: HTMLElement, lines: string[] | null, x: number, y: number, width: number): void {
  if (!lines) {
    el.hidden = true
    return
  }
  el.hidden = false
  el.textContent = lines.join('\n')
  const box = el.parentElement!
  const label = box.clientWidth - width
  const w = el.offsetWidth
  const h = el.offsetHeight
  const left = label + x + 14 + w > box.clientWidth ? label + x - 14 - w : label + x + 14
  const top = y + 16 + h > box.clientHeight ? Math.max(0, y - 12 - h) : y + 16
  el.style.transform = `translate(${Math.max(0, left)}px, ${top + box.scrollTop}px)`
}
