// How many threads are busy at the same time, and what runs then. Same result as `whyslow report FILE
// parallelism`.
//
//     with waits recorded   a thread runs from its start to its end, except for its waits; one queued for a CPU is busy, too
//     without               a thread runs for the time that each of its CPU samples represents, up to the time of the sample

import { lowerBound, rowsOf } from './aggregate.ts';
import { selection } from './derive.ts';
import { cpuMetric } from './elapsed.ts';
import type { Model } from './model.ts';
import { NONE, type Profile, type SampleTable } from './payload.ts';
import { chargeOf } from './places.ts';
import { timeRange, type State } from './state.ts';
import { firstEndingAfter, waitsOf, type Waits } from './waits.ts';

/** A function of the user's code, or nearest to it, at one level. `charge` is its heaviest line. */
export interface BusyFunction { fn: number; charge: number; elapsed: number; share: number }

/** The time with this many busy threads, the CPU samples in it, and the functions that ran, by elapsed time. */
export interface Level { ns: number; samples: number; functions: BusyFunction[] }

export interface Parallelism {
  /** Whether it is computed from every single wait; otherwise it is an estimate from CPU samples. */
  exact: boolean;
  duration: number;
  /** By the number of busy threads. */
  levels: Level[];
}

/** The `ModuleKind` of time without samples. */
const NOT_SAMPLED = 6;

/** Whether a profile knows how many threads ran, and has more than one. */
export const hasParallelism = (model: Model): boolean =>
  model.timed && model.profile.threads.count > 1 && model.profile.charges.count > 0 && cpuMetric(model.profile) >= 0;

/** The parallelism of the selected threads and time. */
export function parallelism(model: Model, state: State): Parallelism | undefined {
  const metric = cpuMetric(model.profile);
  if (metric < 0) return undefined;
  const waits = waitsOf(model), end = model.profile.parallelism.end || model.duration;
  const [from, to] = (timeRange(state) ?? [0, end]).map(time => Math.min(time, end)) as [number, number];
  const chosen = selection(model, { ...state, metric }), counts = (thread: number): boolean => !chosen.threads || chosen.threads[thread] === 1;
  const samples = model.profile.samples[metric]!, changes = new Changes(from, to);
  if (waits) addExact(model.profile, waits, samples, counts, changes);
  else addSampled(model.profile, samples, counts, changes);
  const steps = changes.steps(), levels: Level[] = [{ ns: 0, samples: 0, functions: [] }];
  steps.at.forEach((at, step) => {
    const busy = steps.busy[step]!;
    while (levels.length <= busy) levels.push({ ns: 0, samples: 0, functions: [] });
    levels[busy]!.ns += (steps.at[step + 1] ?? to) - at;
  });
  addFunctions(model, samples, { ...chosen, counts }, steps, waits !== undefined, levels);
  const duration = to - from, exact = waits !== undefined;
  return { exact, duration, levels };
}

/** From each point in time to the next: how many threads run, and how many are busy. */
interface Steps { at: Float64Array; runs: Uint32Array; busy: Uint32Array }

/** When threads start and stop running, and queueing for a CPU, within a time range. */
class Changes {
  private readonly runs: [begin: number[], end: number[]] = [[], []];
  private readonly queue: [begin: number[], end: number[]] = [[], []];

  constructor(readonly from: number, readonly to: number) {}

  addRun(begin: number, end: number): void { this.add(this.runs, begin, end); }
  addQueued(begin: number, end: number): void { this.add(this.queue, begin, end); }

  private add(of: [number[], number[]], begin: number, end: number): void {
    const first = Math.max(begin, this.from), last = Math.min(end, this.to);
    if (first >= last) return;
    of[0].push(first);
    of[1].push(last);
  }

  /** Merges the four lists in order of time. */
  steps(): Steps {
    const lists = [...this.runs, ...this.queue].map(list => Float64Array.from(list).sort()), next = [0, 0, 0, 0];
    const most = lists.reduce((sum, list) => sum + list.length, 1);
    const at = new Float64Array(most), runs = new Uint32Array(most), busy = new Uint32Array(most);
    at[0] = this.from;
    let last = 0;
    for (;;) {
      let time = Infinity;
      for (let list = 0; list < 4; list++) time = Math.min(time, lists[list]![next[list]!] ?? Infinity);
      if (time === Infinity) break;
      if (time > at[last]!) last++;
      at[last] = time;
      for (let list = 0; list < 4; list++) while (lists[list]![next[list]!] === time) next[list]!++;
      runs[last] = next[0]! - next[1]!;
      busy[last] = runs[last]! + next[2]! - next[3]!;
    }
    return { at: at.subarray(0, last + 1), runs: runs.subarray(0, last + 1), busy: busy.subarray(0, last + 1) };
  }
}

