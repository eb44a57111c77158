// SPDX-License-Identifier: Apache-2.0

// The page's font stands in its style sheet; this is for canvases, and for drawing only when it is there.

/** Names of the font and of what replaces it, as --sans in style.css. */
export const sans = '"Inter Variable", system-ui, "DejaVu Sans", sans-serif'

/** Resolves when text can be measured and drawn in the page's font; soon, also where that fails. */
export function fontReady(): Promise<unknown> {
  const loads = ['400', '600'].map((w) => document.fonts.load(`${w} 13px "Inter Variable"`))
  return Promise.race([Promise.all(loads).catch(() => {}), new Promise((done) => setTimeout(done, 300))])
}
