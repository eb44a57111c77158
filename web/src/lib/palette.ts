// SPDX-License-Identifier: Apache-2.0

// Colours of the plots, apart for colour-blind eyes, in both themes.
import { kindColors, type Theme } from './color'

const of = (theme: Theme, pair: [string, string]): string => pair[theme === 'dark' ? 1 : 0]

/** The two runs. */
export const runColors = (t: Theme): [string, string] => [
  of(t, ['#0072b2', '#4ba3db']),
  of(t, ['#d55e00', '#f08a3c']),
]

/** What a thread does. */
export const threadColors = (t: Theme) => ({
  busy: of(t, ['#0072b2', '#4ba3db']),
  wait: of(t, ['#e6a817', '#e6c34a']),
  off: of(t, ['#b3261e', '#ff7d72']),
  idle: of(t, ['#d9dde3', '#39414c']),
})

/** What a step is made of. */
export const partColors = (t: Theme) => ({
  attn: of(t, kindColors.attention),
  matmul: of(t, kindColors.matmul),
  other: of(t, ['#b0578d', '#dd8fbc']),
  backends: of(t, ['#009e73', '#35c79b']),
  late: of(t, ['#d8dbe0', '#3a4049']),
  rest: of(t, ['#b9bfc7', '#59626e']),
})

/** Series by number. */
export function seriesColor(t: Theme, i: number): string {
  const all: [string, string][] = [
    ['#0072b2', '#4ba3db'],
    ['#d55e00', '#f08a3c'],
    ['#009e73', '#35c79b'],
    ['#b0578d', '#dd8fbc'],
    ['#8c6d00', '#e6c34a'],
    ['#3f7f93', '#8fc4dd'],
    ['#6f6f6f', '#b5bac2'],
  ]
  return of(t, all[i % all.length])
}

/** Colours of phases, by number, as [light, dark]. */
export const phaseColors: [string, string][] = [
  ['#9aa0a8', '#6f7680'],
  ['#d9a441', '#b07f24'],
  ['#7fb2d9', '#3f76a3'],
  ['#6fbf9f', '#2f8265'],
]
