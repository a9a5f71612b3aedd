// The critical path: what delayed the end of the selected time, followed backwards. Same result as `whyslow
// report FILE critical-path`.

import { lowerBound } from './aggregate.ts';
import { timeRange, type Range, type State } from './state.ts';
import { NONE } from './payload.ts';
import type { Model } from './model.ts';
import { chargeOf } from './places.ts';
import { waitsOf, type Waits } from './waits.ts';

/** What a thread did: it ran, or waited for a reason (a row of `reasons`). */
export const RAN = -1;

/** A stretch of the path. `charge` is the line of a wait: a row of `charges`, or NONE. */
export interface PathStep { thread: number; did: number; start: number; end: number; charge: number }

/** The part of the path at one line; NONE for time without samples and for run-queue delay. */
export interface PathRow { did: number; thread: number; charge: number; total: number }

/** A part of the path on one thread. */
export interface PathPart { thread: number; start: number; end: number; ran: number }

/** `thread` is the one whose end, or whose state at the end of the selected time, the path leads to. */
export interface CriticalPath { thread: number; steps: PathStep[]; rows: PathRow[]; parts: PathPart[]; total: number; ran: number }

/** The reason of a thread that is queued for a CPU. Its stack is arbitrary and not shown. */
export const CPU_REASON = 'cpu';

/** Below this share of running time, a path explains nothing: its thread is idle. */
const LEAST_RAN = 0.05;

/**
 * The path to the end of the selected time: on the first of the selected threads, or, if that is idle, on the
 * first one of the process that ran most. Undefined without recorded waits.
 */
export function criticalPath(model: Model, state: State): CriticalPath | undefined {
  const waits = waitsOf(model), { threads, processes } = model.profile;
  if (!waits) return undefined;
  const range = timeRange(state) ?? [0, model.duration], selected = state.threads ?? [...threads.tid.keys()];
  const walked = (thread: number, without: number) => {
    const end = threads.end[thread]!, walk = new Walk(model, waits, range[0], without);
    walk.backFrom(thread, Math.min(range[1], Number.isNaN(end) ? Infinity : end));
    const steps = walk.steps.reverse(), sum = (of: readonly PathStep[]): number => of.reduce((sum, { start, end }) => sum + end - start, 0);
    return { thread, steps, total: sum(steps), ran: sum(steps.filter(({ did }) => did === RAN)) };
  };
  const first = selected[0] ?? 0, idle = threads.process[first]!;
  let path = walked(first, NONE);
  if (path.ran < LEAST_RAN * path.total) {
    const ran = new Float64Array(processes.count);
    for (const thread of selected) ran[threads.process[thread]!]! += ranIn(model, waits, thread, range);
    const busiest = ran.indexOf(Math.max(...ran)), other = selected.find(thread => threads.process[thread] === busiest);
    // An idle server ends its workers by a signal: that is not what delays them.
    const found = other !== undefined && ran[busiest]! > 2 * path.ran ? walked(other, busiest === idle ? NONE : idle) : path;
    if (found.ran > path.ran) path = found;
  }
  return { ...path, rows: rowsOf(model, path.steps), parts: partsOf(path.steps) };
}

/** Whether the waker of any wait is known. */
export const knowsWakers = (model: Model): boolean => waitsOf(model)?.table.details?.waker.some(waker => waker !== NONE) ?? false;

/** How long a thread ran in a time range. */
function ranIn({ profile: { threads } }: Model, { first, begin, end }: Waits, thread: number, [from, to]: Range): number {
  const part = (start: number, stop: number): number => Math.max(0, Math.min(stop, to) - Math.max(start, from)), last = threads.end[thread]!;
  let ran = part(threads.start[thread]!, Number.isNaN(last) ? to : last);
  for (let at = first[thread]!; at < first[thread + 1]!; at++) ran -= part(begin[at]!, end[at]!);
  return Math.max(0, ran);
}

class Walk {
  /** Last first. */
  readonly steps: PathStep[] = [];

  /** The path does not continue in the process `without`. */
  constructor(private readonly model: Model, private readonly waits: Waits, private readonly from: number, private readonly without: number) {}

