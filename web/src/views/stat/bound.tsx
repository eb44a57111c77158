// SPDX-License-Identifier: Apache-2.0

// What bounds a row's operators, as `stat --json` says it.
import type { SummaryBound, SummaryRowVerdict, SummaryRow } from '../../api/types'
import { clean, share } from '../../lib/format'
import { Fig } from '../../ui/figure'
import type { Column } from '../../ui/table'
import type { RowPair } from './rows'

const names: Record<SummaryBound, string> = {
  memory: 'memory',
  compute: 'compute',
  wait: 'barrier wait',
  disk: 'disk',
  contention: 'CPU contention',
  outside: 'outside operators',
  mixed: 'several',
  unknown: 'unknown',
  '': '',
}

function boundText(b: SummaryRowVerdict): string {
  const name = (x: SummaryBound) => (Object.hasOwn(names, x) ? names[x] : clean(x))
  const among = (b.among ?? []).filter((x) => x !== 'unknown').map(name)
  if (b.bound === 'unknown' && among.length > 1) return among.join(' or ')
  if (b.bound === 'mixed' && among.length > 0) return among.join(' and ')
  return name(b.bound)
}

/** The verdict of each row, and how near it is to the machine's peaks; none where no row has one. */
export function boundColumns(rows: RowPair[], two: boolean): Column<RowPair>[] {
  const out: Column<RowPair>[] = []
  for (const [suffix, of] of [['', (p: RowPair) => p.a], ...(two ? [['.b', (p: RowPair) => p.b]] : [])] as [
    string,
    (p: RowPair) => SummaryRow | null,
  ][]) {
    const bound = (p: RowPair): SummaryRowVerdict | null => of(p)?.bound ?? null
    const some = (f: (b: SummaryRowVerdict) => number | null) =>
      rows.some((p) => bound(p) != null && f(bound(p)!) != null)
    if (!rows.some((p) => bound(p)?.bound)) continue
    out.push({
      key: 'bound' + suffix,
      head: 'bound',
      text: true,
      help: 'what its time follows from, and with what confidence',
      value: (p) => bound(p)?.bound,
      cell: (p) => {
        const b = bound(p)
        return b ? (
          <span
            title={clean([b.confidence && `confidence: ${b.confidence}`, b.why].filter(Boolean).join('. '))}
          >
            {boundText(b)} {b.confidence && <span class="dim">({clean(b.confidence)})</span>}
          </span>
        ) : null
      },
    })
    if (some((b) => b.of_peak_gbps))
      out.push({
        key: 'of_peak_gbps' + suffix,
        head: 'of peak GB/s',
        help: 'GB/s as a part of what the machine’s memory gives',
        value: (p) => bound(p)?.of_peak_gbps,
        cell: (p) => <Fig v={bound(p)?.of_peak_gbps} f={share} />,
      })
    if (some((b) => b.of_peak_flops))
      out.push({
        key: 'of_peak_flops' + suffix,
        head: 'of peak FLOP/s',
        help: 'GFLOP/s as a part of what the machine’s CPUs compute',
        value: (p) => bound(p)?.of_peak_flops,
        cell: (p) => <Fig v={bound(p)?.of_peak_flops} f={share} />,
      })
  }
  return out
}
