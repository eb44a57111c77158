// SPDX-License-Identifier: Apache-2.0

// The page by keyboard and by links: every view is reached, every state is an address.
import { readFileSync, readdirSync } from 'node:fs'
import { open, ready, settled } from './browser.mjs'
import { check } from './checks.mjs'
import { views } from './views.test.mjs'

const shown = (page) => page.getAttribute('#view', 'data-view')
const hash = (page) => page.evaluate(() => location.hash)

/** What a reader sees of a view, and what is chosen in it. */
const state = (page) =>
  page.evaluate(() => {
    const v = document.getElementById('view')
    return JSON.stringify({
      view: v.dataset.view,
      text: v.innerText,
      chosen: [...v.querySelectorAll('select, input')].map((e) =>
        e.type === 'checkbox' ? e.checked : e.value,
      ),
      pressed: [
        ...v.querySelectorAll('[aria-pressed="true"], [aria-selected="true"], [aria-expanded="true"]'),
      ].map((e) => e.textContent.slice(0, 40)),
    })
  })

/** The parameters of a view's addresses, as its source names them. */
function paramsOf(view) {
  const dirs = view === 'stat' ? [view, 'stat/experts'] : [view]
  const text = dirs
    .map((d) => new URL(`../src/views/${d}/`, import.meta.url))
    .flatMap((dir) =>
      readdirSync(dir)
        .filter((f) => /\.tsx?$/.test(f))
        .map((f) => readFileSync(new URL(f, dir), 'utf8')),
    )
    .join('')
  return new Set([...text.matchAll(/\bparams\.([a-z]\w*)/gi)].map((m) => m[1]))
}

