// The meaning of the colours and their share of the samples. A click dims everything else.

import { useMemo } from 'preact/hooks';
import { selfValues, whole } from '../derive.ts';
import { amount, share } from '../format.ts';
import type { Model } from '../model.ts';
import { requestedByKind } from '../heap.ts';
import { colourGroup, functionColour, kindColour, KINDS, nthColour } from '../palette.ts';
import type { Colour, State } from '../state.ts';
import { timeColour } from '../timekinds.ts';
import type { ThreadShares } from './threads.ts';
import { timesOf, type TimeShares } from './times.ts';

const MOST = 7;

interface LegendProps { model: Model; state: State; colour: Colour; dark: boolean; threads: ThreadShares | undefined; times: TimeShares | undefined; group: string | undefined; setGroup: (group: string | undefined) => void }

export function Legend({ model, state, colour: mode, dark, threads, times, group, setGroup }: LegendProps) {
  const self = selfValues(model, state);
  const all = whole(model, state);
  const isHeap = mode === 'kind' && model.isHeapMetric(state.metric);
  const groups = useMemo(() => {
    const sums = new Map<string, { value: number; fn: number }>();
    for (let fn = 0; fn < self.length; fn++) {
      if (!self[fn]) continue;
      const key = colourGroup(model, fn, mode);
      const sum = sums.get(key);
      if (sum) sum.value += self[fn]!;
      else sums.set(key, { value: self[fn]!, fn });
    }
    const list = [...sums].map(([key, { value, fn }]) => ({ key, value, colour: functionColour(model, fn, mode, dark) }));
    if (isHeap) {
      // Every allocation happens inside the allocator: count it for the code that requested it.
      const requested = requestedByKind(model, state);
      return KINDS.filter(({ code }) => requested[code]! > 0).map(({ code, word }) => ({ key: word, value: requested[code]!, colour: kindColour(code, dark) }));
    }
    if (mode === 'kind') {
      const order = KINDS.map(kind => kind.word);
      const place = ({ key }: { key: string }): number => (order.includes(key) ? order.indexOf(key) : order.length);
      return list.sort((a, b) => place(a) - place(b));
    }
    return list.sort((a, b) => b.value - a.value).slice(0, MOST);
  }, [self, mode, dark]);
  if (mode === 'function') return null;
  if (times) {
    return (
      <div class="legend" role="group" aria-label="Colours: thread states">
        {timesOf(model, times, 0).map(({ kind, word, value }) => (
          <button key={kind} type="button" aria-pressed={group === word} title={`${word}: ${amount(value, model.unit(state.metric))}, ${share(value, all)}`}
            onClick={() => setGroup(group === word ? undefined : word)}>
            <i style={{ background: timeColour(kind, dark) }} />{word} <span>{amount(value, model.unit(state.metric))}, {share(value, all)}</span>
          </button>
        ))}
      </div>
    );
  }
  if (threads) {
    const rest = all - threads.threads.reduce((sum, { value }) => sum + value, 0);
    return (
      <ul class="legend" aria-label="Colours: the thread with most of a frame’s samples">
        {threads.threads.map(({ thread, value }, at) => <li key={thread}><i style={{ background: nthColour(at, dark) }} />{model.threadName(thread).slice(0, 24)} <span>{share(value, all)}</span></li>)}
        {rest > all / 1e9 && <li><i style={{ background: nthColour(99, dark) }} />others <span>{share(rest, all)}</span></li>}
      </ul>
    );
  }
  return (
    <div class="legend" role="group" aria-label="Colours">
      {groups.map(({ key, value, colour }) => (
        <button key={key} type="button" aria-pressed={group === key} title={`${key || 'unknown'}: ${share(value, all)} ${isHeap ? 'requested by it' : 'of the samples'}`}
          onClick={() => setGroup(group === key ? undefined : key)}>
          <i style={{ background: colour }} />{(key || 'unknown').slice(0, 40)} <span>{share(value, all)}</span>
        </button>
      ))}
    </div>
  );
}

/** 1 for each function of the selected group; undefined when none is selected. */
export function useWanted(model: Model, mode: Colour, group: string | undefined): Uint8Array | undefined {
  return useMemo(() => {
    if (group === undefined || mode === 'time') return undefined;
    return new Uint8Array(model.functionCount).map((_, fn) => colourGroup(model, fn, mode) === group ? 1 : 0);
  }, [model, mode, group]);
}
