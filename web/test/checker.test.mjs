// SPDX-License-Identifier: Apache-2.0

// The checks see what they have to: each test does harm to a good page and expects to be told.
import { open, ready, settled } from './browser.mjs'
import { check } from './checks.mjs'

const hostile = '<img src=x onerror=alert(1)>'

/** [name, harm done in the page, what has to be told]. */
const harms = [
  [
    'a name as markup',
    (h) => (document.querySelector('#view').innerHTML += h),
    [
      /foreign element: <img/,
      /attribute that is code: onerror/,
      /policy: script-src-attr refused inline|policy: img-src refused/,
    ],
  ],
  [
    'a script element',
    () =>
      document
        .querySelector('#view')
        .append(Object.assign(document.createElement('script'), { textContent: 'alert(2)' })),
    [/script inside the views/, /policy: script-src-elem refused inline/],
  ],
  [
    'an svg with a handler',
    () => (document.querySelector('#view').innerHTML += '<svg onload=alert(3)></svg>'),
    [/attribute that is code: onload/],
  ],
  ['a dialog', () => void alert(1), [/dialog: 1/]],
  [
    'a picture from elsewhere',
    () => (new Image().src = 'http://192.0.2.1/a.png'),
    [/policy: img-src refused|request: http:\/\/192/],
  ],
  [
    'a request',
    () => fetch('http://192.0.2.1/').catch(() => {}),
    [/policy: connect-src refused|request: http:\/\/192/],
  ],
  [
    'a stylesheet from elsewhere',
    () =>
      document.head.append(
        Object.assign(document.createElement('link'), { rel: 'stylesheet', href: 'http://192.0.2.1/a.css' }),
      ),
    [/policy: style-src-elem refused/, /foreign element: <link/],
  ],
  [
    'a link to elsewhere',
    () =>
      document
        .querySelector('#view')
        .append(
          Object.assign(document.createElement('a'), { href: 'http://192.0.2.1/', textContent: 'there' }),
        ),
    [/an address: href/],
  ],
  ['code as text', () => setTimeout('alert(1)', 0), [/policy: script-src refused|Content Security Policy/]],
  ['an error in the console', () => console.error('bad'), [/console error: bad/]],
  [
    'an exception',
    () =>
      void setTimeout(() => {
        throw new Error('thrown')
      }),
    [/exception: thrown/],
  ],
  ['a rejected promise', () => void Promise.reject(new Error('left')), [/exception: left/]],
  [
    'overlapping texts',
    () => {
      for (const [x, t] of [
        [100, 'one text'],
        [120, 'another text'],
      ]) {
        const d = document.querySelector('#view').appendChild(document.createElement('div'))
        Object.assign(d.style, { position: 'absolute', left: x + 'px', top: '300px' })
        d.textContent = t
      }
    },
    [/overlap of .*"one text".*"another text"/],
  ],
  [
    'a wide view',
    () => {
      const d = document.querySelector('#view').appendChild(document.createElement('div'))
      d.style.width = '3000px'
      d.textContent = 'wide'
    },
    [/the view is 30\d\d px wide/],
  ],
  [
    'a text that turns around',
    () => document.querySelector('#view').append('a\u202ebc'),
    [/a text is not clean: "a\\u202ebc"/],
  ],
  [
    'a control character in a title',
    () => (document.querySelector('#view').firstElementChild.title = 'a\u001b[31m'),
    [/title is not clean/],
  ],
  [
    'a control character on a canvas',
    () => document.createElement('canvas').getContext('2d').fillText('a\u0007', 0, 0),
    [/canvas is not clean/],
  ],
  ['another window', () => void window.open('about:blank'), [/a window was opened/]],
]

export function tests({ pages: [p] }, net) {
  const proxy = {
    name: 'a request that no policy stops',
    run: async (browser) => {
      const { page, context, wrong } = await open(browser, 'data:text/html,<p id="view">open')
      await page.evaluate(() => fetch('http://192.0.2.1/leak', { mode: 'no-cors' }).catch(() => {}))
      await context.close()
      const at = net.asked.findIndex((a) => a.includes('192.0.2.1/leak'))
      if (at >= 0) net.asked.splice(at, 1)
      return {
        wrong: [
          ...(at < 0 ? ['the proxy was not asked'] : []),
          ...(wrong.some((w) => /^request: http:\/\/192/.test(w)) ? [] : ['the page was not heard to ask']),
        ],
      }
    },
  }
  return [proxy, ...policed(p)]
}

function policed(p) {
  return harms.map(([name, harm, expected]) => ({
    name,
    run: async (browser) => {
      const { page, context, wrong } = await open(browser, p.url, { width: 1000, height: 700 })
      await ready(page, 'summary')
      if (wrong.length) return { wrong: wrong.map((w) => `before anything was done: ${w}`) }
      // The page's own policy holds for what is done here: this is no evaluate() of a string.
      await page.evaluate(harm, hostile).catch((e) => wrong.push(String(e.message)))
      await settled(page)
      const told = [...wrong, ...(await check(page))]
      await context.close()
      return {
        wrong: expected
          .filter((e) => !told.some((t) => e.test(t)))
          .map((e) => `nobody told ${e}; told was: ${told.join(' | ') || 'nothing'}`),
      }
    },
  }))
}
