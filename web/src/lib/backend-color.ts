// SPDX-License-Identifier: Apache-2.0

// A colour for each backend, the same in every view. Beside it its name stands, or a pattern: no meaning
// rests on colour alone.
import type { Theme } from './color'

const cpu: [string, string] = ['#7d8794', '#98a2af']
const known: Record<string, [string, string]> = {
  CPU: cpu,
  BLAS: ['#b8860b', '#e6c34a'],
  Vulkan: ['#0072b2', '#4ba3db'],
  RPC: ['#b0578d', '#dd8fbc'],
  CUDA: ['#009e73', '#35c79b'],
}
const rest: [string, string][] = [
  ['#d55e00', '#f08a3c'],
  ['#009e73', '#35c79b'],
  ['#3f7f93', '#8fc4dd'],
  ['#b0578d', '#dd8fbc'],
  ['#8c6d00', '#e6c34a'],
  ['#0072b2', '#4ba3db'],
]

/**
 * The colour of a backend. Those that are not known by name go by it, so that both runs of a page have the
 * same.
 */
export function backendColor(name: string, theme: Theme): string {
  let pair = Object.hasOwn(known, name) ? known[name] : undefined
  if (!pair) {
    let h = 0
    for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0
    pair = name === '' ? cpu : rest[h % rest.length]
  }
  return pair[theme === 'dark' ? 1 : 0]
}
