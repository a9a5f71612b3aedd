// The rows of the table of threads: those of one name are one row that opens, as in the timeline.

import { membersOf, alikeThreads } from './timeline/alike.ts';
import type { Model } from './model.ts';

export interface ThreadRow {
  name: string;
  /** One thread, or those of a group. */
  threads: readonly number[];
  /** A group that can be opened, or a thread in one. */
  place: 'alone' | 'group' | 'member';
  isOpen: boolean;
}

/** Heaviest first, with the threads of an open group below it. `open` has the first thread of each open one. */
export function threadRows(model: Model, shown: readonly number[], value: (thread: number) => number, lived: (thread: number) => number, open: ReadonlySet<string>): ThreadRow[] {
  const { threads } = model.profile, sums = new Map<ThreadRow, { value: number; lived: number }>();
  const heavy = (a: number, b: number): number => value(b) - value(a) || lived(b) - lived(a) || a - b;
  const sorted = [...shown].sort(heavy), groups = alikeThreads(model, sorted, membersOf(model));
  const rows: ThreadRow[] = [];
  for (const thread of sorted) {
    const group = groups.get(thread);
    if (group && group.threads[0] !== thread) continue;
    const row: ThreadRow = group ? { name: group.name, threads: group.threads, place: 'group', isOpen: open.has(groupKey(group.threads)) }
      : { name: model.text(threads.name[thread]!) || `thread ${threads.tid[thread]}`, threads: [thread], place: 'alone', isOpen: false };
    sums.set(row, { value: row.threads.reduce((sum, of) => sum + value(of), 0), lived: row.threads.reduce((sum, of) => sum + lived(of), 0) });
    rows.push(row);
  }
  rows.sort((a, b) => sums.get(b)!.value - sums.get(a)!.value || sums.get(b)!.lived - sums.get(a)!.lived || a.threads[0]! - b.threads[0]!);
  return rows.flatMap(row => (row.isOpen ? [row, ...row.threads.map((thread): ThreadRow =>
    ({ name: model.text(threads.name[thread]!) || `thread ${threads.tid[thread]}`, threads: [thread], place: 'member', isOpen: false }))] : [row]));
}

/** The name of a group in the address: its lowest thread, whichever is heaviest in the selected time. */
export const groupKey = (threads: readonly number[]): string => String(threads.reduce((least, thread) => Math.min(least, thread)));
