// Who holds memory over time: the live bytes of the largest holders, and of all others together. Pure
// functions over columns.

import { selection, shape } from './derive.ts';
import { lineOfStack } from './heaptime.ts';
import type { Model } from './model.ts';
import { NONE } from './payload.ts';
import type { Range, State } from './state.ts';

/** Allocation sites, or all sites of a function together. */
export type Holders = 'sites' | 'functions';

export interface Holder {
  /** A row of `heap`: the site, or the one of the function that comes first. */
  site: number;
  fn: number;
  /** Live bytes at the end of each bin. */
  live: Float64Array;
  most: number;
}

export interface HeldMemory {
  bins: number;
  /** Those with the most live bytes at any time in the range, the largest first. */
  holders: Holder[];
  /** All others: how many held memory in the range, and their live bytes. */
  others: { count: number; live: Float64Array };
  /** The highest sum of a bin. */
  top: number;
}

/** This many holders are shown apart. */
export const MOST_HOLDERS = 8;

/**
 * The memory that the selected threads allocated and that is live, in bins of a time range. Undefined without a heap
 * timeline.
 */
export function heldMemory(model: Model, state: State, by: Holders, range: Range, bins: number): HeldMemory | undefined {
  if (model.live === undefined) return undefined;
  const { heap, samples } = model.profile, { time, thread, stack, value } = samples[model.live]!;
  const { threads } = selection(model, { ...state, metric: model.live }), { nodeOfStack } = shape(model, state);
  const groupOf = groups(model, by), lines = lineOfStack(model);
  const ofStack = Uint32Array.from(nodeOfStack, (node, at) => (node === NONE ? NONE : lines[at] === NONE ? heap.count : groupOf[lines[at]!]!));
  const [from, to] = range, width = (to - from) / bins;

  /** Replays the timeline: `change` for each step of a group, `next` at the end of each bin. */
  const replay = (change: (group: number, by: number) => void, next: (bin: number) => void): void => {
    const held = new Float64Array(ofStack.length);
    let bin = 0;
    for (let row = 0; row < time.length; row++) {
      // The last bin includes the end of the range, as the live bytes of a time include those of that time.
      while (bin < bins && time[row]! > from + (bin + 1) * width) next(bin++);
      if (bin >= bins) break;
      const at = stack[row]!, group = at === NONE ? NONE : ofStack[at]!;
      if (group === NONE || (threads && threads[thread[row]!] !== 1)) continue;
      // A free of a block from before the recording has no allocation to subtract from.
      const before = Math.max(0, held[at]!), after = Math.max(0, held[at]! += value[row]!);
      if (after !== before) change(group, after - before);
    }
    while (bin < bins) next(bin++);
  };

  const live = new Float64Array(heap.count + 1), most = new Float64Array(heap.count + 1), changed = new Set<number>(Array.from({ length: heap.count + 1 }, (_, group) => group));
  replay((group, step) => { live[group]! += step; changed.add(group); }, () => {
    for (const group of changed) most[group] = Math.max(most[group]!, live[group]!);
    changed.clear();
  });
  const held = Array.from({ length: heap.count }, (_, group) => group).filter(group => most[group]! > 0).sort((a, b) => most[b]! - most[a]! || a - b);
  const holders = held.slice(0, MOST_HOLDERS).map((site): Holder => ({ site, fn: model.sameAs[heap.function[site]!]!, live: new Float64Array(bins), most: most[site]! }));
  const rowOf = new Int32Array(heap.count + 1).fill(-1);
  holders.forEach(({ site }, at) => { rowOf[site] = at; });
  const now = new Float64Array(holders.length + 1), others = new Float64Array(bins);
  let top = 0;
  replay((group, step) => { now[rowOf[group]! < 0 ? holders.length : rowOf[group]!]! += step; }, bin => {
    holders.forEach(({ live }, at) => { live[bin] = now[at]!; });
    others[bin] = now[holders.length]!;
    top = Math.max(top, now.reduce((sum, value) => sum + value, 0));
  });
  return { bins, holders, others: { count: held.length - holders.length + (most[heap.count]! > 0 ? 1 : 0), live: others }, top };
}

/** Site → the first site of its group. */
function groups(model: Model, by: Holders): Uint32Array {
  const { heap } = model.profile, first = new Map<number, number>();
  return Uint32Array.from({ length: heap.count }, (_, site) => {
    if (by === 'sites') return site;
    const fn = model.sameAs[heap.function[site]!]!;
    if (!first.has(fn)) first.set(fn, site);
    return first.get(fn)!;
  });
}

/** The bin of a time. */
export const binOf = (bins: number, [from, to]: Range, time: number): number => Math.max(0, Math.min(bins - 1, Math.ceil((time - from) / (to - from) * bins) - 1));

/** The holder at a height of a bin, from the lowest, the largest; `holders.length` for the others, -1 above all. */
export function holderAt({ holders, others }: HeldMemory, bin: number, height: number): number {
  let below = 0;
  for (let at = 0; at <= holders.length; at++) {
    below += (holders[at]?.live ?? others.live)[bin]!;
    if (height < below) return at;
  }
  return -1;
}
