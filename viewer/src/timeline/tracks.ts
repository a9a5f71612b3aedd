// The rows of the timeline from top to bottom: concurrent threads, CPUs, counters, spans without a thread,
// then each process with its threads and their spans.

import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import { runsOf } from '../runs.ts';
import { waitsOf } from '../waits.ts';
import { alikeThreads, membersOf, type AlikeThreads } from './alike.ts';
import { packLanes } from './lanes.ts';

/** `states`: the additional height of a thread's state lane. `compact`: a process of one thread among many. */
export const HEIGHT = { parallel: 46, cpu: 15, counter: 30, lane: 12, process: 21, thread: 26, states: 16, compact: 18 } as const;
/** Spans in more lanes than this start collapsed. */
const MOST_LANES = 12;
/** More processes than this have compact rows. */
const MOST_PROCESSES = 8;
/** More CPUs than this start collapsed. */
const MOST_CPUS = 8;

export type Track = { y: number; height: number } & (
  /** How many threads are running, queued and blocked. */
  | { kind: 'parallel' }
  | { kind: 'cpus'; count: number; isFolded: boolean }
  /** A row of `Runs.cpus`. */
  | { kind: 'cpu'; cpu: number }
  | { kind: 'counter'; counter: number }
  /** Spans of a thread, or of none: `spans` in lanes, or collapsed into one line. */
  | { kind: 'spans'; thread: number; spans: readonly number[]; lanes: number; isFolded: boolean }
  | { kind: 'process'; process: number; threads: number[]; isFolded: boolean; level: number }
  /** Threads of one name, in one process or each a process of its own; their rows follow where it is open. */
  | { kind: 'group'; name: string; threads: number[]; isFolded: boolean; level: number }
  /**
   * With a state lane below its curve where waits are known. `process`: the row is also that of its process,
   * which has only this thread.
   */
  | { kind: 'thread'; thread: number; hasStates: boolean; process?: number; level: number });

export type Stop = Extract<Track, { kind: 'process' | 'group' | 'thread' }>;

export interface Tracks {
  list: Track[];
  height: number;
  /** Threads that have a track, from top to bottom. */
  threads: number[];
  /** The selectable tracks, from top to bottom: threads, groups, and processes where there are several. */
  stops: Stop[];
  /** Span → its lane among the spans of its thread. */
  lanes: Uint32Array;
}

/**
 * The tracks that the user hid or folded, by name: `parallel` the concurrent threads, `states` the thread
 * states, `cpus` toggles the default folding of the CPU lanes; `c1` a counter, `spans` all spans, `idle`
 * threads without samples, `others` unselected threads, `groups` shows threads of one name apart; `p1` folds a
 * process; `g1` opens the group that thread 1 is the first of; `s1` and `s` toggle the
 * default folding of the spans of a thread or of none.
 */
export type Changed = ReadonlySet<string>;

export const parseChanged = (text: string | undefined): Changed => new Set(text ? text.split('.') : []);

/** The text for the address after toggling one of the names. */
export function toggled(changed: Changed, name: string): string {
  const next = new Set(changed);
  if (!next.delete(name)) next.add(name);
  return [...next].join('.');
}

/** The name of a group of threads. */
export const groupName = (threads: readonly number[]): string => `g${threads[0]}`;

export const spansName = (thread: number): string => (thread === NONE ? 's' : `s${thread}`);

/** Whether the CPU lanes are folded. */
export const areCpusFolded = (cpus: number, changed: Changed): boolean => cpus > MOST_CPUS !== changed.has('cpus');

interface Spans { rows: number[]; lanes: number }
const packed = new WeakMap<Model, { lanes: Uint32Array; byThread: Map<number, Spans> }>();

/** The spans of each thread (`NONE`: of none), in their own lanes. */
function spansOf(model: Model): { lanes: Uint32Array; byThread: Map<number, Spans> } {
  let known = packed.get(model);
  if (known) return known;
  const { spans } = model.profile;
  known = { lanes: new Uint32Array(spans.count), byThread: new Map() };
  for (let span = 0; span < spans.count; span++) {
    const of = known.byThread.get(spans.thread[span]!);
    if (of) of.rows.push(span);
    else known.byThread.set(spans.thread[span]!, { rows: [span], lanes: 0 });
  }
  for (const of of known.byThread.values()) of.lanes = packLanes(of.rows, spans.start, spans.end, known.lanes);
  packed.set(model, known);
  return known;
}

/**
 * Processes as a tree: each is followed by those that it started, in the order of their start. Outermost ones
 * are sorted by weight. `level` is the distance from the outermost.
 */
function inTree(processes: Model['profile']['processes'], members: ReadonlyMap<number, readonly number[]>, heavy: (process: number) => number): { process: number; level: number }[] {
  // Processes without threads are not shown: their children belong to the nearest one around them.
  const parentOf = (process: number): number => {
    let at = process < processes.count ? processes.parent[process]! : NONE;
    for (let steps = 0; at !== NONE && !members.has(at) && steps < processes.count; steps++) at = processes.parent[at]!;
    return at === process ? NONE : at;
  };
  const children = new Map<number, number[]>(), out: { process: number; level: number }[] = [], seen = new Set<number>();
  for (const process of members.keys()) {
    const parent = parentOf(process), of = children.get(parent);
    if (of) of.push(process);
    else children.set(parent, [process]);
  }
  const start = (process: number): number => processes.start[process] || 0;
  for (const [parent, of] of children) of.sort((a, b) => (parent === NONE ? heavy(b) - heavy(a) : start(a) - start(b)) || a - b);
  const visit = (first: readonly number[]): void => {
    const pending = first.map(process => ({ process, level: 0 })).reverse();
    while (pending.length) {
      const { process, level } = pending.pop()!;
      if (seen.has(process)) continue;
      seen.add(process);
      out.push({ process, level });
      for (const child of [...children.get(process) ?? []].reverse()) pending.push({ process: child, level: level + 1 });
    }
  };
  visit(children.get(NONE) ?? []);
  // A damaged file can have processes that started each other.
  visit([...members.keys()]);
  return out;
}

