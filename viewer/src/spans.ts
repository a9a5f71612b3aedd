// Spans as time windows without overlaps, and the weight of the samples inside them.

import { lowerBound } from './bounds.ts';
import { NONE, type Profile, type SampleTable } from './payload.ts';

/** A span without a thread (`NONE`) includes the samples of every thread. */
export type SpanTable = Pick<Profile['spans'], 'name' | 'thread' | 'start' | 'end'>;

/** A half-open time range on one thread, or on all with `NONE`. */
export interface Window {
  readonly thread: number;
  readonly start: number;
  readonly end: number;
}

/** Samples of one metric, sorted by time. */
export type SampleTimes = Pick<SampleTable, 'time' | 'thread' | 'value'>;

/** The times of some spans. One without an end never ends. */
export function windowsOf(spans: SpanTable, rows: Iterable<number>): Window[] {
  return Array.from(rows, span => ({ thread: spans.thread[span]!, start: spans.start[span]!, end: Number.isNaN(spans.end[span]!) ? Infinity : spans.end[span]! }));
}

/** The same time without overlaps: no sample is in two windows. Sorted by thread, then start. */
export function merged(windows: readonly Window[]): Window[] {
  const everywhere = join(windows.filter(window => window.thread === NONE));
  const bound = join(windows.filter(window => window.thread !== NONE));
  if (everywhere.length === 0 || bound.length === 0) return [...bound, ...everywhere];
  return [...bound.flatMap(window => without(window, everywhere)), ...everywhere];
}

function join(windows: readonly Window[]): Window[] {
  const sorted = [...windows].sort((a, b) => a.thread - b.thread || a.start - b.start);
  const out: { thread: number; start: number; end: number }[] = [];
  for (const window of sorted) {
    const last = out[out.length - 1];
    if (last !== undefined && last.thread === window.thread && window.start <= last.end) {
      last.end = Math.max(last.end, window.end);
    } else {
      out.push({ ...window });
    }
  }
  return out;
}

/** The parts of a window outside the others, which are sorted and do not overlap. */
function without(window: Window, others: readonly Window[]): Window[] {
  const out: Window[] = [];
  let start = window.start;
  for (let at = lowerBound(others.length, i => others[i]!.end <= start); at < others.length; at++) {
    const other = others[at]!;
    if (other.start >= window.end) break;
    if (other.start > start) out.push({ ...window, start, end: other.start });
    start = Math.max(start, other.end);
  }
  if (start < window.end) out.push({ ...window, start });
  return out;
}

/** Prefix sums of values per thread, so that the value inside a window takes two lookups. */
export class ThreadSums {
  private readonly threads = new Map<number, { times: Float64Array; sums: Float64Array }>();

  constructor(samples: SampleTimes) {
    const counts = new Map<number, number>();
    for (const thread of samples.thread) counts.set(thread, (counts.get(thread) ?? 0) + 1);
    const filled = new Map<number, number>();
    for (const [thread, count] of [...counts, [NONE, samples.time.length] as const]) {
      this.threads.set(thread, { times: new Float64Array(count), sums: new Float64Array(count + 1) });
      filled.set(thread, 0);
    }
    for (let sample = 0; sample < samples.time.length; sample++) {
      for (const thread of [samples.thread[sample]!, NONE]) {
        const to = this.threads.get(thread)!;
        const at = filled.get(thread)!;
        to.times[at] = samples.time[sample]!;
        to.sums[at + 1] = to.sums[at]! + samples.value[sample]!;
        filled.set(thread, at + 1);
      }
    }
  }

  within(window: Window): number {
    const thread = this.threads.get(window.thread);
    if (thread === undefined) return 0;
    const first = lowerBound(thread.times.length, at => thread.times[at]! < window.start);
    const after = lowerBound(thread.times.length, at => thread.times[at]! < window.end);
    return thread.sums[Math.max(first, after)]! - thread.sums[first]!;
  }
}
