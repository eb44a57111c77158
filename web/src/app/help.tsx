// SPDX-License-Identifier: Apache-2.0

// Help: the keyboard map, the timeline's legend, and the page's words as docs/glossary.md has them.
import type { Report } from '../api/load'
import { Legend } from '../views/time/legend'

const keys: [string, string][] = [
  ['1 2 3 4', 'Summary, ProfDAG, ProfTime, ProfStat'],
  ['?', 'open or close this help; Escape closes it'],
  ['Tab, Enter', 'next element, open it'],
  ['ProfTime: w s', 'zoom in and out, also with the wheel'],
  ['a d', 'move left and right, also by dragging'],
  ['Shift and drag', 'statistics of a range, also by dragging in the ruler'],
  ['click, [ ]', 'figures of an operator; the same one in the previous and next step'],
  ['double click, f', 'zoom to what is selected'],
  ['Home', 'whole run'],
  ['/', 'ProfTime and ProfDAG: search'],
  ['ProfDAG: drag, wheel', 'move, zoom'],
]

const words: [string, string][] = [
  ['step', 'one call of the engine that computes a batch'],
  ['prefill, decode', 'prefill: a sequence has more than one token in the batch; decode: none has'],
  [
    'operator',
    'a tensor of a graph that was computed, from its first thread’s begin to its last barrier arrival',
  ],
  ['weight matmul', 'a matrix multiplication with a weight'],
  ['outside operators', 'the part of a step in which no operator runs: time of the engine and the framework'],
  ['t/s', 'tokens per second: tokens / time of the steps, end to end'],
  [
    'TTFT',
    'time to first token: from the begin of a request’s first step to the logits of its prompt; excludes queueing',
  ],
  ['TPOT', 'time per output token; of a phase: time of a decode step per token of one sequence'],
  ['ITL', 'inter-token latency: time from one token of a request to the next'],
  ['end to end, submit time', 'until the host saw the results; duration of the call alone'],
  ['barrier wait', 'time from a thread’s barrier arrival to the last thread’s'],
  ['load imbalance', 'max busy / mean busy − 1 over an operator’s threads'],
  ['off-CPU', 'time in an operator in which the thread was descheduled'],
  ['Runnable', 'the thread could run and waited for a CPU'],
  ['Uninterruptible Sleep', 'state D: mostly reads from disk'],
  ['CPU contention', 'operators last longer because something else ran on a thread’s CPU'],
  ['slow step', 'a latency outlier: more than 20 % and 0.1 ms above its local baseline'],
  ['arithmetic intensity', 'FLOP / bytes, in FLOP/byte'],
  ['bandwidth', 'minimum bytes moved / time; not measured DRAM traffic'],
  ['% of peak', 'rate / the nearer ceiling of the roofline that `profinfer peaks` measured'],
  [
    'MBU',
    'model bandwidth utilisation: bytes of weights that decode reads × steps per second / peak bandwidth',
  ],
  ['confidence', 'of a verdict: high, medium or low'],
  ['dropped, truncated', 'events that found no room in a buffer; a recording without an end'],
]

export function Help({ report }: { report: Report }) {
  const sched = report.runs.some((r) => r.stats.weight.has_sched)
  const faults = report.runs.some((r) => r.has('faults'))
  const list = (rows: [string, string][]) => (
    <dl>{rows.map(([k, v]) => [<dt key={k}>{k}</dt>, <dd key={k + '.'}>{v}</dd>])}</dl>
  )
  return (
    <aside class="help" aria-label="help" tabIndex={0}>
      <h3>Keys</h3>
      {list(keys)}
      <h3>Colours of ProfTime</h3>
      <Legend sched={sched} faults={faults} level={null} backends={[]} />
      <p class="dim">
        Matmuls that follow each other have different shades of blue. Where spans are narrower than a pixel,
        heights are shares of its time.
      </p>
      <h3>Glossary</h3>
      {list(words)}
      <Licenses />
      <p class="dim">The address holds view and selection: it can be kept and passed on with the file.</p>
    </aside>
  )
}

/** The licences of what is bundled with the page, which ask to come along. */
function Licenses() {
  const text = (document.getElementById('licenses') as HTMLTemplateElement | null)?.content.textContent
  return (
    <details class="licenses">
      <summary>licences of what is inside this page</summary>
      <pre>{text}</pre>
    </details>
  )
}
