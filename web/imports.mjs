// SPDX-License-Identifier: Apache-2.0

// Which way imports of the page go.
//
//   app     the frame around the views, and the worker
//   views   a folder a view; views/stat has a folder for each larger tab. Views know nothing of each other, nor do the tabs.
//   ui      components, the theme, the address: what several views draw with
//   lib     figures, colours, scales: pure functions, no components
//   api     the data: its types, and how it is loaded
//
// A file imports from its own layer and those below, and nothing imports in a circle.

export const layers = ['api', 'lib', 'ui', 'views', 'app']
/** Packages of components: nothing of them in the layers below ui. */
const components = ['preact', 'uplot']

/**
 * Reads who imports whom from what `tsc --explainFiles` printed: of each file below src/ what it imports,
 * packages by their name.
 */
export function importsOf(text) {
  const graph = new Map()
  const add = (from, to) => graph.set(from, (graph.get(from) ?? new Set()).add(to))
  let file = ''
  for (const line of text.split('\n')) {
    if (/^\S+$/.test(line)) {
      file = line.trim().replace(/^.*?(?=node_modules\/)/, '')
      if (file.startsWith('src/') && !graph.has(file)) graph.set(file, new Set())
      continue
    }
    const m = /^\s+Imported via (['"])(.+?)\1 from file '(src\/.+?)'/.exec(line)
    if (!m) continue
    add(m[3], file.startsWith('src/') ? file : m[2].match(/^(@[^/]+\/)?[^/]+/)[0])
  }
  return graph
}

/** The room of a file: its layer, of a view its folder, of ProfStat the tab's. */
function room(file) {
  const [, layer, view, tab] = file.split('/')
  if (layer !== 'views') return { layer }
  return { layer, view, tab: file.split('/').length > 4 ? tab : undefined }
}

/** What is wrong with an import, null if nothing is. */
function wrong(from, to) {
  const [a, b] = [room(from), room(to)]
  if (!layers.includes(a.layer)) return `${from} lies in no layer: ${layers.join(', ')}`
  if (!to.startsWith('src/'))
    return components.includes(to) && layers.indexOf(a.layer) < layers.indexOf('ui')
      ? `${from} imports ${to}: ${a.layer} knows no components`
      : null
  if (layers.indexOf(b.layer) > layers.indexOf(a.layer))
    return `${from} imports ${to}: ${a.layer} lies below ${b.layer}`
  if (a.layer !== 'views') return null
  if (a.view !== b.view && b.layer === 'views')
    return `${from} imports ${to}: views know nothing of each other`
  if (a.tab && b.tab && a.tab !== b.tab) return `${from} imports ${to}: tabs know nothing of each other`
  return null
}

/** Groups of files that import one another in circles. */
export function circles(graph) {
  const number = new Map()
  const low = new Map()
  const stack = []
  const out = []
  const visit = (v) => {
    number.set(v, number.size)
    low.set(v, number.get(v))
    stack.push(v)
    for (const w of graph.get(v) ?? []) {
      if (!number.has(w)) {
        visit(w)
        low.set(v, Math.min(low.get(v), low.get(w)))
      } else if (stack.includes(w)) low.set(v, Math.min(low.get(v), number.get(w)))
    }
    if (low.get(v) !== number.get(v)) return
    const group = stack.splice(stack.indexOf(v))
    if (group.length > 1 || graph.get(v)?.has(v)) out.push(group.sort())
  }
  for (const v of graph.keys()) if (!number.has(v)) visit(v)
  return out
}

/** All that is wrong with the imports of a page. */
export function faults(graph) {
  const out = []
  for (const [from, all] of graph) for (const to of all) out.push(wrong(from, to))
  for (const c of circles(graph)) out.push(`import one another in a circle: ${c.join(' ')}`)
  return out.filter(Boolean)
}
