// What the colours of the lanes mean, and how long the selected threads were in each kind of time; the same per thread as a table for those who
// do not see the lanes.

import { useMemo } from 'preact/hooks';
import { count, duration } from '../format.ts';
import type { Model } from '../model.ts';
import { runsOf } from '../runs.ts';
import type { Range } from '../state.ts';
import { timeKinds, timeSwatch } from '../timekinds.ts';
import { kindShares, type Waits } from '../waits.ts';

/** More threads are not listed. */
const MOST = 200;

interface LegendProps { model: Model; waits: Waits; range: Range; threads: readonly number[] | undefined; dark: boolean }

/** What the threads' time in a range is made of, in nanoseconds per kind. */
export const kindTimes = (model: Model, waits: Waits, threads: Iterable<number>, range: Range): Float64Array =>
  kindShares(waits, threads, model.profile.timeKinds.length, range, 1).map(share => share * (range[1] - range[0]));

/** `ran 1.20 s, waiting for a CPU 12 ms`: the kinds that there are. */
export const timesInWords = (model: Model, times: Float64Array): string =>
  timeKinds(model).filter(({ kind }) => times[kind]! > 0).map(({ kind, word }) => `${word} ${duration(times[kind]!)}`).join(', ');

export function TimeLegend({ model, waits, range, threads, dark }: LegendProps) {
  const [from, to] = range;
  const times = useMemo(() => kindTimes(model, waits, threads ?? model.profile.threads.tid.keys(), range), [waits, from, to, threads]);
  return (
    <ul class="legend time-legend" aria-label="Kinds of time">
      {timeKinds(model).filter(({ kind }) => times[kind]! > 0).map(({ kind, word }) =>
        <li key={kind}><i style={{ background: timeSwatch(kind, dark) }} />{word} <span>{duration(times[kind]!)}</span></li>)}
    </ul>
  );
}

export function TimeTable({ model, waits, range, order }: { model: Model; waits: Waits; range: Range; order: readonly number[] }) {
  const [from, to] = range;
  return useMemo(() => {
    const kinds = timeKinds(model), runs = runsOf(model);
    return (
      <div class="hidden"><table>
        <caption>Kinds of time of threads</caption>
        <thead><tr><th>Thread</th>{kinds.map(({ kind, word }) => <th key={kind}>{word}</th>)}{runs && <th>migrations</th>}</tr></thead>
        <tbody>{order.slice(0, MOST).map(thread => {
          const times = kindTimes(model, waits, [thread], range);
          return <tr key={thread}><td>{model.threadName(thread).slice(0, 200)}</td>{kinds.map(({ kind }) => <td key={kind}>{duration(times[kind]!)}</td>)}
            {runs && <td>{count(runs.migrations[thread]!)}</td>}</tr>;
        })}</tbody>
      </table></div>
    );
  }, [waits, from, to, order]);
}
