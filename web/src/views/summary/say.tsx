// SPDX-License-Identifier: Apache-2.0

// Sentences of package profile: text with names of nobody knows whom in it. Names are set apart, so that one
// in letters of the other direction does not turn the sentence around.
import { clean } from '../../lib/format'

export function Prose({ text, names }: { text: string; names: string[] | null }) {
  let parts: { t: string; name: boolean }[] = [{ t: clean(text), name: false }]
  for (const n of [...new Set((names ?? []).map(clean))].sort((a, b) => b.length - a.length)) {
    if (n === '') continue
    parts = parts.flatMap((p) => {
      if (p.name) return [p]
      const cut = p.t.split(n)
      return cut.flatMap((t, i) =>
        i === 0
          ? [{ t, name: false }]
          : [
              { t: n, name: true },
              { t, name: false },
            ],
      )
    })
  }
  return (
    <>
      {parts.map((p, i) =>
        p.name ? (
          <bdi key={i} class="name">
            {p.t}
          </bdi>
        ) : (
          p.t
        ),
      )}
    </>
  )
}

/** A name by itself. */
export const Name = ({ s }: { s: string }) => <bdi class="name">{clean(s)}</bdi>
