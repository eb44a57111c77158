// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  bytes,
  clean,
  count,
  delta,
  dims,
  dur,
  flops,
  named,
  num,
  parameterCount,
  plural,
  share,
} from '../../src/lib/format'
import { median, outlier } from '../../src/lib/median'
import { sortOrder } from '../../src/lib/sort'
import { moment, ruler, tickStep } from '../../src/lib/time-scale'
import { axisFmt, inUnit, relative, unitOf } from '../../src/lib/units'

test('three significant digits', () => {
  const want: [number | null, string][] = [
    [0, '0'],
    [0.0123, '0.0123'],
    [1.234, '1.23'],
    [9.996, '10.0'],
    [12.34, '12.3'],
    [123.4, '123'],
    [1234.5, '1,235'],
    [null, '–'],
    [NaN, '–'],
    [-1.5, '-1.50'],
  ]
  for (const [v, text] of want) assert.equal(num(v), text)
  assert.equal(count(1234567.4), '1,234,567')
})

test('durations, sizes, rates', () => {
  const want: [number | null, string][] = [
    [0, '0 s'],
    [1, '1.00 ns'],
    [999.6, '1.00 µs'],
    [1500, '1.50 µs'],
    [2e6, '2.00 ms'],
    [599e9, '599 s'],
    [600e9, '10 min 0 s'],
    [-754e9, '-12 min 34 s'],
    [null, '–'],
  ]
  for (const [v, text] of want) assert.equal(dur(v), text)
  assert.deepEqual([0, 1023, 1023.6, 1536, 5 * 2 ** 30].map(bytes), [
    '0 B',
    '1023 B',
    '1.00 KiB',
    '1.50 KiB',
    '5.00 GiB',
  ])
  assert.equal(flops(2.5e9), '2.50 GFLOP')
  assert.deepEqual([1.236e9, 3.4e6, 999.6e3, 12].map(parameterCount), ['1.24 B', '3.40 M', '1.00 M', '12'])
})

test('shares and differences', () => {
  assert.deepEqual(
    [0, 0.0001, -0.0001, 0.1234, null].map((v) => share(v)),
    ['0.0 %', '<0.1 %', '>−0.1 %', '12.3 %', '–'],
  )
  assert.deepEqual(
    [delta(100, 104.2), delta(100, 50), delta(-10, -5), delta(0, 1), delta(null, 1)],
    ['+4.2 %', '−50.0 %', '+50.0 %', '–', '–'],
  )
  assert.equal(plural(1, 'step'), '1 step')
  assert.equal(plural(2000, 'step'), '2,000 steps')
  assert.equal(dims([2048, 8192, 1, 1]), '2048 × 8192')
  assert.equal(dims([1, 1, 1, 1]), '1')
})

test('names that nobody vouches for', () => {
  assert.equal(clean('a\u202eb\u0000\u200b'), 'a\\u202eb\\u0000\\u200b')
  assert.equal(clean('<b>&amp;'), '<b>&amp;')
  assert.equal(clean('שלום'), '\u2066שלום\u2069')
  assert.equal(named('x'.repeat(40), 8), `\u2068${'x'.repeat(7)}…\u2069`)
})

test('the unit of a column', () => {
  const u = unitOf('time', [1500, 2.5e6, null])
  assert.deepEqual(
    [u.name, inUnit(u)(1500), inUnit(u)(2.5e6), inUnit(u)(1), inUnit(u)(null)],
    ['ms', '0.002', '2.500', '<0.001', '–'],
  )
  assert.equal(inUnit(unitOf('time', [2000]), true)(-2000), '−2.000')
  assert.equal(unitOf('bytes', [3 * 2 ** 20]).name, 'MiB')
  assert.equal(axisFmt(unitOf('time', [5e6]))(2.5e6), '2.5')
  assert.equal(relative(4, 5), 0.25)
  assert.equal(relative(0, 5), null)
})

test('the ruler', () => {
  for (const [least, step] of [
    [1, 1],
    [3, 5],
    [11, 20],
    [900, 1000],
  ])
    assert.equal(tickStep(least), step)
  const r = ruler(0, 1e9, 960)
  assert.deepEqual([r.step, r.base, r.ticks.length, r.label(5e8)], [1e8, 0, 11, '500 ms'])
  // Microseconds far into a run count from a round moment.
  const far = ruler(100e9, 100e9 + 10_000, 960)
  assert.equal(far.step, 1000)
  assert.ok(far.base > 99e9 && far.base <= 100e9)
  assert.match(far.label(far.ticks[1]), /^\+.* µs$/)
  assert.equal(moment(2345678901), '2.345 678 901 s')
  assert.equal(moment(-5), '−0.000 000 005 s')
})

test('medians, outliers, the order of a table', () => {
  assert.deepEqual([median([]), median([3, 1, 2]), median([4, 1, 2, 3])], [0, 2, 2.5])
  assert.deepEqual(
    [outlier(105, 100), outlier(150, 100), outlier(50, 100)],
    ['', '+50 % of the median', '−50 % of the median'],
  )
  assert.deepEqual(sortOrder('up:key'), { key: 'key', up: true })
  assert.deepEqual(sortOrder('share'), { key: 'share', up: false })
  assert.equal(sortOrder(undefined), null)
})
