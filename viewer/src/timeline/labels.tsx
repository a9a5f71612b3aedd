// The names next to the tracks, as real elements: only those in view.

import { amount, count, share } from '../format.ts';
import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import type { State } from '../state.ts';
import { counterRows } from './draw.ts';
import { timesInWords } from './legend.tsx';
import type { TimeCache } from './states.ts';
import { isChosen } from './threads.ts';
import { groupName, spansName, type Stop, type Track } from './tracks.ts';

/** In pixels; a phone leaves most of its width to the tracks. */
export const labelWidth = (): number => (innerWidth < 600 ? 112 : 212);

interface LabelsProps {
  model: Model;
  tracks: Track[];
  state: State;
  /** The selectable tracks, in order. */
  stops: readonly Stop[];
  active: Stop | undefined;
  select: (stop: Stop, how: { ctrlKey: boolean; metaKey: boolean; shiftKey: boolean }) => void;
  /** The weight of each thread in the selected time. */
  values: Float64Array;
  /** Thread states, where waits were recorded. */
  times: TimeCache | undefined;
  /** Collapses or expands a track by its name. */
  fold: (name: string) => void;
}

/** The id of the element of a process, group or thread. */
export const stopId = (stop: Stop): string => (stop.kind === 'process' ? `process-${stop.process}` : stop.kind === 'group' ? `group-${stop.threads[0]}` : `thread-${stop.thread}`);

export function Labels({ model, tracks, state, stops, active, select, values, times, fold }: LabelsProps) {
  const unit = model.unit(state.metric), whole = sum(values);
  const option = (stop: Stop, chosen: boolean) => ({
    id: stopId(stop), role: 'option', 'aria-selected': chosen, 'aria-setsize': stops.length, 'aria-posinset': stops.indexOf(stop) + 1,
    onClick: (event: MouseEvent) => select(stop, event),
  } as const);
  return <>
    {tracks.map(track => {
      const style = { top: `${track.y}px`, height: `${track.height}px`, width: `${labelWidth()}px` };
      if (track.kind === 'parallel') {
        return <div key="parallel" class="track" style={style} role="presentation" title="How many threads are running, queued for a CPU or blocked at the same time. Idle threads are not counted">
          <span class="track-name">Concurrent threads</span><span class="track-value">{times && `≤ ${+times.parallel.top.toFixed(1)}`}</span></div>;
      }
      if (track.kind === 'cpus') {
        const moved = times?.runs?.migrations.reduce((sum, one) => sum + one, 0) ?? 0;
        return <div key="cpus" class="track process" style={style} role="presentation">
          <Twisty isFolded={track.isFolded} can about={`${track.isFolded ? 'Expand' : 'Collapse'} the CPU lanes`} onClick={() => fold('cpus')} />
          <span class="track-name">{track.count} CPU{track.count === 1 ? '' : 's'}</span><span class="track-value">{count(moved)} migration{moved === 1 ? '' : 's'}</span></div>;
      }
      if (track.kind === 'cpu') {
        return <div key={`cpu${track.cpu}`} class="track cpu" style={style} role="presentation"><span class="track-name">CPU {times?.runs?.cpus[track.cpu]}</span>
          <span class="track-value">{times && share(times.cpu(track.cpu).busy, 1)}</span></div>;
      }
      if (track.kind === 'counter') {
        const name = model.counterName(track.counter);
        return <div key={`c${track.counter}`} class="track" style={style} role="presentation"><span class="track-name" title={name.slice(0, 300)}>{name.slice(0, 200)}</span>
          <span class="track-value">{highest(model, track.counter)}</span></div>;
      }
      if (track.kind === 'spans') {
        const { thread, isFolded, lanes, spans } = track, name = spansName(thread);
        return <div key={name} class={`track${thread === NONE ? '' : ' inside'}`} style={style} role="presentation">
          <Twisty isFolded={isFolded} can={lanes > 1} about={`${isFolded ? 'Expand' : 'Collapse'} the ${count(lanes)} lanes`} onClick={() => fold(name)} />
          <span class="track-name">{thread === NONE ? 'Spans' : 'spans'}</span><span class="track-value">{count(spans.length)}</span></div>;
      }
      if (track.kind === 'process') {
        const { process, isFolded } = track;
        const indent = { ...style, paddingLeft: `${12 + indentOf(track)}px` };
        const about = stops.includes(track) ? { ...option(track, isChosen(track, state.threads)), title: 'Select the threads of this process' } : { role: 'presentation' as const };
        return <div key={`p${process}`} class={`track process${active === track ? ' active' : ''}`} style={indent} {...about}>
          <Twisty isFolded={isFolded} can about={`${isFolded ? 'Expand' : 'Collapse'} its threads`} onClick={() => fold(`p${process}`)} />
          <span class="track-name">{model.processName(process)}</span><span class="track-value">{model.profile.processes.pid[process]}</span></div>;
      }
      if (track.kind === 'group') {
        const { isFolded, threads, name } = track, value = threads.reduce((sum, thread) => sum + values[thread]!, 0);
        return <div key={groupName(threads)} class={`track thread${active === track ? ' active' : ''}`} style={{ ...style, paddingLeft: `${12 + indentOf(track)}px` }} {...option(track, isChosen(track, state.threads))}
          title={`${count(threads.length)} × ${name.slice(0, 300)}: ${amount(value, unit)}. Click selects them all.`}>
          <Twisty isFolded={isFolded} can about={`${isFolded ? 'Show' : 'Hide'} each of them`} onClick={() => fold(groupName(threads))} />
          <span class="track-name">{name.slice(0, 200)} <span class="quiet">× {count(threads.length)}</span></span><span class="track-value">{share(value, whole)}</span></div>;
      }
      const { thread } = track;
      const about = times && track.hasStates ? ` ${timesInWords(model, times.total(thread))}.` : '';
      const chosen = !state.threads || state.threads.includes(thread), name = track.process === undefined ? model.threadName(thread) : processWithThread(model, track.process, thread);
      return <div key={`t${thread}`} class={`track thread${active === track ? ' active' : ''}${chosen ? '' : ' out'}${track.process === undefined ? '' : ' alone'}`} style={{ ...style, paddingLeft: `${(track.process === undefined ? 22 : 12) + indentOf(track)}px` }} {...option(track, !!state.threads && chosen)}
        title={`${name.slice(0, 300)} (${model.profile.threads.tid[thread]}): ${amount(values[thread]!, unit)}.${about} Click selects, Ctrl adds, Shift extends.`}>
        <span class="track-name">{name.slice(0, 200)}</span><span class="track-value">{share(values[thread]!, whole)}</span></div>;
    })}
  </>;
}

