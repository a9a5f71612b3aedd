// Locks that threads waited for in the selected time: how long, where, and which thread held them. Pure
// functions over columns.

import { isIn, rowsOf, weightIn } from './aggregate.ts';
import { selection } from './derive.ts';
import type { Model } from './model.ts';
import { NONE } from './payload.ts';
import type { State } from './state.ts';
import { placeOfStack, waitMetric } from './waits.ts';

/** The selected waits for one lock, in nanoseconds. */
export interface LockRow {
  /** A row of `locks`. */
  lock: number;
  count: number;
  total: number;
  p99: number;
  longest: number;
  /** The thread that kept others waiting longest; NONE when not known. */
  holder: number;
}

/** Where threads waited for a lock, or where (and by which thread) it was released. */
export interface LockSite { place: string; thread: number; count: number; total: number }

/** How long one thread waited for another. */
export interface WaitEdge { waiter: number; holder: number; count: number; total: number }

/** Visits the selected waits for locks: rows of the wait table. */
function eachWait(model: Model, state: State, visit: (row: number, lock: number, value: number) => void): void {
  const metric = waitMetric(model), table = model.profile.samples[metric], locks = table?.lock;
  if (!table || !locks) return;
  const { threads, range, mask } = selection(model, { ...state, metric });
  const [from, to] = rowsOf(table, range), weight = weightIn(table, range), inside = isIn(table, range);
  for (let row = from; row < to; row++) {
    if (locks[row] === NONE || (threads && threads[table.thread[row]!] !== 1) || (mask && mask[row] !== 1)) continue;
    if (inside(row)) visit(row, locks[row]!, weight(row));
  }
}

/** The smallest of the sorted values that at least `percent` percent of them do not exceed. */
const quantile = (sorted: Float64Array, percent: number): number => sorted[Math.max(1, Math.ceil(sorted.length * percent / 100)) - 1] ?? 0;

class Sums<K> {
  private readonly known = new Map<string, { key: K; count: number; total: number }>();
  add(key: K, value: number): void {
    const id = JSON.stringify(key), sum = this.known.get(id);
    if (sum) { sum.count++; sum.total += value; } else this.known.set(id, { key, count: 1, total: value });
  }
  get list(): { key: K; count: number; total: number }[] {
    return [...this.known.values()].sort((a, b) => b.total - a.total);
  }
}

/** The locks with waits, most time first. */
export function lockRows(model: Model, state: State): LockRow[] {
  const lengths = new Map<number, number[]>(), holders = new Map<number, Sums<number>>();
  const table = model.profile.samples[waitMetric(model)]!;
  eachWait(model, state, (row, lock, value) => {
    const waker = table.details?.waker[row] ?? NONE;
    const of = lengths.get(lock);
    if (of) of.push(value);
    else lengths.set(lock, [value]);
    if (waker === NONE) return;
    let sums = holders.get(lock);
    if (!sums) holders.set(lock, sums = new Sums());
    sums.add(waker, value);
  });
  return [...lengths].map(([lock, values]): LockRow => {
    const sorted = Float64Array.from(values).sort();
    return {
      lock, count: sorted.length, total: sorted.reduce((sum, value) => sum + value, 0), p99: quantile(sorted, 99), longest: sorted.at(-1)!,
      holder: holders.get(lock)?.list[0]?.key ?? NONE,
    };
  }).sort((a, b) => b.total - a.total || a.lock - b.lock);
}

/**
 * Where threads waited for a lock, and which threads released it: the thread that ended a wait held the lock
 * until then. Most time first.
 */
export function lockSites(model: Model, state: State, wanted: number): { waiters: LockSite[]; holders: LockSite[] } {
  const table = model.profile.samples[waitMetric(model)]!, places = new Map<number, string>();
  const placeOf = (stack: number): string => {
    let place = places.get(stack);
    if (place === undefined) places.set(stack, place = stack === NONE ? '' : placeOfStack(model, stack));
    return place;
  };
  const waiters = new Sums<[string]>(), holders = new Sums<[string, number]>();
  eachWait(model, state, (row, lock, value) => {
    if (lock !== wanted) return;
    waiters.add([placeOf(table.stack[row]!)], value);
    const thread = table.details?.waker[row] ?? NONE;
    if (thread !== NONE) holders.add([placeOf(table.details!.wakerStack[row]!), thread], value);
  });
  return {
    waiters: waiters.list.map(({ key: [place], count, total }) => ({ place, thread: NONE, count, total })),
    holders: holders.list.map(({ key: [place, thread], count, total }) => ({ place, thread, count, total })),
  };
}

/** Which thread waited for which, for one lock or for all, most time first. */
export function waitGraph(model: Model, state: State, wanted: number | undefined): WaitEdge[] {
  const table = model.profile.samples[waitMetric(model)]!, edges = new Sums<[number, number]>();
  eachWait(model, state, (row, lock, value) => {
    const waker = table.details?.waker[row] ?? NONE;
    if (waker !== NONE && (wanted === undefined || lock === wanted)) edges.add([table.thread[row]!, waker], value);
  });
  return edges.list.map(({ key: [waiter, holder], count, total }) => ({ waiter, holder, count, total }));
}

/** `std Mutex app::LOCK at 0x7f0012345678`. */
export function lockName(model: Model, lock: number): string {
  const { kind, name, address } = model.profile.locks, where = address[lock]!, variable = model.text(name[lock]!).slice(0, 200);
  return `${model.text(kind[lock]!).slice(0, 60) || 'lock'}${variable && ` ${variable}`}${Number.isNaN(where) ? '' : ` at 0x${where.toString(16)}`}`;
}

/** The first place where a thread waited for it: `update app.rs:20`. */
export function lockSite(model: Model, lock: number): string {
  const { function: fn, file, line } = model.profile.locks, path = model.text(file[lock]!), name = path.slice(path.lastIndexOf('/') + 1);
  return `${model.short(fn[lock]!)}${name && ` ${name}`}${name && line[lock] ? `:${line[lock]}` : ''}`;
}
