// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Blocks, starts, sums } from '../../src/views/time/columns'
import { firstAfter, lengthClass, spanAt, spanSet, spansWithin } from '../../src/views/time/spans'

/** Packs columns as package profile does: rows, columns, then each column's length and its zigzag varints. */
function pack(columns: number[][]): Uint8Array {
  const uint = (v: number): number[] => (v < 128 ? [v] : [(v % 128) + 128, ...uint(Math.floor(v / 128))])
  const out = [...uint(columns[0].length), ...uint(columns.length)]
  for (const c of columns) {
    const data = c.flatMap((v) => uint(v < 0 ? -2 * v - 1 : 2 * v))
    out.push(...uint(data.length), ...data)
  }
  return Uint8Array.from(out)
}

test('columns are unpacked, block by block', () => {
  const columns = [
    [0, 1, -1, 63, -64],
    [64, 2 ** 31, -(2 ** 31), 2 ** 45, -(2 ** 45)],
  ]
  const b = new Blocks(Uint8Array.from([...pack(columns), ...pack([[7]])]))
  assert.deepEqual(
    b.block(2).map((c) => [...c]),
    columns,
  )
  assert.ok(b.more)
  assert.deepEqual(
    b.block(-1).map((c) => [...c]),
    [[7]],
  )
  assert.ok(!b.more)
})

test('what is damaged says so, wherever it is cut', () => {
  const whole = pack([
    [1, 2, 300],
    [4, 5, 6],
  ])
  for (let n = 0; n < whole.length; n++)
    assert.throws(() => new Blocks(whole.slice(0, n)).block(2), /damaged/, `cut at ${n}`)
  assert.throws(() => new Blocks(whole).block(3), /damaged/)
  assert.throws(
    () => new Blocks(Uint8Array.from([255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255])).block(1),
    /damaged/,
  )
})

test('differences become values', () => {
  assert.deepEqual([...sums(Float64Array.of(1, 2, 3), 10)], [11, 13, 16])
  assert.deepEqual([...starts(Float64Array.of(1, 2), Float64Array.of(10, 10), 100)], [101, 113])
})

const set = (list: [number, number][]) => {
  const start = Float64Array.from(list, (s) => s[0])
  const end = Float64Array.from(list, (s) => s[1])
  return spanSet(
    start,
    end.slice(),
    end,
    new Uint8Array(list.length),
    Int32Array.from(list, (_, i) => i),
    { chans: 1 },
  )
}

test('spans are found by their times', () => {
  const s = set([
    [10, 20],
    [30, 40],
    [100, 1000],
  ])
  assert.deepEqual([firstAfter(s.start, 9), firstAfter(s.start, 10), firstAfter(s.start, 5000)], [0, 1, 3])
  assert.deepEqual(
    [spanAt(s, 15, 0), spanAt(s, 25, 0), spanAt(s, 22, 3), spanAt(s, 28, 3), spanAt(s, 999, 0)],
    [0, -1, 0, 1, 2],
  )
  assert.deepEqual(spansWithin(s, 15, 35), [0, 2])
  assert.deepEqual(spansWithin(s, 41, 99), [2, 2])
})

test('spans out of order are sorted, and their time is in the bins of every level', () => {
  const s = set([
    [300, 1000],
    [10, 20],
    [100, 140],
  ])
  assert.deepEqual([...s.start], [10, 100, 300])
  assert.deepEqual([...s.ref], [1, 2, 0])
  for (const level of s.bins.levels) assert.ok(Math.abs(level.reduce((a, b) => a + b, 0) - 750) < 0.01)
  assert.ok(lengthClass(1000) >= lengthClass(10))
})
