// Allocation sites: their sort orders, the columns of each order, and histograms of sizes and lifetimes.

import { shape, weights } from './derive.ts';
import { pathOf } from './flame/path.ts';
import { bytes, count, duration, share } from './format.ts';
import { KIND, type Model } from './model.ts';
import { NONE, type HeapColumn, type HeapFacts } from './payload.ts';
import type { State } from './state.ts';

export const GROWTH_WORDS = ['', 'flat', 'linear', 'sawtooth', 'unbounded'] as const;
const LINEAR = 2, UNBOUNDED = 4;

/** The numbers of one site, by column name. */
export type Numbers = (column: HeapColumn) => number;

export interface Cell { title: string; help?: string; width: string; text: (site: Site, totals: Numbers) => string }

export interface Site {
  row: number;
  numbers: Numbers;
  growth: number;
  /** What to do about its growth, in words; empty if there is nothing. */
  advice: string;
}

export interface Order {
  id: string;
  title: string;
  help: string;
  /** The metric that shows the same in the flame graph. */
  metric: string;
  key: (site: Site) => number;
  /** Decides between equal sites. */
  tie?: (site: Site) => number;
  cells: readonly Cell[];
}

const cell = (title: string, width: string, text: Cell['text'], help?: string): Cell => ({ title, width, text, ...(help ? { help } : {}) });
const some = (value: number, text: (value: number) => string): string => (value ? text(value) : '');
const size = (title: string, column: HeapColumn, help?: string): Cell => cell(title, '5.6rem', ({ numbers }) => some(numbers(column), bytes), help);
const number = (title: string, column: HeapColumn, help?: string): Cell => cell(title, '5.6rem', ({ numbers }) => some(numbers(column), count), help);
const mean = cell('Mean size', '5.6rem', ({ numbers }) => bytes(numbers('bytes_allocated') / Math.max(1, numbers('allocations'))));
const life = cell('Mean life', '5.6rem', ({ numbers }) => duration(numbers('lifetime_ns') / Math.max(1, numbers('allocations'))), 'Average lifetime of a block');
const part = (column: HeapColumn, of: HeapColumn, title: string, help: string): Cell =>
  cell(title, '5rem', ({ numbers }) => share(numbers(column), numbers(of)), help);
const growth = cell('Over time', '6rem', site => GROWTH_WORDS[site.growth] ?? '', 'How its live bytes change over time');

const bySize = (column: HeapColumn) => ({ numbers }: Site): number => numbers(column);

/** Labels for blocks that were not freed: at the exit of a program, or at a snapshot of a running one. */
export const liveWords = (isSnapshot: boolean): { title: string; column: string; help: string } => (isSnapshot
  ? { title: 'Live at snapshot', column: 'Live', help: 'Blocks not freed yet' }
  : { title: 'Live at exit', column: 'Live at exit', help: 'Blocks never freed' });

