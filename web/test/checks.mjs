// SPDX-License-Identifier: Apache-2.0

// What must hold of a page whatever it shows. Each check runs in the page and returns what is wrong, as
// texts.

/**
 * Characters that must not reach the screen as they are: see clean() in src/lib/format.ts. Tabs and line ends
 * may stand in the page's own texts.
 */
const raw = '(?![\\t\\n])[\\p{C}\\p{Zl}\\p{Zp}]'

/** Texts that lie on each other by more than a few pixels. */
export function overlaps(limit = 3) {
  const found = []
  const texts = []
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const styles = new Map()
  const style = (e) => styles.get(e) ?? (styles.set(e, getComputedStyle(e)), styles.get(e))
  // What lies above the rest on purpose is compared with its own kind only.
  const layer = (e) => {
    for (let a = e; a && a !== document.body; a = a.parentElement) {
      const s = style(a)
      if (
        s.position === 'fixed' ||
        s.position === 'sticky' ||
        (s.position === 'absolute' && s.zIndex !== 'auto')
      )
        return a
    }
    return null
  }
  const cut = (r, e) => {
    let { left, top, right, bottom } = r
    for (let a = e; a && a !== document.documentElement; a = a.parentElement) {
      const s = style(a)
      if (s.overflowX === 'visible' && s.overflowY === 'visible') continue
      if (s.display === 'inline') continue
      const c = a.getBoundingClientRect()
      if (s.overflowX !== 'visible') ((left = Math.max(left, c.left)), (right = Math.min(right, c.right)))
      if (s.overflowY !== 'visible') ((top = Math.max(top, c.top)), (bottom = Math.min(bottom, c.bottom)))
    }
    return { left, top, right, bottom }
  }
  while (walk.nextNode()) {
    const n = walk.currentNode
    const e = n.parentElement
    if (!n.data.trim() || !e || e.closest('script,style,noscript,option,title,desc')) continue
    if (!e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue
    const range = document.createRange()
    range.selectNodeContents(n)
    for (const r of range.getClientRects()) {
      const c = cut(r, e)
      if (c.right - c.left > 1 && c.bottom - c.top > 1) texts.push({ n, e, ...c, layer: layer(e) })
    }
  }
  texts.sort((a, b) => a.top - b.top)
  for (let i = 0; i < texts.length && found.length < 5; i++) {
    const a = texts[i]
    for (let j = i + 1; j < texts.length && texts[j].top < a.bottom - limit; j++) {
      const b = texts[j]
      if (a.n === b.n || a.layer !== b.layer) continue
      const w = Math.min(a.right, b.right) - Math.max(a.left, b.left)
      const h = Math.min(a.bottom, b.bottom) - b.top
      if (w > limit && h > limit) {
        const say = (t) =>
          `"${t.n.data.trim().slice(0, 40)}" in ${t.e.tagName.toLowerCase()}${t.e.getAttribute('class') ? '.' + t.e.getAttribute('class').trim().replace(/\s+/g, '.') : ''} at ${Math.round(t.left)},${Math.round(t.top)}`
        found.push(`overlap of ${Math.round(w)} x ${Math.round(h)} px: ${say(a)} and ${say(b)}`)
        break
      }
    }
  }
  return found
}

/** What makes the page wider than its window. */
export function overflow() {
  const found = []
  const doc = document.documentElement
  if (doc.scrollWidth > innerWidth + 1)
    found.push(`the page is ${doc.scrollWidth} px wide in a window of ${innerWidth}`)
  if (doc.scrollHeight > innerHeight + 1)
    found.push(`the page is ${doc.scrollHeight} px high in a window of ${innerHeight}`)
  const view = document.getElementById('view')
  if (view && view.scrollWidth > view.clientWidth + 1) {
    let worst = null
    for (const e of view.querySelectorAll('*')) {
      const r = e.getBoundingClientRect()
      if (
        r.width &&
        r.right > view.getBoundingClientRect().right + 1 &&
        (!worst || r.right > worst.getBoundingClientRect().right)
      )
        worst = e
    }
    found.push(
      `the view is ${view.scrollWidth} px wide in ${view.clientWidth}${worst ? `: ${worst.tagName.toLowerCase()} class "${worst.getAttribute('class') ?? ''}"` : ''}`,
    )
  }
  const bar = document.querySelector('header.bar')
  if (bar && bar.scrollWidth > bar.clientWidth + 1)
    found.push(`the bar holds ${bar.scrollWidth} px in ${bar.clientWidth}`)
  return found
}

/** Elements and attributes that no view makes, and that a name which became markup would have made. */
export function foreign() {
  const found = []
  for (const e of document.querySelectorAll(
    'img,iframe,frame,object,embed,video,audio,base,form,link:not([rel="icon"]),meta[http-equiv="refresh"]',
  ))
    found.push(`a foreign element: ${e.outerHTML.slice(0, 120)}`)
  for (const e of document.querySelectorAll('*')) {
    for (const a of e.attributes) {
      if (/^on/i.test(a.name)) found.push(`an attribute that is code: ${a.name}="${a.value}"`)
      if (/^(xlink:)?(href|src|action)$/i.test(a.name) && !/^(#|data:|blob:)/.test(a.value))
        found.push(`an address: ${a.name}="${a.value}"`)
    }
  }
  for (const s of document.querySelectorAll('script'))
    if (!s.closest('head') && s.parentElement !== document.body) found.push('a script inside the views')
  return found.slice(0, 5)
}

/** Texts, titles and canvas texts with characters that should be shown as what they are. */
export function unclean(pattern) {
  const found = new Set()
  const re = new RegExp(pattern, 'u')
  // Names from right to left stand between isolates, the second of which a view may have cut off.
  const open = (s) => {
    for (let t; (t = s.replace(/[\u2066\u2068]([^\u2066\u2068\u2069]*)(\u2069|$)/g, '$1')) !== s;) s = t
    return s
  }
  const see = (s, where) =>
    re.test(open(s)) &&
    found.size < 5 &&
    found.add(
      `${where} is not clean: ${JSON.stringify(s.slice(0, 80)).replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))}`,
    )
  const walk = document.createTreeWalker(document.getElementById('app'), NodeFilter.SHOW_TEXT)
  while (walk.nextNode()) see(walk.currentNode.data, 'a text')
  for (const e of document.querySelectorAll('#app *'))
    for (const a of ['title', 'aria-label', 'placeholder', 'alt'])
      if (e.hasAttribute(a)) see(e.getAttribute(a), a)
  for (const s of window.__drawn ?? []) see(s, 'a text on a canvas')
  see(document.title, 'the title')
  return [...found]
}

/** All of them, in one go. */
export async function check(page) {
  const all = [overlaps, overflow, foreign, unclean].map(
    (f) => `...(${f})(${f === unclean ? JSON.stringify(raw) : ''})`,
  )
  return page.evaluate(`[${all.join(', ')}]`)
}
