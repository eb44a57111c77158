// SPDX-License-Identifier: Apache-2.0

// Blocks of columns of varints (profile/timeline/columns.go).

const damaged = () => new Error('this part of the timeline is damaged')

/** Reads blocks one after the other. */
export class Blocks {
  private at = 0
  constructor(private b: Uint8Array) {}

  private uint(): number {
    let v = 0
    let m = 1
    for (;;) {
      if (this.at >= this.b.length || m > 2 ** 63) throw damaged()
      const x = this.b[this.at++]
      v += (x & 127) * m
      if (x < 128) return v
      m *= 128
    }
  }

  /** Whether there is another block. */
  get more(): boolean {
    return this.at < this.b.length
  }

  /**
   * The next block: its columns, all of the same length. Of -1 columns: as many as it has, if not too many.
   */
  block(columns: number): Float64Array[] {
    const rows = this.uint()
    const n = this.uint()
    if ((columns < 0 ? n > 64 : n !== columns) || rows > this.b.length) throw damaged()
    columns = n
    const out: Float64Array[] = []
    for (let c = 0; c < columns; c++) {
      const len = this.uint()
      const end = this.at + len
      if (end > this.b.length || rows > len) throw damaged()
      out.push(numbers(this.b, this.at, end, rows))
      this.at = end
    }
    return out
  }
}

function numbers(b: Uint8Array, at: number, end: number, n: number): Float64Array {
  const out = new Float64Array(n)
  for (let i = 0; i < n; i++) {
    if (at >= end) throw damaged()
    let x = b[at++]
    if (x < 128) {
      out[i] = x & 1 ? -(x + 1) / 2 : x / 2
      continue
    }
    let v = x & 127
    let m = 128
    while (x >= 128) {
      if (at >= end || m > 2 ** 63) throw damaged()
      x = b[at++]
      v += (x & 127) * m
      m *= 128
    }
    out[i] = v % 2 ? -(v + 1) / 2 : v / 2
  }
  return out
}

/** Turns differences to the value before into values. */
export function sums(d: Float64Array, from = 0): Float64Array {
  let v = from
  for (let i = 0; i < d.length; i++) d[i] = v += d[i]
  return d
}

/** Turns differences of starts to the end before into starts. */
export function starts(d: Float64Array, dur: Float64Array, from = 0): Float64Array {
  let end = from
  for (let i = 0; i < d.length; i++) {
    d[i] += end
    end = d[i] + dur[i]
  }
  return d
}