/** Threads of a process are sorted by weight, busiest first. `chosen` are the selected threads. */
export function tracksOf(model: Model, weight: Float64Array, changed: Changed = new Set(), chosen?: readonly number[]): Tracks {
  const { counters, processes, threads } = model.profile;
  const { lanes, byThread } = spansOf(model);
  const list: Track[] = [];
  let y = 0;
  const add = (height: number): { y: number; height: number } => ({ y: (y += height) - height, height });
  const addSpans = (thread: number): void => {
    const of = byThread.get(thread);
    if (!of || changed.has('spans')) return;
    const isFolded = of.lanes > MOST_LANES !== changed.has(spansName(thread));
    list.push({ kind: 'spans', thread, spans: of.rows, lanes: of.lanes, isFolded, ...add((isFolded ? 1 : of.lanes) * HEIGHT.lane + 8) });
  };
  const waits = waitsOf(model), cpus = runsOf(model)?.cpus.length ?? 0;
  if (waits && !changed.has('parallel')) list.push({ kind: 'parallel', ...add(HEIGHT.parallel) });
  if (cpus) {
    const isFolded = areCpusFolded(cpus, changed);
    list.push({ kind: 'cpus', count: cpus, isFolded, ...add(HEIGHT.process) });
    for (let cpu = 0; cpu < cpus && !isFolded; cpu++) list.push({ kind: 'cpu', cpu, ...add(HEIGHT.cpu) });
  }
  const hasStates = waits !== undefined && !changed.has('states');
  for (let counter = 0; counter < counters.count; counter++) {
    if (!changed.has(`c${counter}`)) list.push({ kind: 'counter', counter, ...add(HEIGHT.counter) });
  }
  addSpans(NONE);

  const members = membersOf(model);
  const order = inTree(processes, members, process => members.get(process)!.reduce((sum, thread) => sum + weight[thread]!, 0));
  const isShown = (thread: number): boolean => !(changed.has('idle') && !weight[thread] && !byThread.has(thread))
    && !(changed.has('others') && chosen && !chosen.includes(thread));
  const inOrder: number[] = [];
  const addThread = (thread: number, level: number, process: number | undefined): void => {
    list.push({ kind: 'thread', thread, hasStates, level, ...(process === undefined ? {} : { process }), ...add(hasStates ? HEIGHT.thread + HEIGHT.states : process !== undefined && order.length > MOST_PROCESSES ? HEIGHT.compact : HEIGHT.thread) });
    addSpans(thread);
  };
  /** One row for threads of one name; theirs below it where it is open. */
  const addGroup = (name: string, of: number[], level: number, processOf: (thread: number) => number | undefined): void => {
    const isFolded = !changed.has(groupName(of));
    list.push({ kind: 'group', name, threads: of, isFolded, level, ...add(HEIGHT.thread) });
    inOrder.push(...of);
    if (!isFolded) for (const thread of of) addThread(thread, level + 1, processOf(thread));
  };
  for (const of of members.values()) of.sort((a, b) => weight[b]! - weight[a]! || a - b);
  const open = order.filter(({ process }) => !changed.has(`p${process}`)).flatMap(({ process }) => members.get(process)!);
  const alike = changed.has('groups') ? new Map<number, AlikeThreads>() : alikeThreads(model, open.filter(isShown), members);
  for (const { process, level } of order) {
    const of = members.get(process)!;
    // One row for a process of one thread, where there are several processes.
    const isFolded = changed.has(`p${process}`), isOne = of.length === 1 && order.length > 1 && process < processes.count && !isFolded;
    if (!isOne && (process !== NONE || processes.count)) list.push({ kind: 'process', process, threads: of, isFolded, level, ...add(HEIGHT.process) });
    if (isFolded) continue;
    for (const thread of of.filter(isShown)) {
      const group = alike.get(thread);
      if (!group) {
        inOrder.push(thread);
        addThread(thread, level, isOne ? process : undefined);
      } else if (group.threads[0] === thread) {
        addGroup(group.name, group.threads, level, of => (isOne ? threads.process[of] : undefined));
      }
    }
  }
  const stops = list.filter((track): track is Stop => track.kind === 'thread' || track.kind === 'group' || (track.kind === 'process' && order.length > 1));
  return { list, height: y, threads: inOrder, stops, lanes };
}

/** The tracks between two heights. */
export function tracksBetween(list: readonly Track[], from: number, to: number): Track[] {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (list[middle]!.y + list[middle]!.height <= from) low = middle + 1;
    else high = middle;
  }
  const out: Track[] = [];
  while (low < list.length && list[low]!.y < to) out.push(list[low++]!);
  return out;
}
