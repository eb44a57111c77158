// SPDX-License-Identifier: Apache-2.0

// The frame around the views: what was recorded, the tabs, which runs are looked at, light or dark.
import { Component, type ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Report } from '../api/load'
import { clean } from '../lib/format'
import { href, useRoute, views, type Route, type ViewName } from '../ui/route'
import { toggleTheme, useTheme } from '../ui/theme'
import { Dag } from '../views/dag/view'
import { Statistics } from '../views/stat/view'
import { Summary } from '../views/summary/view'
import { Time } from '../views/time/view'
import { Help } from './help'

const titles: Record<ViewName, string> = {
  summary: 'Summary',
  dag: 'ProfDAG',
  time: 'ProfTime',
  stat: 'ProfStat',
}
const drawn = { summary: Summary, dag: Dag, time: Time, stat: Statistics }

export function Shell({ report }: { report: Report }) {
  const route = useRoute()
  const theme = useTheme()
  const [help, setHelp] = useState(false)
  const pick = (name: string, or: number) => {
    const n = Number(route.params[name] ?? or)
    return Number.isInteger(n) && n >= 0 && n < report.runs.length ? n : or
  }
  const ia = pick('run', 0)
  const several = report.runs.length > 1
  // Two recordings were loaded to be compared; one can be looked at alone with with=none.
  let ib = several ? pick('with', ia === 0 ? 1 : 0) : -1
  if (route.params.with === 'none' || ib === ia) ib = -1
  const a = report.runs[ia]
  const b = ib >= 0 ? report.runs[ib] : null
  const keep = { run: several ? ia : undefined, with: several ? (b ? ib : 'none') : undefined }

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const el = e.target as HTMLElement
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName)) return
      const n = Number(e.key)
      if (n >= 1 && n <= views.length) location.hash = href(views[n - 1], keep)
      else if (e.key === '?') setHelp((h) => !h)
      else if (e.key === 'Escape') setHelp(false)
      else return
      e.preventDefault()
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  })

  const View = drawn[route.view]
  return (
    <>
      <header class="bar">
        <a class="brand" href={href('summary', keep)}>
          profinfer
        </a>
        <nav aria-label="views">
          {views.map((v, i) => (
            <a
              key={v}
              href={href(v, keep)}
              class={v === route.view ? 'on' : ''}
              aria-current={v === route.view ? 'page' : undefined}
              title={`key ${i + 1}`}
            >
              {titles[v]}
            </a>
          ))}
        </nav>
        <div class="runs">
          {several ? (
            <>
              <RunPicker
                label="run"
                report={report}
                value={ia}
                onPick={(n) =>
                  (location.hash = href(route.view, { ...keep, run: n, with: n === ib ? ia : keep.with }))
                }
              />
              <span class="dim">vs</span>
              <RunPicker
                label="compared with"
                none
                report={report}
                value={ib}
                onPick={(n) => (location.hash = href(route.view, { ...keep, with: n < 0 ? 'none' : n }))}
              />
            </>
          ) : (
            <span class="dim clip" title={clean(a.file)}>
              {clean(a.file)}
            </span>
          )}
        </div>
        <button
          class="icon"
          onClick={toggleTheme}
          title={theme === 'dark' ? 'light' : 'dark'}
          aria-label="light or dark"
        >
          {theme === 'dark' ? '☀' : '☾'}
        </button>
        <button
          class="icon"
          onClick={() => setHelp(!help)}
          aria-expanded={help}
          title="help: keys, colours, glossary (?)"
          aria-label="help"
        >
          ?
        </button>
      </header>
      {help && <Help report={report} />}
      <main id="view" data-view={route.view}>
        <Guard key={route.view + ia + ',' + ib} at={route}>
          <View
            report={report}
            a={a}
            b={b}
            route={{ ...route, params: { ...route.params, ...clear(keep) } }}
          />
        </Guard>
      </main>
    </>
  )
}

/** The run parameters as they are in links: without those that say nothing. */
function clear(keep: Record<string, string | number | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(keep)
      .filter(([, v]) => v !== undefined)
      .map(([k, v]) => [k, String(v)]),
  )
}

function RunPicker({
  label,
  report,
  value,
  none,
  onPick,
}: {
  label: string
  report: Report
  value: number
  none?: boolean
  onPick: (n: number) => void
}) {
  return (
    <select aria-label={label} value={value} onChange={(e) => onPick(Number(e.currentTarget.value))}>
      {none && <option value={-1}>nothing</option>}
      {report.runs.map((r) => (
        <option key={r.index} value={r.index}>
          {clean(r.file)}
          {r.label ? ` — ${clean(r.label)}` : ''}
        </option>
      ))}
    </select>
  )
}

/** Keeps an error inside its view: the others stay usable. */
class Guard extends Component<{ children: ComponentChildren; at: Route }, { error?: Error }> {
  state: { error?: Error } = {}
  componentDidCatch(error: Error) {
    console.error(error)
    this.setState({ error })
  }
  componentDidUpdate(before: { at: Route }) {
    // another selection may do
    if (this.state.error && before.at !== this.props.at) this.setState({ error: undefined })
  }
  render() {
    if (this.state.error)
      return (
        <div class="empty">This view failed: {this.state.error.message}. The other views still work.</div>
      )
    return this.props.children
  }
}