const ordersIn = (isSnapshot: boolean, live = liveWords(isSnapshot)): readonly Order[] => [
  { id: 'peak', title: 'Peak', help: 'Live at the peak, when most bytes were live', metric: 'live-at-peak', key: bySize('peak_bytes'),
    cells: [size('At peak', 'peak_bytes'), number('Blocks', 'peak_blocks'), size('Allocated', 'bytes_allocated'), growth] },
  { id: 'total', title: 'Bytes', help: 'Bytes allocated over the whole run', metric: 'bytes-allocated', key: bySize('bytes_allocated'),
    cells: [size('Allocated', 'bytes_allocated'), number('Allocations', 'allocations'), mean, life] },
  { id: 'count', title: 'Allocations', help: 'Calls to the allocator', metric: 'allocations', key: bySize('allocations'),
    cells: [number('Allocations', 'allocations'), size('Allocated', 'bytes_allocated'), mean, life] },
  { id: 'temporary', title: 'Temporary', help: 'Blocks freed before their thread allocated again', metric: 'temporary-allocations', key: bySize('temporary'),
    cells: [number('Temporary', 'temporary'), number('Allocations', 'allocations'), part('temporary', 'allocations', 'Temporary %', 'Share of its allocations'), mean] },
  { id: 'leaks', title: 'Leaks', help: `${live.help} that no pointer leads to`, metric: 'live-at-exit',
    key: ({ numbers }) => numbers('definitely_lost_bytes') + numbers('indirectly_lost_bytes') + numbers('possibly_lost_bytes'),
    cells: [size('Definitely', 'definitely_lost_bytes', 'No pointer leads to them'), size('Indirectly', 'indirectly_lost_bytes', 'Only lost blocks point to them'),
      size('Possibly', 'possibly_lost_bytes', 'Only pointers into their middle lead to them'), size('Reachable', 'reachable_bytes', `Still reachable at the ${isSnapshot ? 'snapshot' : 'end'}`)] },
  { id: 'exit', title: live.title, help: live.help, metric: 'live-at-exit', key: bySize('live_at_exit_bytes'),
    cells: [size(live.column, 'live_at_exit_bytes'), number('Blocks', 'live_at_exit_blocks'), size('Allocated', 'bytes_allocated'), growth] },
  { id: 'growing', title: 'Growing', help: 'Sites where live bytes only grow', metric: 'live',
    key: site => (site.growth === LINEAR || site.growth === UNBOUNDED ? Math.max(1, site.numbers('max_bytes')) : 0),
    cells: [growth, size('Max', 'max_bytes', 'Its highest live bytes'), size(live.column, 'live_at_exit_bytes'), number('Allocations', 'allocations')] },
  { id: 'chains', title: 'Reallocation', help: 'Blocks reallocated again and again', metric: 'bytes-allocated', key: bySize('bytes_copied'), tie: bySize('grown'),
    cells: [size('Copied', 'bytes_copied', 'Bytes copied while growing'), number('Times grown', 'grown'), number('Blocks', 'growth_chains', 'Blocks that grew at least once'),
      size('Largest', 'largest_grown', 'Largest size of a block')] },
  { id: 'unused', title: 'Unused', help: 'Bytes never written', metric: 'unused-bytes', key: bySize('unused_bytes'),
    cells: [size('Unused', 'unused_bytes'), part('unused_bytes', 'examined_bytes', 'Unused %', 'Share of the examined bytes'), number('Allocations', 'allocations'), mean] },
  { id: 'accesses', title: 'Accesses', help: 'Bytes that instructions read and write (DHAT)', metric: 'read-bytes', key: ({ numbers }) => numbers('bytes_read') + numbers('bytes_written'),
    cells: [size('Read', 'bytes_read'), size('Written', 'bytes_written'), size('Allocated', 'bytes_allocated'), number('Allocations', 'allocations')] },
];

export const sites = (model: Model): Site[] => {
  const { heap } = model.profile;
  return Array.from({ length: heap.count }, (_, row) => ({
    row, numbers: column => heap.counts[column][row]!, growth: heap.growth[row]!, advice: model.text(heap.advice[row]!),
  }));
};

const has = ({ key, tie }: Order) => (site: Site): boolean => key(site) > 0 || (tie?.(site) ?? 0) > 0;

/** The sites with a value in an order, largest first. */
export function sorted(sites: readonly Site[], order: Order): Site[] {
  const { key, tie = () => 0 } = order;
  return sites.filter(has(order)).sort((a, b) => key(b) - key(a) || tie(b) - tie(a) || a.row - b.row);
}

/** The orders with anything to show; always the peak. For a snapshot, live blocks come first. */
export function ordersOf(sites: readonly Site[], isSnapshot: boolean): Order[] {
  const orders = ordersIn(isSnapshot).filter(order => order.id === 'peak' || sites.some(has(order)));
  return isSnapshot ? orders.sort((a, b) => Number(b.id === 'exit') - Number(a.id === 'exit')) : orders;
}

/** An upper end this many times the number says nothing. */
const FAR = 10;

/**
 * ` ±12.0 %` after an estimated total: the distance to the farther end of its interval, or its lower end if the upper
 * one says nothing; empty for counted totals.
 */
