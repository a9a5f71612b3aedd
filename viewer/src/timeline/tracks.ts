// The rows of the timeline from top to bottom: counters, spans, then each process with its threads.

import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import { packLanes } from './lanes.ts';

export const HEIGHT = { counter: 30, lane: 12, process: 21, thread: 26 } as const;

export type Track = { y: number; height: number } & (
  | { kind: 'counter'; counter: number }
  | { kind: 'spans' }
  | { kind: 'process'; process: number; threads: number[] }
  | { kind: 'thread'; thread: number });

export type Stop = Extract<Track, { kind: 'process' | 'thread' }>;

export interface Tracks {
  list: Track[];
  height: number;
  /** Threads from top to bottom. */
  threads: number[];
  /** What can be chosen, from top to bottom: threads, and processes where there are several. */
  stops: Stop[];
  /** Span → its lane, when spans are shown. */
  lanes: Uint8Array;
}

/** Threads of a process are ordered by weight: the busiest first. */
export function tracksOf(model: Model, weight: Float64Array): Tracks {
  const { counters, spans, processes, threads } = model.profile;
  const list: Track[] = [];
  let y = 0;
  const add = (height: number): { y: number; height: number } => ({ y: (y += height) - height, height });
  for (let counter = 0; counter < counters.count; counter++) list.push({ kind: 'counter', counter, ...add(HEIGHT.counter) });
  const { lanes, count } = packLanes(spans.start, spans.end);
  if (spans.count) list.push({ kind: 'spans', ...add(count * HEIGHT.lane + 8) });

  const members = new Map<number, number[]>();
  for (let thread = 0; thread < threads.count; thread++) {
    const process = threads.process[thread]!;
    const of = members.get(process);
    if (of) of.push(thread);
    else members.set(process, [thread]);
  }
  const heavy = (list: number[]): number => list.reduce((sum, thread) => sum + weight[thread]!, 0);
  const order = [...members].sort((a, b) => heavy(b[1]) - heavy(a[1]) || a[0] - b[0]);
  const inOrder: number[] = [];
  for (const [process, of] of order) {
    of.sort((a, b) => weight[b]! - weight[a]! || a - b);
    if (process !== NONE || processes.count) list.push({ kind: 'process', process, threads: of, ...add(HEIGHT.process) });
    for (const thread of of) {
      list.push({ kind: 'thread', thread, ...add(HEIGHT.thread) });
      inOrder.push(thread);
    }
  }
  const stops = list.filter((track): track is Stop => track.kind === 'thread' || (track.kind === 'process' && order.length > 1));
  return { list, height: y, threads: inOrder, stops, lanes };
}

/** The tracks between two heights. */
export function tracksBetween(list: readonly Track[], from: number, to: number): Track[] {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (list[middle]!.y + list[middle]!.height <= from) low = middle + 1;
    else high = middle;
  }
  const out: Track[] = [];
  while (low < list.length && list[low]!.y < to) out.push(list[low++]!);
  return out;
}
