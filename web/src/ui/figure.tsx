// SPDX-License-Identifier: Apache-2.0

// A figure in the page: text for people, its exact value in data-v for everything that reads the page.
import type { ComponentChildren } from 'preact'

interface Props {
  /** The value as the statistics have it. */
  v: number | null | undefined
  /** How it is written. */
  f: (v: number | null | undefined) => string
  class?: string
  /** Where the value stands in `stat --json`: "decode.tokens_per_s". */
  name?: string
}

export function Fig({ v, f, class: c, name }: Props) {
  return (
    <span
      class={'fig ' + (c ?? '')}
      data-v={v ?? ''}
      data-fig={name}
      title={v == null ? 'not known' : undefined}
    >
      {f(v)}
    </span>
  )
}

/** A message in place of a view that has nothing to draw, with why. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty">{children}</div>
}
