// The meaning of the lane colours, and how long the selected threads were in each kind of time. The same per
// thread as a table, for screen readers.

import { useMemo } from 'preact/hooks';
import { count, duration } from '../format.ts';
import type { Model } from '../model.ts';
import { runsOf } from '../runs.ts';
import type { Range } from '../state.ts';
import { timeKinds, timeSwatch } from '../timekinds.ts';
import { kindShares, type Waits } from '../waits.ts';
import type { TimeCache } from './states.ts';

/** The maximum number of listed threads. */
const MOST = 200;

/** `times`: the cached sums of the visible range. */
interface LegendProps { model: Model; waits: Waits; times: TimeCache | undefined; range: Range; threads: readonly number[] | undefined; dark: boolean }

/** How the threads' time in a range splits into kinds, in nanoseconds. */
export const kindTimes = (model: Model, waits: Waits, threads: Iterable<number>, range: Range): Float64Array =>
  kindShares(waits, threads, model.profile.timeKinds.length, range, 1).map(share => share * (range[1] - range[0]));

/** The same for the visible range, where the lanes have the sums already. */
function shownTimes(times: TimeCache, threads: Iterable<number>): Float64Array {
  const sums = new Float64Array(times.kinds);
  for (const thread of threads) times.total(thread).forEach((value, kind) => { sums[kind]! += value; });
  return sums;
}

/** `running 1.20 s, queued for a CPU 12 ms`: the kinds that occur. */
export const timesInWords = (model: Model, times: Float64Array): string =>
  timeKinds(model).filter(({ kind }) => times[kind]! > 0).map(({ kind, word }) => `${word} ${duration(times[kind]!)}`).join(', ');

export function TimeLegend({ model, waits, times: shown, range, threads, dark }: LegendProps) {
  const [from, to] = range;
  const times = useMemo(() => {
    const of = threads ?? model.profile.threads.tid.keys();
    return shown?.range[0] === from && shown.range[1] === to ? shownTimes(shown, of) : kindTimes(model, waits, of, range);
  }, [waits, shown, from, to, threads]);
  return (
    <ul class="legend time-legend" aria-label="Thread states">
      {timeKinds(model).filter(({ kind }) => times[kind]! > 0).map(({ kind, word }) =>
        <li key={kind}><i style={{ background: timeSwatch(kind, dark) }} />{word} <span>{duration(times[kind]!)}</span></li>)}
    </ul>
  );
}

export function TimeTable({ model, shown, order }: { model: Model; shown: TimeCache; order: readonly number[] }) {
  return useMemo(() => {
    const kinds = timeKinds(model), runs = runsOf(model);
    return (
      <div class="hidden"><table>
        <caption>Thread states</caption>
        <thead><tr><th>Thread</th>{kinds.map(({ kind, word }) => <th key={kind}>{word}</th>)}{runs && <th>migrations</th>}</tr></thead>
        <tbody>{order.slice(0, MOST).map(thread => {
          const times = shown.total(thread);
          return <tr key={thread}><td>{model.threadName(thread).slice(0, 200)}</td>{kinds.map(({ kind }) => <td key={kind}>{duration(times[kind]!)}</td>)}
            {runs && <td>{count(runs.migrations[thread]!)}</td>}</tr>;
        })}</tbody>
      </table></div>
    );
  }, [shown, order]);
}
