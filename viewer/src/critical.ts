// The critical path: what delayed the end of the selected time, followed backwards. Same result as `whyslow
// report FILE critical-path`.

import { lowerBound } from './aggregate.ts';
import { timeRange, type State } from './state.ts';
import { NONE } from './payload.ts';
import type { Model } from './model.ts';
import { placeOfStack, waitsOf, type Waits } from './waits.ts';

/** The code of `Subject` for CPU time. */
const OF_CPU = 1;

/** What a thread did: it ran, or waited for a reason (a row of `reasons`). */
export const RAN = -1;

/** A stretch of the path, with the stack if it is a wait. */
export interface PathStep { thread: number; did: number; start: number; end: number; stack: number }

/** The part of the path at one line. */
export interface PathRow { did: number; thread: number; place: string; total: number }

/** A part of the path on one thread. */
export interface PathPart { thread: number; start: number; end: number; ran: number }

export interface CriticalPath { steps: PathStep[]; rows: PathRow[]; parts: PathPart[]; total: number; ran: number }

/** The reason of a thread that is queued for a CPU. Its stack is arbitrary and not shown. */
export const CPU_REASON = 'cpu';

/**
 * The path to the end of the selected time on the first of the selected threads; undefined without recorded
 * waits.
 */
export function criticalPath(model: Model, state: State): CriticalPath | undefined {
  const waits = waitsOf(model);
  if (!waits) return undefined;
  const [from, to] = timeRange(state) ?? [0, model.duration];
  const last = state.threads?.[0] ?? 0;
  const steps = backFrom(model, waits, last, Math.min(to, waits.stop[last] ?? 0), from).reverse();
  const length = ({ start, end }: { start: number; end: number }): number => end - start;
  return {
    steps, rows: rowsOf(model, steps), parts: partsOf(steps),
    total: steps.reduce((sum, step) => sum + length(step), 0),
    ran: steps.reduce((sum, step) => sum + (step.did === RAN ? length(step) : 0), 0),
  };
}

/** Whether the waker of any wait is known. */
export const knowsWakers = (model: Model): boolean => waitsOf(model)?.table.details?.waker.some(waker => waker !== NONE) ?? false;

/** The last wait that a thread started before a time: its index in the lists of `waits`; -1 for none. */
function lastBefore({ first, begin }: Waits, thread: number, time: number): number {
  let low = first[thread]!, high = first[thread + 1]!;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (begin[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low > first[thread]! ? low - 1 : -1;
}

function backFrom(model: Model, waits: Waits, thread: number, time: number, from: number): PathStep[] {
  const steps: PathStep[] = [], { table, begin, end, row, start } = waits;
  const add = (did: number, since: number, until: number, stack: number): void => {
    const begins = Math.max(since, from), before = steps.at(-1);
    if (until <= begins) return;
    if (before && before.thread === thread && before.did === did && before.stack === stack && before.start === until) before.start = begins;
    else steps.push({ thread, did, start: begins, end: until, stack });
  };
  const runsAt = (other: number): boolean => {
    const at = lastBefore(waits, other, time);
    return start[other]! < time && (at < 0 || end[at]! < time);
  };
  while (time > from) {
    const at = lastBefore(waits, thread, time);
    if (at < 0) {
      add(RAN, start[thread]!, time, NONE);
      const starter = starterOf(model, thread);
      if (starter === NONE || start[thread]! <= from) break;
      time = Math.min(time, start[thread]!);
      thread = starter;
    } else if (end[at]! < time) {
      add(RAN, end[at]!, time, NONE);
      time = end[at]!;
    } else {
      const waker = end[at] === time ? table.details?.waker[row[at]!] ?? NONE : NONE;
      if (waker !== NONE && waker !== thread && runsAt(waker)) {
        thread = waker;
        continue;
      }
      const reason = table.reason![row[at]!]! - 1, queued = model.profile.reasons[reason]?.word === CPU_REASON;
      add(reason, begin[at]!, time, queued ? NONE : table.stack[row[at]!]!);
      // A wait of length zero must not stop the walk.
      time = Math.min(begin[at]!, time - 1);
    }
  }
  return steps;
}

/** Stands in for the thread that started this one: the first thread of its process, or of the parent process. */
function starterOf({ profile: { threads, processes } }: Model, thread: number): number {
  const process = threads.process[thread]!;
  const wanted = threads.tid[thread] === processes.pid[process] ? processes.parent[process]! : process;
  if (wanted === NONE) return NONE;
  const first = threads.process.findIndex((of, at) => of === wanted && threads.tid[at] === processes.pid[wanted]);
  return first < 0 || first === thread ? NONE : first;
}

/** Sums a path. Where threads ran, their CPU samples share the time. */
function rowsOf(model: Model, steps: readonly PathStep[]): PathRow[] {
  const sums = new Map<string, PathRow>(), places = new Map<number, string>();
  const placeOf = (stack: number): string => {
    let place = places.get(stack);
    if (place === undefined) places.set(stack, place = stack === NONE ? '' : placeOfStack(model, stack));
    return place;
  };
  const add = (did: number, thread: number, place: string, total: number): void => {
    const key = `${did} ${thread} ${place}`, known = sums.get(key);
    if (known) known.total += total;
    else sums.set(key, { did, thread, place, total });
  };
  const samples = model.profile.samples[Math.max(0, model.profile.metrics.of.indexOf(OF_CPU))]!;
  const running = new Map<number, { ran: number; sampled: Map<string, number>; all: number }>();
  for (const { thread, did, start, end, stack } of steps) {
    if (did !== RAN) {
      add(did, thread, placeOf(stack), end - start);
      continue;
    }
    let of = running.get(thread);
    if (!of) running.set(thread, of = { ran: 0, sampled: new Map(), all: 0 });
    of.ran += end - start;
    // A sample represents the time before it.
    for (let row = lowerBound(samples.time, start + 1), last = lowerBound(samples.time, end + 1); row < last; row++) {
      if (samples.thread[row] !== thread) continue;
      const place = placeOf(samples.stack[row]!);
      of.sampled.set(place, (of.sampled.get(place) ?? 0) + samples.value[row]!);
      of.all += samples.value[row]!;
    }
  }
  for (const [thread, { ran, sampled, all }] of running) {
    if (!all) add(RAN, thread, '', ran);
    for (const [place, value] of sampled) add(RAN, thread, place, ran * value / all);
  }
  return [...sums.values()].sort((a, b) => b.total - a.total || a.thread - b.thread);
}

function partsOf(steps: readonly PathStep[]): PathPart[] {
  const parts: PathPart[] = [];
  for (const { thread, did, start, end } of steps) {
    const last = parts.at(-1), ran = did === RAN ? end - start : 0;
    if (last?.thread === thread) {
      last.end = end;
      last.ran += ran;
    } else parts.push({ thread, start, end, ran });
  }
  return parts;
}
