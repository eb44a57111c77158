// SPDX-License-Identifier: Apache-2.0

// The drawn graph as a file of its own: an SVG with its styles inside.

const kept = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'font', 'font-size', 'font-weight', 'font-family', 'text-anchor', 'opacity', 'fill-opacity', 'paint-order', 'visibility', 'display'] as const

/** The SVG's text, as large as its content. */
export function svgText(el: SVGSVGElement): string {
  const world = el.querySelector('g') as SVGGElement
  const far = el.classList.contains('far')
  el.classList.remove('far')
  const box = world.getBBox()
  const copy = el.cloneNode(true) as SVGSVGElement
  const from = [...el.querySelectorAll<SVGElement>('*')]
  const to = [...copy.querySelectorAll<SVGElement>('*')]
  from.forEach((f, i) => {
    const cs = getComputedStyle(f)
    const t = to[i]
    const css: string[] = []
    for (const k of kept) {
      const v = cs.getPropertyValue(k)
      if (v && v !== 'normal' && !(k === 'opacity' && v === '1')) css.push(`${k}:${v}`)
    }
    if (!/^(g|defs|title|marker)$/i.test(t.tagName)) t.setAttribute('style', css.join(';'))
    for (const a of [...t.attributes]) if (/^(class|tabindex|role|aria-|data-)/.test(a.name)) t.removeAttribute(a.name)
  })
  if (far) el.classList.add('far')
  const g = copy.querySelector('g')!
  g.removeAttribute('transform')
  const m = 12
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  copy.setAttribute('viewBox', `${box.x - m} ${box.y - m} ${box.width + 2 * m} ${box.height + 2 * m}`)
  copy.setAttribute('width', String(Math.ceil(box.width + 2 * m)))
  copy.setAttribute('height', String(Math.ceil(box.height + 2 * m)))
  for (const a of ['class', 'tabindex', 'role', 'aria-label']) copy.removeAttribute(a)
  const ground = document.createElementNS('http://www.w3.org/2000/svg', 'rect')
  ground.setAttribute('x', String(box.x - m))
  ground.setAttribute('y', String(box.y - m))
  ground.setAttribute('width', '100%')
  ground.setAttribute('height', '100%')
  ground.setAttribute('fill', getComputedStyle(document.body).backgroundColor)
  copy.insertBefore(ground, copy.firstChild)
  return new XMLSerializer().serializeToString(copy)
}

export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }))
  const a = document.createElement('a')
  a.href = url
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}
