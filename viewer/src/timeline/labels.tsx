// The names beside the tracks, as real elements: only those in sight.

import { amount, count, share } from '../format.ts';
import type { Model } from '../model.ts';
import type { Dispatch } from '../panel.ts';
import type { State } from '../state.ts';
import type { ThreadSamples } from './activity.ts';
import { counterRows } from './draw.ts';
import type { Track } from './tracks.ts';

export const LABEL_WIDTH = 212;

interface LabelsProps {
  model: Model;
  tracks: Track[];
  state: State;
  /** All threads in the order of their tracks. */
  all: number[];
  active: number | undefined;
  select: (thread: number, how: { ctrlKey: boolean; metaKey: boolean; shiftKey: boolean }) => void;
  dispatch: Dispatch;
  samples: ThreadSamples;
}

export function Labels({ model, tracks, state, all, active, select, dispatch, samples }: LabelsProps) {
  const unit = model.unit(state.metric);
  return <>
    {tracks.map(track => {
      const style = { top: `${track.y}px`, height: `${track.height}px`, width: `${LABEL_WIDTH}px` };
      if (track.kind === 'counter') {
        const name = model.counterName(track.counter);
        return <div key={`c${track.counter}`} class="track" style={style} role="presentation"><span class="track-name" title={name.slice(0, 300)}>{name.slice(0, 200)}</span>
          <span class="track-value">{highest(model, track.counter)}</span></div>;
      }
      if (track.kind === 'spans') return <div key="spans" class="track" style={style} role="presentation"><span class="track-name">Spans</span><span class="track-value">{count(model.profile.spans.count)}</span></div>;
      if (track.kind === 'process') {
        const { process, threads } = track;
        const chosen = state.threads?.length === threads.length && threads.every(thread => state.threads?.includes(thread));
        return <div key={`p${process}`} class="track process" style={style} role="presentation">
          <button type="button" tabIndex={-1} title="Only the threads of this process" aria-pressed={chosen}
            onClick={() => dispatch({ threads: chosen || threads.length === all.length ? undefined : [...threads].sort((a, b) => a - b) })}>
            <span class="track-name">{model.processName(process)}</span><span class="track-value">{model.profile.processes.pid[process]}</span></button></div>;
      }
      const { thread } = track;
      const chosen = !state.threads || state.threads.includes(thread), name = model.threadName(thread);
      return <div key={`t${thread}`} id={`thread-${thread}`} class={`track thread${active === thread ? ' active' : ''}${chosen ? '' : ' out'}`} style={style} role="option"
        aria-selected={state.threads ? chosen : false} aria-setsize={all.length} aria-posinset={all.indexOf(thread) + 1}
        title={`${name.slice(0, 300)} (${model.profile.threads.tid[thread]}): ${amount(samples.total[thread]!, unit)}. Click selects, Ctrl adds, Shift selects up to here.`}
        onClick={event => select(thread, event)}>
        <span class="track-name">{name.slice(0, 200)}</span><span class="track-value">{share(samples.total[thread]!, sum(samples))}</span></div>;
    })}
  </>;
}

const sums = new WeakMap<ThreadSamples, number>();
function sum(samples: ThreadSamples): number {
  let value = sums.get(samples);
  if (value === undefined) sums.set(samples, value = samples.total.reduce((sum, value) => sum + value, 0));
  return value;
}

/** The highest value of a counter. */
function highest(model: Model, counter: number): string {
  const [first, last] = counterRows(model, counter);
  const isHeap = model.peakOf(counter) !== undefined;
  // The peak of one process is known exactly, the counter only at some moments.
  let most = isHeap && model.profile.processes.count === 1 ? model.profile.heapFacts!.peakBytes : -Infinity;
  for (let i = first; i < last; i++) most = Math.max(most, model.profile.counterValues.value[i]!);
  const word = isHeap ? 'peak' : '≤';
  return most > -Infinity ? `${word} ${amount(most, model.profile.counters.unit[counter]!)}` : '';
}
