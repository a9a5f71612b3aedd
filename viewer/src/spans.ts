// Spans: the marks that a program makes itself, as a table, and which samples are inside of them.

import { lowerBound } from './bounds.ts';
import { NONE, type Profile, type SampleTable } from './payload.ts';

/** A span without a thread (`NONE`) has the samples of every thread inside. */
export type SpanTable = Pick<Profile['spans'], 'name' | 'thread' | 'start' | 'end'>;

/** A half-open range of time on one thread, or on all with `NONE`. */
export interface Window {
  readonly thread: number;
  readonly start: number;
  readonly end: number;
}

/** Samples of one metric, sorted by time. */
export type SampleTimes = Pick<SampleTable, 'time' | 'thread' | 'value'>;

export interface SpanName {
  readonly name: number;
  /** Rows of the span table, by start. */
  readonly spans: readonly number[];
  readonly total: number;
  readonly mean: number;
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
  /** Value of the samples inside at least one of the spans. */
  readonly inside: number;
}

/** One row per name, those that last longest first. */
export function spanNames(spans: SpanTable, samples: SampleTimes): SpanName[] {
  const rows = new Map<number, number[]>();
  for (let span = 0; span < spans.name.length; span++) {
    const of = rows.get(spans.name[span]!);
    if (of === undefined) rows.set(spans.name[span]!, [span]);
    else of.push(span);
  }
  const sums = new ThreadSums(samples);
  const names = [...rows].map(([name, of]) => {
    const lengths = Float64Array.from(of, span => length(spans, span)).sort();
    const total = lengths.reduce((sum, value) => sum + value, 0);
    const inside = merged(windowsOf(spans, of)).reduce((sum, window) => sum + sums.within(window), 0);
    return {
      name,
      spans: of,
      total,
      mean: total / of.length,
      p50: quantile(lengths, 0.5),
      p95: quantile(lengths, 0.95),
      max: lengths[lengths.length - 1]!,
      inside,
    };
  });
  return names.sort((a, b) => b.total - a.total || a.name - b.name);
}

/** How long a span is. */
export function length(spans: SpanTable, span: number): number {
  return Math.max(0, spans.end[span]! - spans.start[span]!);
}

/** The smallest length that at least `share` of the spans do not exceed. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export function windowsOf(spans: SpanTable, rows: Iterable<number>): Window[] {
  return Array.from(rows, span => ({ thread: spans.thread[span]!, start: spans.start[span]!, end: spans.end[span]! }));
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

/** What is left of a window outside of others, which are sorted and do not overlap. */
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

/** Sums of values per thread, so that the value inside a window is two look-ups. */
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

/** 1 for each sample that is inside at least one window. */
export function insideWindows(samples: Pick<SampleTimes, 'time' | 'thread'>, windows: readonly Window[]): Uint8Array {
  const inside = new Uint8Array(samples.time.length);
  const byThread = new Map<number, Window[]>();
  for (const window of merged(windows)) {
    const of = byThread.get(window.thread);
    if (of === undefined) byThread.set(window.thread, [window]);
    else of.push(window);
  }
  // Samples and windows are both sorted by time, so each thread's windows are gone through once.
  const next = new Map<number, number>();
  const isIn = (thread: number, time: number): boolean => {
    const of = byThread.get(thread);
    if (of === undefined) return false;
    let at = next.get(thread) ?? 0;
    while (at < of.length && of[at]!.end <= time) at++;
    next.set(thread, at);
    return at < of.length && of[at]!.start <= time;
  };
  for (let sample = 0; sample < samples.time.length; sample++) {
    const time = samples.time[sample]!;
    if (isIn(samples.thread[sample]!, time) || isIn(NONE, time)) inside[sample] = 1;
  }
  return inside;
}
