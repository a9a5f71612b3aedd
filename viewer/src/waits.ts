// The waits of each thread in time order, and how its time splits into kinds of time. Pure functions over
// columns.

import { lowerBound } from './aggregate.ts';
import type { Model } from './model.ts';
import type { SampleTable } from './payload.ts';
import type { Range } from './state.ts';

/** The code of `Subject` for waits. */
export const OF_WAIT = 3;
/** The kind of time in which a thread runs: the first one. */
export const RUNNING = 0;

/** The waits of thread T are the rows `first[T] .. first[T + 1]`, one after the other. */
export interface Waits {
  table: SampleTable;
  first: Uint32Array;
  begin: Float64Array;
  end: Float64Array;
  /** A row of `timeKinds`. */
  kind: Uint8Array;
  /** Its row in `table`. */
  row: Uint32Array;
  /** Thread → its start and end. */
  start: Float64Array;
  stop: Float64Array;
}

const known = new WeakMap<Model, { waits: Waits | undefined }>();

/** The waits of a profile; undefined when they were not recorded. */
export function waitsOf(model: Model): Waits | undefined {
  let found = known.get(model);
  if (!found) known.set(model, found = { waits: findWaits(model) });
  return found.waits;
}

/** The row of the wait metric with reasons; -1 when there is none. */
export const waitMetric = ({ profile }: Model): number =>
  profile.samples.findIndex((samples, metric) => profile.metrics.of[metric] === OF_WAIT && samples.reason !== undefined);

function findWaits(model: Model): Waits | undefined {
  const { profile } = model, metric = waitMetric(model);
  if (metric < 0 || !model.timed || !profile.threads.count) return undefined;
  const table = profile.samples[metric]!, count = table.time.length, threads = profile.threads.count;
  const first = new Uint32Array(threads + 1);
  for (let i = 0; i < count; i++) first[table.thread[i]! + 1]!++;
  for (let thread = 0; thread < threads; thread++) first[thread + 1]! += first[thread]!;
  const next = first.slice();
  const waits: Waits = {
    table, first, begin: new Float64Array(count), end: new Float64Array(count), kind: new Uint8Array(count), row: new Uint32Array(count),
    start: profile.threads.start.slice(), stop: profile.threads.end.map(end => (Number.isNaN(end) ? model.duration : end)),
  };
  for (let i = 0; i < count; i++) {
    const thread = table.thread[i]!, at = next[thread]!++, end = table.time[i]!, code = table.reason![i]!;
    // Where a recorder could not tell two waits apart, the later one starts at the end of the other.
    const before = at > first[thread]! ? waits.end[at - 1]! : -Infinity;
    waits.begin[at] = Math.min(end, Math.max(before, end - table.value[i]!));
    waits.end[at] = end;
    waits.kind[at] = code ? profile.reasons[code - 1]!.kind : RUNNING;
    waits.row[at] = i;
    waits.start[thread] = Math.min(waits.start[thread]!, waits.begin[at]!);
    waits.stop[thread] = Math.max(waits.stop[thread]!, end);
  }
  return waits;
}

/**
 * Adds a stretch of time to bins: fractions for the bins at its ends, steps for the whole ones between.
 * `sign` is 1 or -1.
 */
function addStretch(bins: Float64Array, steps: Float64Array, base: number, stepBase: number, low: number, high: number, count: number, sign: number): void {
  if (high <= 0 || low >= count || !(high > low)) return;
  if (low < 0) low = 0;
  if (high > count) high = count;
  const a = Math.floor(low), b = Math.min(count - 1, Math.floor(high));
  if (a === b) {
    bins[base + a]! += sign * (high - low);
    return;
  }
  bins[base + a]! += sign * (a + 1 - low);
  bins[base + b]! += sign * (high - b);
  if (b > a + 1) {
    steps[stepBase + a + 1]! += sign;
    steps[stepBase + b]! -= sign;
  }
}

/**
 * How the time of some threads splits into kinds, per bin: `bins[kind * count + bin]`, where 1 is one thread
 * for all of the bin. Each wait has its share, however many are in a bin.
 */
export function kindShares(waits: Waits, threads: Iterable<number>, kinds: number, [from, to]: Range, count: number): Float64Array {
  const bins = new Float64Array(kinds * count), steps = new Float64Array(kinds * (count + 1));
  const scale = count / (to - from);
  for (const thread of threads) {
    addStretch(bins, steps, 0, 0, (waits.start[thread]! - from) * scale, (waits.stop[thread]! - from) * scale, count, 1);
    const last = waits.first[thread + 1]!;
    for (let at = firstEndingAfter(waits, thread, from); at < last; at++) {
      const low = (waits.begin[at]! - from) * scale, high = (waits.end[at]! - from) * scale;
      if (low >= count) break;
      const kind = waits.kind[at]!;
      if (kind === RUNNING) continue;
      addStretch(bins, steps, kind * count, kind * (count + 1), low, high, count, 1);
      addStretch(bins, steps, 0, 0, low, high, count, -1);
    }
  }
  for (let kind = 0; kind < kinds; kind++) {
    let level = 0;
    for (let bin = 0; bin < count; bin++) {
      level += steps[kind * (count + 1) + bin]!;
      const at = kind * count + bin, sum = bins[at]! + level;
      // Rounding errors of fractions count as 0.
      bins[at] = sum > 1e-9 ? sum : 0;
    }
  }
  return bins;
}

/** Between one nanosecond and the next. */
const HALF = 0.5;

/** The first wait of a thread that ends after a time; `first[thread + 1]` when there is none. */
export function firstEndingAfter({ first, end }: Waits, thread: number, time: number): number {
  const from = first[thread]!;
  return from + lowerBound(end.subarray(from, first[thread + 1]!), time + HALF);
}

/** A stretch of a thread's time; `wait` is a row of the waits, or -1 while it ran. */
export interface Stretch { wait: number; kind: number; begin: number; end: number }

/** What a thread does at a time; undefined before its start and after its end. */
export function stretchAt(waits: Waits, thread: number, time: number): Stretch | undefined {
  if (time < waits.start[thread]! || time > waits.stop[thread]!) return undefined;
  const at = firstEndingAfter(waits, thread, time), isLast = at === waits.first[thread + 1]!;
  if (!isLast && waits.begin[at]! <= time) return { wait: at, kind: waits.kind[at]!, begin: waits.begin[at]!, end: waits.end[at]! };
  return {
    wait: -1, kind: RUNNING, begin: at > waits.first[thread]! ? waits.end[at - 1]! : waits.start[thread]!, end: isLast ? waits.stop[thread]! : waits.begin[at]!,
  };
}

/** The number of waits of a thread between two times. */
export function waitsBetween(waits: Waits, thread: number, from: number, to: number): number {
  const first = firstEndingAfter(waits, thread, from);
  return lowerBound(waits.begin.subarray(first, waits.first[thread + 1]!), to);
}

/** The reason of a wait: `lock`, `file`. */
export const reasonWord = ({ profile }: Model, waits: Waits, wait: number): string =>
  profile.reasons[waits.table.reason![waits.row[wait]!]! - 1]?.word ?? '';
