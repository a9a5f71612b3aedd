// Allocation sites for a part of the time or of the threads: what each allocated there, summed from the
// samples.

import { selection } from './derive.ts';
import { lowerBound } from './aggregate.ts';
import type { Site } from './heap.ts';
import type { Model } from './model.ts';
import { NONE, type HeapColumn } from './payload.ts';
import { timeRange, type State } from './state.ts';

/** The metrics that have timestamps, and the column that each sums up to. */
const TIMED: Partial<Record<HeapColumn, string>> = { bytes_allocated: 'bytes-allocated', allocations: 'allocations', temporary: 'temporary-allocations' };

/** Stack → the site (row of `heap`) of its allocations; NONE for stacks that do not allocate. */
export function lineOfStack({ profile: { stacks, heapStacks } }: Model): Uint32Array {
  const of = new Uint32Array(stacks.count).fill(NONE);
  heapStacks.stack.forEach((stack, at) => { of[stack] = heapStacks.site[at]!; });
  return of;
}

/** Whether only a part of the time or of the threads is selected. */
export const isPart = (state: State): boolean => timeRange(state) !== undefined || state.threads !== undefined;

/**
 * The sites that allocated in the selected time on the selected threads. Timed columns cover only the
 * selection, the others the whole run.
 */
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
      // The mean lifetime is known only for the whole run.
      ?? (column === 'lifetime_ns' ? site.numbers(column) * allocations[site.row]! / Math.max(1, site.numbers('allocations')) : site.numbers(column)),
  }));
}
