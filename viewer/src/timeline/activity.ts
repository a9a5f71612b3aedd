// How busy each thread is over time, by kind of code. Pure functions over columns.

import { lowerBound } from '../aggregate.ts';
import { KIND, type Model } from '../model.ts';
import { NONE, type SampleTable } from '../payload.ts';
import { UNIT_NANOSECONDS } from '../format.ts';
import type { Range } from '../state.ts';

export const KIND_COUNT = 7;

/** The samples of each thread, in time order: rows `first[T] .. first[T + 1]`. */
export interface ThreadSamples {
  first: Uint32Array;
  time: Float64Array;
  value: Float64Array;
  kind: Uint8Array;
  /** Where samples are sums over an interval that starts with them: its end. */
  until: Float64Array | undefined;
  /** Thread → the weight of all its samples. */
  total: Float64Array;
}

/**
 * Where the interval of each sample ends: at the next time of any sample. Undefined when all have the same
 * time.
 */
export function stretches(samples: SampleTable, duration: number): Float64Array | undefined {
  const { time } = samples, count = time.length;
  if (!count || time[0] === time[count - 1]) return undefined;
  const until = new Float64Array(count);
  for (let i = count - 1; i >= 0; i--) {
    until[i] = i + 1 === count ? Math.max(duration, time[i]!) : time[i + 1] === time[i] ? until[i + 1]! : time[i + 1]!;
  }
  return until;
}

/** Stack → kind of its innermost code. */
export function stackKinds(model: Model): Uint8Array {
  const { stacks, locations, frames, functions } = model.profile;
  const kinds = new Uint8Array(stacks.count);
  for (let stack = 0; stack < stacks.count; stack++) {
    const location = stacks.location[stack]!, last = locations.frames[location + 1]!;
    if (last > locations.frames[location]!) kinds[stack] = functions.kind[frames.function[last - 1]!]!;
    else if (location !== 0 && locations.module[location] !== NONE) kinds[stack] = model.kind(functions.count + locations.module[location]!);
  }
  return kinds;
}

export function byThread(samples: SampleTable, threads: number, kinds: Uint8Array, ends?: Float64Array): ThreadSamples {
  const count = samples.time.length;
  const first = new Uint32Array(threads + 1), total = new Float64Array(threads);
  for (let i = 0; i < count; i++) {
    const thread = samples.thread[i]!;
    first[thread + 1]!++;
    total[thread]! += samples.value[i]!;
  }
  for (let thread = 0; thread < threads; thread++) first[thread + 1]! += first[thread]!;
  const next = first.slice();
  const time = new Float64Array(count), value = new Float64Array(count), kind = new Uint8Array(count), until = ends && new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const at = next[samples.thread[i]!]!++;
    time[at] = samples.time[i]!;
    value[at] = samples.value[i]!;
    if (until) until[at] = ends![i]!;
    const stack = samples.stack[i]!, code = stack === NONE ? KIND.unknown : kinds[stack]!;
    kind[at] = code < KIND_COUNT ? code : KIND.unknown;
  }
  return { first, time, value, kind, until, total };
}

/**
 * The weight of a thread's samples per bin and kind: `bins[kind * count + bin]`. A sample of a time metric
 * represents the time before it, so it is spread over `time - value .. time`. Sums are spread over their
 * interval. Samples of other metrics count at their time. Time metrics are shares of the bin's own time (1:
 * always busy).
 */
export function activity(samples: ThreadSamples, thread: number, unit: number, [from, to]: Range, count: number): Float64Array {
  const bins = new Float64Array(KIND_COUNT * count);
  const { first, time, value, kind, until } = samples;
  const spread = unit === UNIT_NANOSECONDS;
  const width = (to - from) / count;
  if (until) {
    for (let row = first[thread]!; row < first[thread + 1]! && time[row]! < to; row++) {
      const begin = (time[row]! - from) / width, end = Math.max(begin, (until[row]! - from) / width), each = value[row]! / (end - begin || 1);
      const last = Math.min(count - 1, Math.floor(end));
      for (let bin = Math.max(0, Math.floor(begin)); bin <= last; bin++) {
        bins[kind[row]! * count + bin]! += end > begin ? each * (Math.min(bin + 1, end) - Math.max(bin, begin)) : each;
      }
    }
    return bins;
  }
  // One more slot per kind: steps up and down, which are summed afterwards.
  const steps = new Float64Array(KIND_COUNT * (count + 2));
  const column = time.subarray(first[thread]!, first[thread + 1]!);
  let stop = lowerBound(column, to);
  // A long wait that ends after the range may start inside it.
  if (spread) stop = Math.min(column.length, stop + 64);
  for (let i = lowerBound(column, from); i < stop; i++) {
    const row = first[thread]! + i, base = kind[row]! * count, amount = value[row]!;
    const end = (column[i]! - from) / width;
    if (!spread) {
      const bin = Math.floor(end);
      if (bin >= 0 && bin < count) bins[base + bin]! += amount;
      continue;
    }
    const start = end - amount / width;
    if (start >= count || end <= 0 || !(amount > 0)) continue;
    const low = Math.max(0, start), high = Math.min(count, end);
    const a = Math.floor(low), b = Math.min(count - 1, Math.floor(high));
    if (a === b) {
      bins[base + a]! += high - low;
    } else {
      bins[base + a]! += a + 1 - low;
      bins[base + b]! += high - b;
      if (b > a + 1) {
        const at = kind[row]! * (count + 2);
        steps[at + a + 1]! += 1;
        steps[at + b]! -= 1;
      }
    }
  }
  if (spread) {
    for (let code = 0; code < KIND_COUNT; code++) {
      let level = 0;
      for (let bin = 0; bin < count; bin++) {
        level += steps[code * (count + 2) + bin]!;
        bins[code * count + bin]! += level;
      }
    }
  }
  return bins;
}

/** The maximum of any thread in one of `count` bins: the common scale of tracks for metrics other than time. */
export function highest(samples: ThreadSamples, unit: number, [from, to]: Range, count: number): number {
  if (unit === UNIT_NANOSECONDS) return 1;
  const width = (to - from) / count;
  const bins = new Float64Array(count);
  let most = 0;
  for (let thread = 0; thread + 1 < samples.first.length; thread++) {
    if (samples.until) {
      const kinds = activity(samples, thread, unit, [from, to], count);
      for (let bin = 0; bin < count; bin++) {
        let sum = 0;
        for (let kind = 0; kind < KIND_COUNT; kind++) sum += kinds[kind * count + bin]!;
        most = Math.max(most, sum);
      }
      continue;
    }
    bins.fill(0);
    for (let i = samples.first[thread]!; i < samples.first[thread + 1]!; i++) {
      const bin = Math.floor((samples.time[i]! - from) / width);
      if (bin >= 0 && bin < count) most = Math.max(most, bins[bin]! += samples.value[i]!);
    }
  }
  return most || 1;
}
