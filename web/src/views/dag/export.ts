// SPDX-License-Identifier: Apache-2.0

// The drawn graph as a file of its own: an SVG with its styles inside. It is written as text, since the
// page's policy lets no style attribute in.

/** What a style sheet says and an attribute can. */
const kept = [
  'fill',
  'fill-opacity',
  'stroke',
  'stroke-width',
  'stroke-dasharray',
  'font-family',
  'font-size',
  'font-weight',
  'text-anchor',
  'opacity',
  'paint-order',
  'visibility',
]
const first: Record<string, string> = {
  'fill-opacity': '1',
  stroke: 'none',
  'stroke-width': '1px',
  'stroke-dasharray': 'none',
  'text-anchor': 'start',
  opacity: '1',
  'paint-order': 'normal',
  visibility: 'visible',
}
const places =
  /^(x|y|x1|x2|y1|y2|rx|ry|d|width|height|transform|viewBox|refX|refY|markerWidth|markerHeight|markerUnits|orient|id|marker-end)$/

const escape = (s: string): string => s.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`)

function write(el: Element, out: string[], top: boolean): void {
  const tag = el.tagName
  out.push('<', tag)
  for (const a of el.attributes) {
    if (places.test(a.name) && !(top && a.name === 'transform'))
      out.push(' ', a.name, '="', escape(a.value), '"')
  }
  if (/^(path|rect|text|line)$/.test(tag)) {
    const cs = getComputedStyle(el)
    for (const k of kept) {
      if (tag !== 'text' && /^(font|text|paint)/.test(k)) continue
      const v = cs.getPropertyValue(k)
      if (v && v !== first[k]) out.push(' ', k, '="', escape(v), '"')
    }
    if (tag === 'text') out.push(' xml:space="preserve"')
  }
  out.push('>')
  for (const c of el.childNodes) {
    if (c instanceof Element) write(c, out, false)
    else if (c.nodeType === Node.TEXT_NODE) out.push(escape(c.textContent ?? ''))
  }
  out.push('</', tag, '>')
}

/** The SVG's text, as large as its content. */
export function svgText(el: SVGSVGElement): string {
  const world = [...el.children].find((c) => c.tagName === 'g') as SVGGElement
  const far = el.classList.contains('far') // text is hidden
  el.classList.remove('far')
  const box = world.getBBox()
  const m = 12
  const [x, y, w, h] = [box.x - m, box.y - m, box.width + 2 * m, box.height + 2 * m].map(
    (v) => Math.round(v * 10) / 10,
  )
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${x} ${y} ${w} ${h}" width="${Math.ceil(w)}" height="${Math.ceil(h)}">`,
    `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="${escape(getComputedStyle(document.body).backgroundColor)}"/>`,
  ]
  const defs = el.querySelector('defs')
  if (defs) write(defs, out, false)
  write(world, out, true)
  out.push('</svg>\n')
  el.classList.toggle('far', far)
  return out.join('')
}

export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }))
  const a = document.createElement('a')
  a.href = url
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}
