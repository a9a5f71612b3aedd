// The lines that allocate, for a part of the time or of the threads: what each allocated there, added up from the samples.

import { selection } from './derive.ts';
import { lowerBound } from './aggregate.ts';
import type { Site } from './heap.ts';
import { KIND, type Model } from './model.ts';
import { NONE, type HeapColumn } from './payload.ts';
import { timeRange, type State } from './state.ts';

/** The metrics that have a time, and the column that each is the sum of. */
const TIMED: Partial<Record<HeapColumn, string>> = { bytes_allocated: 'bytes-allocated', allocations: 'allocations', temporary: 'temporary-allocations' };

/** Kinds of code by how little they say about who wanted memory; the same as in `whyslow_analyze::heap`. */
const RANK: Readonly<Record<number, number>> = { [KIND.yours]: 0, [KIND.dependency]: 1, [KIND.allocator]: 3 };
const OTHER = 2, TRUNCATED = 4;

const rows = new WeakMap<Model, Uint32Array>();

/** Stack → the line (row of `heap`) that its allocations belong to: the innermost frame of those that say most. */
export function lineOfStack(model: Model): Uint32Array {
  const known = rows.get(model);
  if (known) return known;
  const { heap, stacks, locations, frames, functions } = model.profile;
  const key = (fn: number, file: number, line: number): string => `${model.sameAs[fn] ?? fn} ${file} ${line}`;
  const lines = new Map<string, number>();
  for (let row = 0; row < heap.count; row++) lines.set(key(heap.function[row]!, heap.file[row]!, heap.line[row]!), row);
  const rank = new Uint8Array(stacks.count), of = new Uint32Array(stacks.count).fill(NONE);
  for (let stack = 0; stack < stacks.count; stack++) {
    const parent = stacks.parent[stack]!, location = stacks.location[stack]!;
    let best = parent === NONE ? Infinity : rank[parent]!, line = parent === NONE ? NONE : of[parent]!;
    const meet = (level: number, fn: number, file: number, number: number): void => {
      if (level > best) return;
      best = level;
      line = lines.get(key(fn, file, number)) ?? NONE;
    };
    const [first, last] = [locations.frames[location]!, locations.frames[location + 1]!];
    for (let frame = first; frame < last; frame++) {
      const fn = frames.function[frame]!;
      meet(RANK[functions.kind[fn]!] ?? OTHER, fn, frames.file[frame]!, frames.line[frame]!);
    }
    if (first === last) {
      const module = locations.module[location]!;
      const fn = location === 0 ? model.truncated : module === NONE ? model.unknown : functions.count + module;
      meet(location === 0 ? TRUNCATED : RANK[model.kind(fn)] ?? OTHER, fn, NONE, 0);
    }
    rank[stack] = Math.min(best, TRUNCATED);
    of[stack] = line;
  }
  rows.set(model, of);
  return of;
}

/** Whether only a part of the time or of the threads is selected. */
export const isPart = (state: State): boolean => timeRange(state) !== undefined || state.threads !== undefined;

/** The lines that allocated in the selected time on the selected threads: those numbers are of it, the others of the whole run. */
export function sitesIn(model: Model, state: State, sites: readonly Site[]): Site[] {
  if (!isPart(state)) return [...sites];
  const line = lineOfStack(model), count = model.profile.heap.count;
  const { threads } = selection(model, state), range = timeRange(state);
  const sums = new Map<HeapColumn, Float64Array>();
  for (const [column, name] of Object.entries(TIMED) as [HeapColumn, string][]) {
    const sum = new Float64Array(count), metric = model.profile.samples.findIndex((_, metric) => model.metricName(metric) === name);
    sums.set(column, sum);
    const samples = model.profile.samples[metric];
    if (!samples) continue;
    const from = range ? lowerBound(samples.time, range[0]) : 0, to = range ? lowerBound(samples.time, range[1]) : samples.time.length;
    for (let i = from; i < to; i++) {
      const row = samples.stack[i] === NONE ? NONE : line[samples.stack[i]!]!;
      if (row !== NONE && (!threads || threads[samples.thread[i]!] === 1)) sum[row]! += samples.value[i]!;
    }
  }
  const allocations = sums.get('allocations')!;
  return sites.filter(({ row }) => allocations[row]! > 0).map(site => ({
    ...site,
    numbers: column => sums.get(column)?.[site.row]
      // The mean lifetime is known of the whole run only.
      ?? (column === 'lifetime_ns' ? site.numbers(column) * allocations[site.row]! / Math.max(1, site.numbers('allocations')) : site.numbers(column)),
  }));
}