export function tests({ pages }) {
  const all = []
  const test = (p, name, f) =>
    all.push({
      name: `${p.name}/${name}`,
      run: async (browser) => {
        const { page, context, wrong } = await open(browser, p.url, { width: 1000, height: 700 })
        await ready(page, 'summary')
        const is = (what, got, want) =>
          got !== want &&
          wrong.push(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`.slice(0, 500))
        const data = await f(page, is, wrong, browser)
        await context.close()
        return { wrong, data }
      },
    })

  for (const p of pages) {
    test(p, 'digits', async (page, is) => {
      for (const [i, v] of [...views.entries()].reverse()) {
        await page.keyboard.press(String(i + 1))
        await ready(page, v)
        is(`key ${i + 1}`, await shown(page), v)
        is(
          'the tab that is marked',
          await page.locator('.bar nav [aria-current="page"]').textContent(),
          await page.locator('.bar nav a').nth(i).textContent(),
        )
      }
      await page.keyboard.press('5')
      await page.keyboard.press('Control+2')
      is('after keys that mean nothing', await shown(page), 'summary')
    })

    test(p, 'help', async (page, is) => {
      await page.keyboard.press('?')
      is('help after ?', await page.locator('.help').count(), 1)
      await page.locator('.help summary').click()
      is('licences', /MIT License/.test(await page.locator('.help pre').innerText()), true)
      for (const w of await check(page)) is(w, true, false)
      await page.keyboard.press('Escape')
      is('help after Escape', await page.locator('.help').count(), 0)
    })

    test(p, 'tab', async (page, is) => {
      const seen = []
      for (const v of views) {
        await page.evaluate((v) => (location.hash = '#' + v), v)
        await ready(page, v)
        await settled(page)
        await page.evaluate(() => document.activeElement?.blur())
        const want = await page.evaluate(
          () =>
            [
              ...document.querySelectorAll(
                '#view a[href], #view button:not([disabled]), #view select, #view input, #view [tabindex="0"]',
              ),
            ].filter((e) => e.checkVisibility()).length,
        )
        let inside = 0
        let outside = 0
        let invisible = ''
        for (let i = 0; i < 40; i++) {
          await page.keyboard.press('Tab')
          const at = await page.evaluate(() => {
            const e = document.activeElement
            const s = getComputedStyle(e)
            return {
              body: e === document.body,
              tab: e.closest('.bar nav') ? e.textContent : '',
              inside: !!e.closest('#view'),
              outline:
                s.outlineStyle !== 'none' ||
                s.boxShadow !== 'none' ||
                [...e.children].some((c) => parseFloat(getComputedStyle(c).strokeWidth) >= 2),
              what: e.tagName + '.' + e.className,
            }
          })
          if (at.body && ++outside > 1) break // once: the view had the focus, and it goes through the browser's own
          if (at.body) continue
          if (at.tab && v === 'summary') seen.push(at.tab)
          if (at.inside) inside++
          if (!at.outline) invisible ||= at.what
        }
        is(`${v}: focus cannot be seen on`, invisible, '')
        if (want > 0) is(`${v}: Tab comes into the view`, inside > 0, true)
      }
      is('tabs by Tab', seen.join(), 'Summary,ProfDAG,ProfTime,ProfStat')
    })

    test(p, 'rows', async (page, is) => {
      await page.keyboard.press('4')
      await ready(page, 'stat')
      await settled(page)
      const heads = page.locator('#view th[aria-sort]')
      if (!(await heads.count())) return { tables: 0 }
      const h = heads.nth(1)
      await h.focus()
      await page.keyboard.press('Enter')
      const first = await h.getAttribute('aria-sort')
      await page.keyboard.press('Enter')
      is(
        'a head turns around by Enter',
        new Set([first, await h.getAttribute('aria-sort')]).size === 2 && first !== 'none',
        true,
      )
      const rows = page.locator('#view tr.can')
      if (!(await rows.count())) return { rows: 0 }
      const before = await state(page)
      await rows.first().focus()
      await page.keyboard.press('Enter')
      await settled(page)
      is('a row opens by Enter', (await state(page)) !== before, true)
    })

    test(p, 'typing', async (page, is) => {
      for (const v of views) {
        await page.evaluate((v) => (location.hash = '#' + v), v)
        await ready(page, v)
        const field = page
          .locator('#view input[type="search"], #view input[type="text"], #view input:not([type])')
          .first()
        if (!(await field.count())) continue
        await field.fill('')
        await field.focus()
        await page.keyboard.type('1?3')
        is(`${v}: after typing into a field`, await shown(page), v)
        is(`${v}: the field`, await field.inputValue(), '1?3')
      }
    })

    test(p, 'back', async (page, is) => {
      for (const v of ['stat', 'time', 'dag']) {
        await page.locator('.bar nav a').nth(views.indexOf(v)).click()
        await ready(page, v)
        await settled(page) // a view that puts its state into the address must not make an entry of it
      }
      for (const v of ['time', 'stat', 'summary']) {
        await page.goBack()
        await ready(page, v)
        await settled(page)
        is('after going back', await shown(page), v)
      }
      await page.goForward()
      await ready(page, 'stat')
      is('after going forward', await shown(page), 'stat')
    })

    test(p, 'theme', async (page, is, wrong) => {
      const theme = () => page.evaluate(() => document.documentElement.dataset.theme)
      is('at first', await theme(), 'light')
      await page.locator('button[aria-label="light or dark"]').click()
      is('after the button', await theme(), 'dark')
      for (const v of views) {
        await page.evaluate((v) => (location.hash = '#' + v), v)
        await ready(page, v)
        await settled(page)
      }
      await page.reload()
      await ready(page, 'stat')
      is('after reloading', await theme(), 'dark')
    })

    for (const v of views) {
      test(p, `link ${v}`, async (page, is, wrong) => {
        // Goes into states of the view by every choice, and opens each one's address anew.
        await page.evaluate((v) => (location.hash = '#' + v), v)
        await ready(page, v)
        await settled(page)
        const links = new Set()
        const note = async () => {
          await settled(page)
          if ((await shown(page)) !== v) {
            links.add(await hash(page))
            await page.goBack()
            await ready(page, v)
          } else links.add(await hash(page))
        }
        const selects = await page.locator('#view select').count()
        for (let i = 0; i < Math.min(selects, 5); i++) {
          const s = page.locator('#view select').nth(i)
          const values = await s
            .evaluate((e) => [...e.options].filter((o) => !o.disabled).map((o) => o.value))
            .catch(() => [])
          for (const o of values.slice(-2)) {
            await s.selectOption(o, { timeout: 2000 }).catch(() => {})
            await note()
          }
        }
        for (const rows of ['#view tr.can', '#view a[href^="#"]']) {
          const n = await page.locator(rows).count()
          for (let i = 0; i < Math.min(n, 3); i++) {
            await page
              .locator(rows)
              .nth(i)
              .click({ timeout: 2000, position: { x: 4, y: 4 } })
              .catch(() => {})
            await note()
          }
        }
        await page.evaluate((v) => (location.hash = '#' + v), v)
        await ready(page, v)
        for (const kind of ['canvas', 'svg']) {
          const box = await page
            .locator(`#view ${kind}`)
            .first()
            .boundingBox({ timeout: 500 })
            .catch(() => null)
          if (!box || box.width < 50) continue
          await page.mouse.click(box.x + box.width / 2, Math.min(box.y + box.height / 2, 650))
          await note()
        }
        const params = new Set()
        for (const link of [...links].slice(0, 12)) {
          const view = link.slice(1).split('?')[0]
          for (const k of new URLSearchParams(link.split('?')[1] ?? '').keys()) params.add(`${view} ${k}`)
          await page.evaluate((l) => (location.hash = l), link)
          await ready(page, view)
          await settled(page)
          await page.mouse.move(1, 1)
          await settled(page, 1000) // a view may write its state into the address a little later
          const a = await state(page)
          const at = await hash(page)
          await page.reload()
          await ready(page, view)
          await settled(page)
          is(`${link}: the address after opening it anew`, await hash(page), at)
          const b = await state(page)
          if (a !== b) {
            let i = 0
            while (a[i] === b[i]) i++
            wrong.push(
              `${link} opened anew shows something else: ${JSON.stringify(a.slice(Math.max(0, i - 40), i + 80))}, then ${JSON.stringify(b.slice(Math.max(0, i - 40), i + 80))}`,
            )
          }
        }
        // Addresses come from anywhere: each parameter with what it cannot be.
        if (p.brief) return { links: links.size }
        for (const k of paramsOf(v)) params.add(`${v} ${k}`)
        const bad = [
          '',
          '-1',
          'NaN',
          '1e999',
          '__proto__',
          '<img src=x onerror=alert(1)>',
          '%',
          'x'.repeat(3000),
          '1,2;3:4',
          '\u202e\u0000',
        ]
        for (const k of params) {
          const [view, key] = k.split(' ')
          for (const value of bad) {
            await page.evaluate(
              ([view, key, value]) => (location.hash = `#${view}?${key}=${encodeURIComponent(value)}`),
              [view, key, value],
            )
            const n = wrong.length
            await ready(page, view).catch(() => wrong.push('it did not get ready'))
            await settled(page)
            if (value.length > 5) wrong.push(...(await check(page)))
            for (let i = n; i < wrong.length; i++)
              wrong[i] = `#${view}?${key}=${value.slice(0, 30)}: ${wrong[i]}`
            if (wrong.length > 12) return
          }
        }
        return { links: links.size, params: [...params].join() }
      })
    }

    test(p, 'addresses', async (page, is, wrong) => {
      for (const h of [
        '#',
        '#nothing',
        '#/stat',
        '#stat?',
        '#stat?%',
        '#stat?run=99&with=-7',
        '#time?run=x',
        '#summary?run=1&with=1',
        '#dag?__proto__=1&constructor=2',
        '#%%%',
        '#stat?a=1?b=2',
        '#<img src=x onerror=alert(1)>',
      ]) {
        await page.evaluate((h) => (location.hash = h), h)
        const name = h.replace(/^#\/?/, '').split('?')[0]
        const view = views.includes(name) ? name : 'summary'
        await ready(page, view).catch(() => wrong.push(`${h}: not ready`))
        is(`${h} shows`, await shown(page), view)
      }
    })
  }
  return all
}
