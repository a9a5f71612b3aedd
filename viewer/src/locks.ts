// Locks that threads waited for in the selected time: how long, where, and which threads held them. Pure
// functions over columns. Same result as `whyslow report FILE locks`.
//
// A wait can outlast several holders. Every woken waiter shows a release, and the time since the release
// before it belongs to the thread that released the lock.

import { isIn, lowerBound, rowsOf, weightIn } from './aggregate.ts';
import { quantile } from './bounds.ts';
import { selection } from './derive.ts';
import type { Model } from './model.ts';
import { NONE } from './payload.ts';
import { chargeOf, placeWords } from './places.ts';
import type { State } from './state.ts';
import { waitMetric } from './waits.ts';

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

/** Where threads waited for a lock, or where (and by which thread) it was released. `charge` is a row of `charges`, or NONE. */
export interface LockSite { charge: number; thread: number; count: number; total: number }

/** How long one thread waited for another. */
export interface WaitEdge { waiter: number; holder: number; count: number; total: number }

/** The releases of a lock in order of time: rows of the wait table. */
interface Releases { time: Float64Array; row: Uint32Array }

const known = new WeakMap<Model, Map<number, Releases>>();

/** From all waits: one that is not selected shows a release to others that are. */
function releasesOf(model: Model): Map<number, Releases> {
  let found = known.get(model);
  if (found) return found;
  known.set(model, found = new Map());
  const { time, thread, lock, details } = model.profile.samples[waitMetric(model)]!, rows = new Map<number, number[]>();
  details?.waker.forEach((waker, row) => {
    const of = lock?.[row] ?? NONE;
    if (of === NONE || waker === NONE || waker === thread[row]) return;
    const list = rows.get(of);
    if (list) list.push(row);
    else rows.set(of, [row]);
  });
  for (const [lock, list] of rows) found.set(lock, { time: Float64Array.from(list, row => time[row]!), row: Uint32Array.from(list) });
  return found;
}

/** Visits the selected waits for locks: rows of the wait table, and their length in the selected time. */
function eachWait(model: Model, state: State, visit: (row: number, lock: number, length: number) => void): void {
  const metric = waitMetric(model), table = model.profile.samples[metric], locks = table?.lock;
  if (!table || !locks) return;
  const { threads, range, mask } = selection(model, { ...state, metric });
  const [from, to] = rowsOf(table, range), weight = weightIn(table, range), inside = isIn(table, range);
  for (let row = from; row < to; row++) {
    if (locks[row] === NONE || (threads && threads[table.thread[row]!] !== 1) || (mask && mask[row] !== 1)) continue;
    if (inside(row)) visit(row, locks[row]!, weight(row));
  }
}

/** Visits the parts of the selected waits, each with the row of the wait that shows the release that ended it. */
function eachPart(model: Model, state: State, visit: (row: number, lock: number, release: number, part: number) => void): void {
  const { time, thread, details } = model.profile.samples[waitMetric(model)]!, { range } = selection(model, { ...state, metric: waitMetric(model) });
  eachWait(model, state, (row, lock, length) => {
    const releases = releasesOf(model).get(lock);
    if (!releases) return;
    const end = Math.min(time[row]!, range?.[1] ?? Infinity);
    let since = end - length;
    for (let at = lowerBound(releases.time, since + 0.5); at < releases.row.length; at++) {
      const release = releases.row[at]!;
      if (details!.waker[release] === thread[row]) continue;
      const until = Math.min(releases.time[at]!, end);
      if (until > since) visit(row, lock, release, until - since);
      since = until;
      if (releases.time[at]! >= end) return;
    }
  });
}

/** Sums by key. A wait counts once for a key, however many parts it has. */
class Sums<K> {
  private readonly known = new Map<string, { key: K; count: number; total: number; wait: number }>();
  add(key: K, wait: number, value: number): void {
    const id = JSON.stringify(key), sum = this.known.get(id);
    if (!sum) this.known.set(id, { key, count: 1, total: value, wait });
    else {
      if (sum.wait !== wait) sum.count++;
      sum.total += value;
      sum.wait = wait;
    }
  }
  sorted(tie: (a: K, b: K) => number): { key: K; count: number; total: number }[] {
    return [...this.known.values()].sort((a, b) => b.total - a.total || tie(a.key, b.key));
  }
}

