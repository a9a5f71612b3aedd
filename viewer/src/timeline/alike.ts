// Many threads of one name: one row stands for them until it is opened.

import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';

/** More threads of one name than this are one row at first: in a process, and processes of one thread. */
const MOST = { threads: 8, processes: 4 };

/** Threads of one name: of one process, or each the only one of its process. */
export interface AlikeThreads { name: string; threads: number[] }

/** The threads of each process. */
export function membersOf({ profile: { threads } }: Model): Map<number, number[]> {
  const members = new Map<number, number[]>();
  for (let thread = 0; thread < threads.count; thread++) {
    const process = threads.process[thread]!, of = members.get(process);
    if (of) of.push(thread);
    else members.set(process, [thread]);
  }
  return members;
}

/** Thread → the group it is in, for those of the given threads that are in one; groups keep their order. */
export function alikeThreads(model: Model, shown: readonly number[], members: ReadonlyMap<number, readonly number[]>): Map<number, AlikeThreads> {
  const { processes, threads } = model.profile, groups = new Map<string, AlikeThreads & { least: number }>();
  const isAlone = (process: number): boolean => members.size > 1 && process < processes.count && members.get(process)!.length === 1;
  for (const thread of shown) {
    const process = threads.process[thread]!, alone = isAlone(process);
    if (!alone && threads.name[thread] === NONE) continue;
    const name = alone ? model.processName(process) : model.text(threads.name[thread]!), key = alone ? `alone ${name}` : `${process} ${threads.name[thread]}`;
    const group = groups.get(key);
    if (group) group.threads.push(thread);
    else groups.set(key, { name, threads: [thread], least: alone ? MOST.processes : MOST.threads });
  }
  const out = new Map<number, AlikeThreads>();
  for (const { name, threads, least } of groups.values()) if (threads.length > least) for (const thread of threads) out.set(thread, { name, threads });
  return out;
}
