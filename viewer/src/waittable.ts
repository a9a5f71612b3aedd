// Waits in the selected time, by reason and by the user's line. Pure functions over columns.

import { isIn, rowsOf, weightIn } from './aggregate.ts';
import { quantile } from './bounds.ts';
import { selection } from './derive.ts';
import type { Model } from './model.ts';
import type { State } from './state.ts';
import { chargedFunction, chargeOf } from './places.ts';
import { kindShares, waitMetric, waitsOf } from './waits.ts';

/** The selected waits for one reason at one line, in nanoseconds. */
export interface WaitRow {
  /** A row of `reasons`. */
  reason: number;
  /** A row of `charges`, or NONE. */
  charge: number;
  /** The function of the line; NONE when not known. */
  fn: number;
  count: number;
  total: number;
  p50: number;
  p99: number;
  longest: number;
  threads: number;
  isIdle: boolean;
}

/** Most time first; idle threads of pools come last. */
export function waitRows(model: Model, state: State): WaitRow[] {
  const metric = waitMetric(model), table = model.profile.samples[metric];
  if (!table?.reason) return [];
  const { reasons, timeKinds } = model.profile;
  const { threads, range, mask } = selection(model, { ...state, metric });
  const [from, to] = rowsOf(table, range), weight = weightIn(table, range), inside = isIn(table, range);
  const groups = new Map<string, { reason: number; charge: number; values: number[]; threads: Set<number> }>();
  for (let row = from; row < to; row++) {
    const reason = table.reason[row]! - 1;
    if (reason < 0 || (threads && threads[table.thread[row]!] !== 1) || (mask && mask[row] !== 1) || !inside(row)) continue;
    const charge = chargeOf(model, table.stack[row]!), key = `${reason} ${charge}`;
    let group = groups.get(key);
    if (!group) groups.set(key, group = { reason, charge, values: [], threads: new Set() });
    group.values.push(weight(row));
    group.threads.add(table.thread[row]!);
  }
  return [...groups.values()].map(({ reason, charge, values, threads: of }): WaitRow => {
    const sorted = Float64Array.from(values).sort();
    return {
      reason, charge, fn: chargedFunction(model, charge),
      count: sorted.length, total: sorted.reduce((sum, value) => sum + value, 0), p50: quantile(sorted, 50), p99: quantile(sorted, 99), longest: sorted.at(-1)!,
      threads: of.size, isIdle: timeKinds[reasons[reason]!.kind]?.state === 'idle',
    };
  }).sort((a, b) => Number(a.isIdle) - Number(b.isIdle) || b.total - a.total || a.reason - b.reason);
}

/** The time of a thread in each kind of time, in the given range; undefined without waits. */
export function timesOfThread(model: Model, thread: number, range: readonly [number, number]): Float64Array | undefined {
  const waits = waitsOf(model);
  if (!waits) return undefined;
  const length = range[1] - range[0];
  return kindShares(waits, [thread], model.profile.timeKinds.length, range, 1).map(share => share * length);
}

/** Self weight per module: row of `modules`, or NONE for code outside of them. */
export function moduleValues({ profile: { stacks, locations } }: Model, weights: Float64Array, isCounted: (stack: number) => boolean): Map<number, number> {
  const sums = new Map<number, number>();
  for (let stack = 0; stack < stacks.count; stack++) {
    const value = weights[stack]!;
    if (value === 0 || !isCounted(stack)) continue;
    const module = locations.module[stacks.location[stack]!]!;
    sums.set(module, (sums.get(module) ?? 0) + value);
  }
  return sums;
}