function addExact({ threads, timeKinds, parallelism: { sealed, end } }: Profile, waits: Waits, samples: SampleTable, counts: (thread: number) => boolean, changes: Changes): void {
  // A thread that neither ran nor waited was not recorded.
  const lastSeen = new Float64Array(threads.count).fill(-1);
  samples.thread.forEach((thread, row) => { lastSeen[thread] = samples.time[row]!; });
  for (let thread = 0; thread < threads.count; thread++) {
    const first = waits.first[thread]!, last = waits.first[thread + 1]!;
    if (!counts(thread) || (first === last && lastSeen[thread]! < 0)) continue;
    let at = firstEndingAfter(waits, thread, changes.from), since = threads.start[thread]!;
    if (at > first) since = Math.max(since, waits.end[at - 1]!);
    for (; at < last && since < changes.to; at++) {
      const begin = Math.max(since, waits.begin[at]!);
      changes.addRun(since, begin);
      if (timeKinds[waits.kind[at]!]?.state === 'queued') changes.addQueued(begin, waits.end[at]!);
      since = Math.max(since, waits.end[at]!);
    }
    // A killed recorder did not write the waits that were in progress.
    const known = threads.end[thread]!;
    changes.addRun(since, !Number.isNaN(known) ? known : sealed ? end || Infinity : lastSeen[thread]!);
  }
}

function addSampled({ threads }: Profile, { time, thread, value }: SampleTable, counts: (thread: number) => boolean, changes: Changes): void {
  const known = new Float64Array(Math.max(1, threads.count));
  for (let row = 0; row < time.length; row++) {
    const of = thread[row]!;
    if (!counts(of)) continue;
    // A thread runs once at a time, even where one row stands for time without samples.
    changes.addRun(Math.max(0, time[row]! - value[row]!, known[of]!), time[row]!);
    known[of] = Math.max(known[of]!, time[row]!);
  }
}

interface Chosen { threads: Uint8Array | undefined; counts: (thread: number) => boolean; range: readonly [number, number] | undefined; mask: Uint8Array | undefined }

function addFunctions(model: Model, samples: SampleTable, { threads, counts, range, mask }: Chosen, steps: Steps, exact: boolean, levels: Level[]): void {
  const { stacks, charges, locations, modules } = model.profile, sums = new Map<number, number>();
  const [first, last] = rowsOf(samples, range), isAll = threads === undefined && samples.busy !== undefined;
  /**
   * What runs is busy, even where a wait is recorded as ending slightly late. Without waits, only the recorder
   * knows the times of all threads to the nanosecond.
   */
  const threadsAt = (row: number, instant: number): { busy: number; runs: number } => {
    if (instant < steps.at[0]!) return { busy: 1, runs: 1 };
    if (isAll) return { busy: Math.max(1, samples.busy![row]!), runs: Math.max(1, samples.running![row]!) };
    const after = lowerBound(steps.at, instant), step = steps.at[after] === instant ? after : after - 1;
    return { busy: Math.max(1, steps.busy[step]!), runs: Math.max(1, steps.runs[step]!) };
  };
  for (let row = first; row < last; row++) {
    const stack = samples.stack[row]!, charge = chargeOf(model, stack);
    if (charge === NONE || !counts(samples.thread[row]!) || (mask && mask[row] !== 1)) continue;
    // Without waits, a sample is at the end of the time that it represents.
    const value = samples.value[row]!, instant = exact ? samples.time[row]! : Math.max(0, samples.time[row]! - Math.floor(value / 2));
    const { busy: level, runs } = threadsAt(row, instant);
    if (level >= levels.length) continue;
    const module = locations.module[stacks.location[stack]!]!;
    if (module === NONE || modules.kind[module] !== NOT_SAMPLED) levels[level]!.samples++;
    const key = level * charges.count + charge;
    sums.set(key, (sums.get(key) ?? 0) + value / runs);
  }
  const found = new Map<string, BusyFunction & { most: number; level: number }>();
  for (const [key, elapsed] of sums) {
    const level = Math.floor(key / charges.count), charge = key % charges.count, fn = charges.function[charge]!;
    const known = found.get(`${level} ${fn}`);
    if (!known) {
      found.set(`${level} ${fn}`, { fn, charge, elapsed, share: 0, most: elapsed, level });
      continue;
    }
    known.elapsed += elapsed;
    if (elapsed > known.most || (elapsed === known.most && charges.line[charge]! < charges.line[known.charge]!)) [known.most, known.charge] = [elapsed, charge];
  }
  for (const { level, fn, charge, elapsed } of found.values()) levels[level]!.functions.push({ fn, charge, elapsed, share: 0 });
  for (const { functions } of levels) {
    const whole = Math.max(1, functions.reduce((sum, { elapsed }) => sum + elapsed, 0));
    for (const row of functions) [row.share, row.elapsed] = [row.elapsed / whole, Math.floor(row.elapsed)];
    functions.sort((a, b) => b.share - a.share || a.fn - b.fn);
  }
}
