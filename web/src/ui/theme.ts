// SPDX-License-Identifier: Apache-2.0

// Light or dark: the system's, unless the reader chose.
import { useEffect, useState } from 'preact/hooks'
import type { Theme } from '../lib/color'

const key = 'profinfer-theme'
const system = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

function chosen(): Theme | null {
  try {
    const v = localStorage.getItem(key)
    return v === 'light' || v === 'dark' ? v : null
  } catch {
    return null // a browser that keeps nothing for files
  }
}

let current: Theme | null = chosen()
export const theme = (): Theme => current ?? (system.matches ? 'dark' : 'light')

function apply(): void {
  document.documentElement.dataset.theme = theme()
  listeners.forEach((l) => l())
}
system.addEventListener('change', apply)
apply()

export function toggleTheme(): void {
  current = theme() === 'dark' ? 'light' : 'dark'
  try {
    localStorage.setItem(key, current)
  } catch {
    // it holds for this page then
  }
  apply()
}

/** The theme, and a new drawing when it changes. Canvas views need it; CSS has variables. */
export function useTheme(): Theme {
  const [t, set] = useState(theme)
  useEffect(() => {
    const l = () => set(theme())
    listeners.add(l)
    return () => void listeners.delete(l)
  }, [])
  return t
}

/** The value of a CSS variable ("--fg") under the present theme, for canvases. */
export const cssVar = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim()
