// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SummaryCounter, SummaryRow } from '../../src/api/types'
import { eventCount, formatOf, metricsOf, valueOf } from '../../src/lib/counters'
import { layoutGraph } from '../../src/views/dag/layout'
import { filterRows, pairRows } from '../../src/views/stat/rows'

const row = (key: string, more: Partial<SummaryRow> = {}) =>
  ({ key, weight: false, type: '', op: key, block: '', ...more }) as SummaryRow

test('rows of two runs are matched by what they are grouped by', () => {
  const p = pairRows(
    [row('ffn_up', { weight: true, type: 'q4_0' }), row('ADD')],
    [row('ffn_up', { weight: true, type: 'q8_0' }), row('MUL')],
  )
  assert.deepEqual(
    p.map((x) => [x.id, x.a?.type, x.b?.type]),
    [
      ['ffn_up', 'q4_0', 'q8_0'],
      ['ADD', '', undefined],
      ['MUL', undefined, ''],
    ],
  )
  // Two of one key in a run are told apart by their types.
  const two = pairRows(
    [row('w', { weight: true, type: 'f16' }), row('w', { weight: true, type: 'q8_0' })],
    [row('w', { weight: true, type: 'f16' })],
  )
  assert.deepEqual(
    two.map((x) => [x.id, x.b != null]),
    [
      ['w f16', true],
      ['w q8_0', false],
    ],
  )
})

test('a search wants all of its words', () => {
  const p = pairRows(
    [row('ffn_up', { type: 'q4_0', block: 'ffn' }), row('attn_q', { type: 'q4_0', block: 'attention' })],
    null,
  )
  assert.deepEqual(
    filterRows(p, ' Q4_0  ffn').map((x) => x.id),
    ['ffn_up'],
  )
  assert.equal(filterRows(p, '').length, 2)
  assert.equal(filterRows(p, 'none').length, 0)
})

test('what follows from two counters', () => {
  const counter = (name: string, role: string): SummaryCounter => ({
    name,
    role,
    pmu: 'cpu',
    unit: '',
    user: true,
    scaled: false,
    void: '',
    slots: 0,
  })
  const counters = [counter('instructions', 'instructions'), counter('cycles', 'cycles')]
  const rows = [
    {
      counts: [
        { sum: 3e6, calls: 2 },
        { sum: 2e6, calls: 2 },
      ],
    },
  ]
  const [ipc, ...rest] = metricsOf(counters, rows)
  assert.deepEqual([ipc.id, formatOf(ipc)(valueOf(ipc, rows[0].counts))], ['ipc', '1.50'])
  assert.deepEqual(
    rest.map((m) => eventCount(valueOf(m, rows[0].counts))),
    ['1.50 M', '1.00 M'],
  )
  assert.equal(
    valueOf(ipc, [
      { sum: 3e6, calls: 2 },
      { sum: null, calls: 0 },
    ]),
    null,
  )
  assert.deepEqual(
    metricsOf(counters, [
      {
        counts: [
          { sum: 0, calls: 2 },
          { sum: 0, calls: 2 },
        ],
      },
    ]),
    [],
  )
})

test('a laid out graph flows downwards and nothing overlaps', () => {
  const nodes = ['a', 'b', 'c', 'd'].map((id, i) => ({
    id,
    parent: i > 0 && i < 3 ? 'g' : '',
    w: 100,
    h: 20,
  }))
  const l = layoutGraph({
    nodes,
    frames: [{ id: 'g', parent: '' }],
    links: [
      { from: 'a', to: 'b' },
      { from: 'a', to: 'c' },
      { from: 'b', to: 'd' },
      { from: 'c', to: 'd' },
    ],
  })
  const y = (id: string) => l.nodes[id][1]
  assert.ok(y('a') < y('b') && y('b') < y('d') && y('a') < y('c') && y('c') < y('d'))
  assert.ok(Math.abs(l.nodes.b[0] - l.nodes.c[0]) >= 100 || Math.abs(y('b') - y('c')) >= 20)
  const g = l.frames.g
  for (const id of ['b', 'c'])
    assert.ok(
      l.nodes[id][0] - 50 >= g.x &&
        l.nodes[id][0] + 50 <= g.x + g.w &&
        y(id) - 10 >= g.y &&
        y(id) + 10 <= g.y + g.h,
    )
  assert.equal(l.omitted, 0)
  assert.deepEqual(new Set(l.segments.map((s) => s.link)), new Set([0, 1, 2, 3]))
})