export function margin(facts: HeapFacts, name: string, value: number): string {
  const ends = facts.intervals.get(name);
  if (!ends || value <= 0) return '';
  const [low, high] = ends;
  if (high <= FAR * value) return ` ±${share(Math.max(high - value, value - low), value)}`;
  if (low >= value) return ' or more';
  return ` (at least ${name.includes('bytes') ? bytes(low) : count(low)})`;
}

export interface Bar { label: string; blocks: number }

/** The bars of a site's histogram, or of the whole program's (`row` undefined), without gaps. */
export function bars(model: Model, row: number | undefined, of: 'size' | 'lifetime'): Bar[] {
  const { heapBars } = model.profile;
  const wanted = of === 'size' ? 0 : 1;
  const blocks: number[] = [];
  for (let at = 0; at < heapBars.count; at++) {
    if (heapBars.of[at] !== wanted || (row !== undefined && heapBars.site[at] !== row)) continue;
    const bar = heapBars.bar[at]!;
    blocks[bar] = (blocks[bar] ?? 0) + heapBars.blocks[at]!;
  }
  const first = blocks.findIndex(blocks => blocks > 0);
  const text = of === 'size' ? bytes : duration;
  // Bar n has values below 2^n.
  return first < 0 ? [] : Array.from({ length: blocks.length - first }, (_, at) => ({
    label: first + at === 0 ? text(0) : `< ${text(2 ** (first + at))}`, blocks: blocks[first + at] ?? 0,
  }));
}

/**
 * The changes that show a site's heaviest stack in the flame graph: down to the site's function, with its
 * callees below.
 */
export function inFlame(model: Model, state: State, row: number): Partial<State> {
  const { heap } = model.profile;
  const fn = model.sameAs[heap.function[row]!] ?? heap.function[row]!;
  let changes: Partial<State> = { inverted: false };
  let tree = shape(model, { ...state, ...changes });
  if (tree.nodeOfStack[heap.stack[row]!] === NONE) {
    changes = { ...changes, transforms: [] };
    tree = shape(model, { ...state, ...changes });
  }
  const path = pathOf(tree, tree.nodeOfStack[heap.stack[row]!]!);
  const wanted = state.generics ? model.generic[fn] ?? fn : fn;
  const end = path.lastIndexOf(wanted);
  return { ...changes, fn: wanted, zoom: end < 0 ? path : path.slice(0, end + 1) };
}

/**
 * Kinds of code, ranked by how well they name the requester of memory: every allocation goes through std and
 * the allocator.
 */
const RANK: readonly number[] = [2, 0, 1, 3, 3, 3, 3];
const cache = new WeakMap<Model, Uint8Array>();

/**
 * Stack → the kind of code that requested the memory: the innermost of yours, else of a dependency, else the
 * innermost.
 */
export function requesterKinds(model: Model): Uint8Array {
  const known = cache.get(model);
  if (known) return known;
  const { stacks, locations, frames, functions } = model.profile;
  const kinds = new Uint8Array(stacks.count);
  for (let stack = 0; stack < stacks.count; stack++) {
    const parent = stacks.parent[stack]!, location = stacks.location[stack]!;
    let kind = parent === NONE ? -1 : kinds[parent]!;
    const meet = (own: number): void => { if (kind < 0 || (RANK[own] ?? 3) <= (RANK[kind] ?? 3)) kind = own; };
    const [first, last] = [locations.frames[location]!, locations.frames[location + 1]!];
    for (let frame = first; frame < last; frame++) meet(functions.kind[frames.function[frame]!]!);
    if (first === last && location !== 0) meet(locations.module[location] === NONE ? KIND.unknown : model.kind(functions.count + locations.module[location]!));
    kinds[stack] = Math.max(0, kind);
  }
  cache.set(model, kinds);
  return kinds;
}

/** Kind of code → the memory it requested, over the shown stacks. */
export function requestedByKind(model: Model, state: State): Float64Array {
  const kinds = requesterKinds(model), tree = shape(model, state), out = new Float64Array(RANK.length);
  weights(model, state).forEach((weight, stack) => { if (weight && tree.nodeOfStack[stack] !== NONE) out[kinds[stack]!]! += weight; });
  return out;
}
