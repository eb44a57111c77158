// SPDX-License-Identifier: Apache-2.0

// Colours of page faults and of memory, apart for colour-blind eyes, in both themes.
import { sequential, type Theme } from '../../../lib/color'

const of = (theme: Theme, pair: [string, string]): string => pair[theme === 'dark' ? 1 : 0]

export const faultColors = (t: Theme) => ({
  major: of(t, ['#b0578d', '#dd8fbc']), // as what is blocked in ProfTime
  read: of(t, ['#3f7f93', '#8fc4dd']),
  rest: of(t, ['#c9ced5', '#4a525d']),
})

/** A page in memory: at both ends, only at the end, only at the start, at neither. */
export const memoryColors = (t: Theme) => ({
  stayed: of(t, ['#0072b2', '#4ba3db']),
  came: of(t, ['#009e73', '#35c79b']),
  went: of(t, ['#d55e00', '#f08a3c']),
  absent: of(t, ['#e8ebef', '#262c34']),
})

/** A colour for v of 0 (least, near the page's ground) to 1 (most). */
export const strength = (t: Theme, v: number): string =>
  sequential(t === 'dark' ? 0.12 + 0.88 * v : 0.95 - 0.95 * v)
