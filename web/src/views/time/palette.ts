// SPDX-License-Identifier: Apache-2.0

// The timeline's colours as pixels, for light or dark.
import { operatorKinds } from '../../api/types'
import { backendColor } from '../../lib/backend-color'
import { ink, kindColors, sequential } from '../../lib/color'
import { phaseColors } from '../../lib/palette'
import { cssVar, theme } from '../../ui/theme'
import { css, mix, pixel } from './raster'

export interface Palette {
  bg: number
  panel: number
  line: number
  grid: number
  fg: number
  dim: string
  text: string
  accent: string
  warn: number
  kind: number[]
  /** Shades of a kind, so that operators of one kind that follow each other can be told apart. */
  shades: number[][]
  kindEdge: number[]
  kindInk: string[]
  leveled: boolean
  wait: number
  waitInk: number
  off: number
  offInk: number
  phase: number[]
  phaseInk: string[]
  graph: number
  own: number[]
  ownInk: string[]
  other: number
  otherInk: string
  lost: number
  /** By thread state (api/timeline.ts); the first is Running. */
  state: number[]
  fault: number
  copy: number
  /** Colours of a backend: its own, and what stands for the time until it was waited for. */
  backend: (name: string) => { fill: number; rest: number; ink: string }
}

/** What else is told by colours, as [light, dark]; the legend has them too. */
export const marks: Record<
  'wait' | 'off' | 'own' | 'other' | 'running' | 'runnable' | 'sleep' | 'blocked' | 'fault',
  [string, string]
> = {
  wait: ['#d8dbe0', '#3a4049'],
  off: ['#f3c9a4', '#6b4320'],
  own: ['#6c8ebf', '#5f85bb'],
  other: ['#e0a030', '#c98a1c'],
  // Thread states: green, light green, grey and orange, as in Perfetto.
  running: ['#2e7d32', '#43a047'],
  runnable: ['#99ba34', '#b4d455'],
  sleep: ['#c3c8ce', '#4b535d'],
  blocked: ['#ff9900', '#ffa726'],
  fault: ['#b0578d', '#dd8fbc'],
}

/** What is not known of a metric: apart from all levels, as [light, dark]. */
const noValue = ['#e3b8d3', '#6b4259']

/** Levels of a metric from little to much, then what is not known: in place of operatorKinds. */
export function levelColors(t: 0 | 1): string[] {
  return operatorKinds.map((_, i) =>
    i < operatorKinds.length - 1
      ? sequential((i + (t ? 0.9 : 0.5)) / (operatorKinds.length - (t ? 0.6 : 1)))
      : noValue[t],
  )
}

/** Operators in the overview, where spans are coloured by levels: it knows their operatorKinds only. */
export const overviewColor = (): string => css(overviewPixel())
const overviewPixel = (): number => mix(pixel(cssVar('--panel')), pixel(cssVar('--fg')), 0.12)

/** leveled: spans are coloured by levels. */
export function palette(leveled = false): Palette {
  const t = theme() === 'dark' ? 1 : 0
  const levels = leveled ? levelColors(t) : operatorKinds.map((k) => kindColors[k][t])
  const bg = pixel(cssVar('--bg'))
  const fg = pixel(cssVar('--fg'))
  const kind = levels.map(pixel)
  const own = [0, 0.3, 0.55, 0.15].map((f) => mix(pixel(marks.own[t]), bg, f))
  return {
    bg,
    fg,
    panel: pixel(cssVar('--panel')),
    line: pixel(cssVar('--line')),
    grid: pixel(cssVar('--grid')),
    dim: cssVar('--dim'),
    text: cssVar('--fg'),
    accent: cssVar('--accent'),
    warn: pixel(cssVar('--warn')),
    kind,
    shades: kind.map((k) => [0, 0.16, 0.3].map((f) => mix(k, bg, leveled ? 0 : f))),
    kindEdge: kind.map((k) => mix(k, bg, 0.45)),
    kindInk: levels.map(ink),
    leveled,
    wait: pixel(marks.wait[t]),
    waitInk: mix(pixel(marks.wait[t]), fg, 0.4),
    off: pixel(marks.off[t]),
    offInk: mix(pixel(marks.off[t]), fg, 0.6),
    phase: phaseColors.map((p) => pixel(p[t])),
    phaseInk: phaseColors.map((p) => ink(p[t])),
    graph: overviewPixel(),
    own,
    ownInk: own.map((o) => ink(css(o))),
    other: pixel(marks.other[t]),
    otherInk: ink(marks.other[t]),
    lost: mix(bg, fg, 0.35),
    copy: fg,
    backend: memo((name) => {
      const c = backendColor(name, t ? 'dark' : 'light')
      return { fill: pixel(c), rest: mix(pixel(c), bg, 0.72), ink: ink(c) }
    }),
    state: [
      pixel(marks.running[t]),
      pixel(marks.runnable[t]),
      pixel(marks.runnable[t]),
      pixel(marks.sleep[t]),
      pixel(marks.blocked[t]),
    ],
    fault: pixel(marks.fault[t]),
  }
}

function memo<T>(f: (name: string) => T): (name: string) => T {
  const known = new Map<string, T>()
  return (name) => {
    let v = known.get(name)
    if (v === undefined) known.set(name, (v = f(name)))
    return v
  }
}
