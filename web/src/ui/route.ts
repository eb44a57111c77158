// SPDX-License-Identifier: Apache-2.0

// Where the reader is: #VIEW?key=value&…, so that every view and selection is a link.
import { useEffect, useState } from 'preact/hooks'

export type ViewName = 'summary' | 'dag' | 'time' | 'stat'
export const views: ViewName[] = ['summary', 'dag', 'time', 'stat']

export interface Route {
  view: ViewName
  /** Parameters of the view. `run` is the recording looked at, `with` the one it is compared to. */
  params: Record<string, string>
  /** The view of the address, where there is none of that name. */
  unknown?: string
}

function parse(hash: string): Route {
  const [name, query] = hash.replace(/^#\/?/, '').split('?', 2)
  const view = views.includes(name as ViewName) ? (name as ViewName) : 'summary'
  const unknown = name && view !== name ? name : undefined
  return { view, unknown, params: Object.fromEntries(new URLSearchParams(query ?? '')) }
}

/** The link to a view. Empty and undefined parameters are left out. */
export function href(view: ViewName, params: Record<string, string | number | undefined> = {}): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== '') q.set(k, String(v))
  const s = q.toString()
  return `#${view}${s ? '?' + s : ''}`
}

const listeners = new Set<() => void>()

/** Goes to a view. replace keeps the browser's history as it is: for selections that follow the pointer. */
export function go(
  view: ViewName,
  params: Record<string, string | number | undefined>,
  replace = false,
): void {
  const to = href(view, params)
  if (to === location.hash) return
  // A view that was left while something of it was under way must not bring the page back.
  if (replace && parse(location.hash).view !== view) return
  if (!replace) {
    location.hash = to
    return
  }
  history.replaceState(null, '', to)
  listeners.forEach((l) => l())
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash))
  useEffect(() => {
    const changed = () => set(parse(location.hash))
    listeners.add(changed)
    addEventListener('hashchange', changed)
    changed() // it may have between drawing and here
    return () => {
      listeners.delete(changed)
      removeEventListener('hashchange', changed)
    }
  }, [])
  return route
}