  /** Every step goes back in time, or to a thread that runs at that time. */
  backFrom(thread: number, time: number): void {
    const { table, begin, end, row } = this.waits, { threads, reasons } = this.model.profile;
    while (time > this.from) {
      const at = this.lastBefore(thread, time), started = threads.start[thread]!;
      if (at < 0) {
        this.add(thread, RAN, started, time, NONE);
        const starter = threads.starter[thread]!;
        if (starter === NONE || started <= this.from || !this.mayContinueIn(starter)) return;
        [thread, time] = [starter, Math.min(started, time)];
      } else if (end[at]! < time) {
        this.add(thread, RAN, end[at]!, time, NONE);
        time = end[at]!;
      } else {
        const waker = end[at] === time ? table.details?.waker[row[at]!] ?? NONE : NONE;
        if (waker !== NONE && waker !== thread && this.mayContinueIn(waker) && this.runsAt(waker, time)) {
          thread = waker;
          continue;
        }
        const reason = table.reason![row[at]!]! - 1, isQueued = reasons[reason]?.word === CPU_REASON;
        this.add(thread, reason, begin[at]!, time, isQueued ? NONE : chargeOf(this.model, table.stack[row[at]!]!));
        time = begin[at]!;
      }
    }
  }

  private mayContinueIn(thread: number): boolean {
    return this.model.profile.threads.process[thread] !== this.without;
  }

  /** The last wait that a thread started before a time: its index in the lists of `waits`; -1 for none. */
  private lastBefore(thread: number, time: number): number {
    const first = this.waits.first[thread]!, started = lowerBound(this.waits.begin.subarray(first, this.waits.first[thread + 1]!), time);
    return started > 0 ? first + started - 1 : -1;
  }

  /** Whether a thread exists and does not wait just before a time. */
  private runsAt(thread: number, time: number): boolean {
    const at = this.lastBefore(thread, time);
    return this.model.profile.threads.start[thread]! < time && (at < 0 || this.waits.end[at]! < time);
  }

  private add(thread: number, did: number, since: number, end: number, charge: number): void {
    const start = Math.max(since, this.from), before = this.steps.at(-1);
    if (end <= start) return;
    // Steps separated by a wait without length are joined.
    if (before && before.thread === thread && before.did === did && before.charge === charge && before.start === end) before.start = start;
    else this.steps.push({ thread, did, start, end, charge });
  }
}

/** Sums a path. Where threads ran, their CPU samples share the time. */
function rowsOf(model: Model, steps: readonly PathStep[]): PathRow[] {
  const sums = new Map<string, PathRow>();
  const add = (did: number, thread: number, charge: number, total: number): void => {
    const key = `${did} ${thread} ${charge}`, known = sums.get(key);
    if (known) known.total += total;
    else sums.set(key, { did, thread, charge, total });
  };
  const samples = model.profile.samples[0]!, running = new Map<number, { ran: number; last: number; sampled: Map<number, number>; all: number }>();
  for (const { thread, did, start, end, charge } of steps) {
    if (did !== RAN) {
      add(did, thread, charge, end - start);
      continue;
    }
    let of = running.get(thread);
    if (!of) running.set(thread, of = { ran: 0, last: -1, sampled: new Map(), all: 0 });
    of.ran += end - start;
    // A sample between two steps belongs to the first of them.
    for (let row = lowerBound(samples.time, Math.max(start, of.last + 1)), last = lowerBound(samples.time, end + 1); row < last; row++) {
      const stack = samples.stack[row]!;
      if (samples.thread[row] !== thread || model.notSampled?.[stack] === 1) continue;
      const at = chargeOf(model, stack);
      of.sampled.set(at, (of.sampled.get(at) ?? 0) + samples.value[row]!);
      of.all += samples.value[row]!;
    }
    of.last = end;
  }
  for (const [thread, { ran, sampled, all }] of running) {
    if (!all) add(RAN, thread, NONE, ran);
    for (const [charge, value] of sampled) if (all) add(RAN, thread, charge, share(ran, value, all));
  }
  const { line } = model.profile.charges, lineOf = (charge: number): number => (charge === NONE ? -1 : line[charge]!);
  return [...sums.values()].sort((a, b) => b.total - a.total || a.did - b.did || a.thread - b.thread || lineOf(a.charge) - lineOf(b.charge));
}

/** `ran * value / all`, rounded down. The product can be more than a number holds exactly. */
const share = (ran: number, value: number, all: number): number => Number(BigInt(Math.round(ran)) * BigInt(Math.round(value)) / BigInt(Math.max(1, Math.round(all))));

function partsOf(steps: readonly PathStep[]): PathPart[] {
  const parts: PathPart[] = [];
  for (const { thread, did, start, end } of steps) {
    const last = parts.at(-1), ran = did === RAN ? end - start : 0;
    if (last?.thread === thread) {
      last.end = end;
      last.ran += ran;
    } else parts.push({ thread, start, end, ran });
  }
  return parts;
}