/** The locks with waits, most time first. */
export function lockRows(model: Model, state: State): LockRow[] {
  const lengths = new Map<number, number[]>(), holders = new Map<number, Sums<number>>(), { address } = model.profile.locks;
  const { details } = model.profile.samples[waitMetric(model)]!;
  eachWait(model, state, (_, lock, length) => {
    const of = lengths.get(lock);
    if (of) of.push(length);
    else lengths.set(lock, [length]);
  });
  eachPart(model, state, (row, lock, release, part) => {
    let sums = holders.get(lock);
    if (!sums) holders.set(lock, sums = new Sums());
    sums.add(details!.waker[release]!, row, part);
  });
  const addressOf = (lock: number): number => (Number.isNaN(address[lock]) ? -1 : address[lock]!);
  return [...lengths].map(([lock, values]): LockRow => {
    const sorted = Float64Array.from(values).sort();
    return {
      lock, count: sorted.length, total: sorted.reduce((sum, value) => sum + value, 0), p99: quantile(sorted, 99), longest: sorted.at(-1)!,
      holder: holders.get(lock)?.sorted((a, b) => a - b)[0]?.key ?? NONE,
    };
  }).sort((a, b) => b.total - a.total || addressOf(a.lock) - addressOf(b.lock) || a.lock - b.lock);
}

/** Where threads waited for a lock, and where which threads released it. Most time first. */
export function lockSites(model: Model, state: State, wanted: number): { waiters: LockSite[]; holders: LockSite[] } {
  const { stack, details } = model.profile.samples[waitMetric(model)]!, { line } = model.profile.charges;
  const waiters = new Sums<[number]>(), holders = new Sums<[number, number]>();
  eachWait(model, state, (row, lock, length) => { if (lock === wanted) waiters.add([chargeOf(model, stack[row]!)], row, length); });
  eachPart(model, state, (row, lock, release, part) => {
    const at = chargeOf(model, details!.wakerStack[release]!);
    if (lock === wanted && at !== NONE) holders.add([at, details!.waker[release]!], row, part);
  });
  return {
    waiters: waiters.sorted(([a], [b]) => line[a]! - line[b]!).map(({ key: [charge], count, total }) => ({ charge, thread: NONE, count, total })),
    holders: holders.sorted(([a, of], [b, other]) => of - other || line[a]! - line[b]!).map(({ key: [charge, thread], count, total }) => ({ charge, thread, count, total })),
  };
}

/** Which thread waited for which, for one lock or for all, most time first. */
export function waitGraph(model: Model, state: State, wanted: number | undefined): WaitEdge[] {
  const { thread, details } = model.profile.samples[waitMetric(model)]!, edges = new Sums<[number, number]>();
  eachPart(model, state, (row, lock, release, part) => {
    if (wanted === undefined || lock === wanted) edges.add([thread[row]!, details!.waker[release]!], row, part);
  });
  return edges.sorted(([a, of], [b, other]) => a - b || of - other).map(({ key: [waiter, holder], count, total }) => ({ waiter, holder, count, total }));
}

/** `std Mutex app::LOCK at 0x7f0012345678`. */
export function lockName(model: Model, lock: number): string {
  const { kind, name, address } = model.profile.locks, where = address[lock]!, variable = model.text(name[lock]!).slice(0, 200);
  return `${model.text(kind[lock]!).slice(0, 60) || 'lock'}${variable && ` ${variable}`}${Number.isNaN(where) ? '' : ` at 0x${where.toString(16)}`}`;
}

/** The first place where a thread waited for it: `update app.rs:20`. */
export function lockSite(model: Model, lock: number): string {
  const { function: fn, file, line } = model.profile.locks;
  return placeWords(model, fn[lock]!, file[lock]!, line[lock]!);
}