/** Started processes are indented, up to a limit that leaves room for names. */
const indentOf = ({ level }: { level: number }): number => 8 * Math.min(5, level);

/** `cc1 4711`, for a process with one thread; the thread's name only where it differs. */
function processWithThread(model: Model, process: number, thread: number): string {
  const name = model.processName(process), own = model.text(model.profile.threads.name[thread]!);
  return `${name} ${model.profile.processes.pid[process]}${own && own !== name ? ` · ${own}` : ''}`;
}

const sum = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0);

/** Collapses and expands with the pointer; the list of tracks above does it with the keyboard. */
function Twisty({ isFolded, can, about, onClick }: { isFolded: boolean; can: boolean; about: string; onClick: () => void }) {
  if (!can) return null;
  return <span class="track-twisty" aria-hidden="true" title={about} onClick={event => { event.stopPropagation(); onClick(); }}>{isFolded ? '▸' : '▾'}</span>;
}

/** The highest value of a counter. */
function highest(model: Model, counter: number): string {
  const [first, last] = counterRows(model, counter);
  const isHeap = model.peakOf(counter) !== undefined;
  // The peak of one process is known exactly, the counter only at some points in time.
  let most = isHeap && model.profile.processes.count === 1 ? model.profile.heapFacts!.peakBytes : -Infinity;
  for (let i = first; i < last; i++) most = Math.max(most, model.profile.counterValues.value[i]!);
  const word = isHeap ? 'peak' : '≤';
  return most > -Infinity ? `${word} ${amount(most, model.profile.counters.unit[counter]!)}` : '';
}
