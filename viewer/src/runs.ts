// Which thread ran on which CPU when: a thread runs from the end of one wait to the start of the next, on the
// CPU that it then leaves.

import { lowerBound } from './aggregate.ts';
import type { Model } from './model.ts';
import { NONE } from './payload.ts';
import type { Range } from './state.ts';
import { waitsOf } from './waits.ts';

/** The runs on the CPU with the number `cpus[C]` are the rows `first[C] .. first[C + 1]`, in order of time. */
export interface Runs {
  cpus: readonly number[];
  first: Uint32Array;
  begin: Float64Array;
  end: Float64Array;
  thread: Uint32Array;
  /** The CPU that the thread ran on before, if it is a different one; else NONE. */
  from: Uint32Array;
  /** Thread → how often it moved to another CPU. */
  migrations: Uint32Array;
}

const known = new WeakMap<Model, { runs: Runs | undefined }>();

/** The runs of a profile; undefined when the waits have no CPUs. */
export function runsOf(model: Model): Runs | undefined {
  let found = known.get(model);
  if (!found) known.set(model, found = { runs: findRuns(model) });
  return found.runs;
}

/** In order of their start: a run starts at the end of a wait, and waits are sorted by that. */
function findRuns(model: Model): Runs | undefined {
  const waits = waitsOf(model), cpuOf = waits?.table.details?.cpu;
  if (!waits || !cpuOf) return undefined;
  const { table: { time, thread: threadOf } } = waits, threads = model.profile.threads.count, most = time.length + threads;
  const begin = new Float64Array(most), end = new Float64Array(most), thread = new Uint32Array(most), cpu = new Uint32Array(most), from = new Uint32Array(most);
  const migrations = new Uint32Array(threads), last = new Uint32Array(threads).fill(NONE);
  let count = 0;
  /** The run of a thread from a time until one of its waits. */
  const add = (of: number, since: number, wait: number): void => {
    if (wait === waits.first[of + 1]!) return;
    const on = cpuOf[waits.row[wait]!]!, until = waits.begin[wait]!;
    if (on === NONE || until <= since) return;
    const isMoved = last[of] !== NONE && last[of] !== on;
    if (isMoved) migrations[of]!++;
    begin[count] = since;
    end[count] = until;
    thread[count] = of;
    cpu[count] = on;
    from[count++] = isMoved ? last[of]! : NONE;
    last[of] = on;
  };
  const next = waits.first.slice();
  const starting = Array.from({ length: threads }, (_, of) => of).sort((a, b) => waits.start[a]! - waits.start[b]! || a - b);
  let started = 0;
  for (let row = 0; row < time.length; row++) {
    for (; started < threads && waits.start[starting[started]!]! <= time[row]!; started++) add(starting[started]!, waits.start[starting[started]!]!, waits.first[starting[started]!]!);
    const of = threadOf[row]!, wait = next[of]!++;
    add(of, waits.end[wait]!, wait + 1);
  }
  if (!count) return undefined;
  const cpus = [...new Set(cpu.subarray(0, count))].sort((a, b) => a - b), place = new Map(cpus.map((number, at) => [number, at]));
  const first = new Uint32Array(cpus.length + 1);
  for (let at = 0; at < count; at++) first[place.get(cpu[at]!)! + 1]!++;
  for (let at = 0; at < cpus.length; at++) first[at + 1]! += first[at]!;
  const free = first.slice();
  const runs: Runs = { cpus, first, migrations, begin: new Float64Array(count), end: new Float64Array(count), thread: new Uint32Array(count), from: new Uint32Array(count) };
  for (let at = 0; at < count; at++) {
    const of = place.get(cpu[at]!)!, row = free[of]!++;
    // Only one thread is on a CPU at a time. Apparent overlaps, from rounded times or lost records, go to the
    // earlier run.
    runs.begin[row] = Math.max(begin[at]!, row > first[of]! ? runs.end[row - 1]! : 0);
    runs.end[row] = Math.max(end[at]!, runs.begin[row]!);
    runs.thread[row] = thread[at]!;
    runs.from[row] = from[at]!;
  }
  return runs;
}

/** A part of a CPU's lane: bins from `x` on, and in them a share of the time, above `low`. */
export interface Box { x: number; width: number; low: number; share: number; thread: number; run: number }

/** The first run on a CPU that ends after a time, and the end of the CPU's runs. */
function rowsAfter({ first, end }: Runs, cpu: number, time: number): [number, number] {
  return [first[cpu]! + lowerBound(end.subarray(first[cpu]!, first[cpu + 1]!), time + 1e-3), first[cpu + 1]!];
}

/**
 * The lane of a CPU in `count` bins. Runs that share a bin are stacked, each with its share of the bin's
 * time.
 */
export function cpuBoxes(runs: Runs, cpu: number, [from, to]: Range, count: number): { boxes: Box[]; busy: number } {
  const boxes: Box[] = [], scale = count / (to - from);
  let busy = 0;
  const partial = (bin: number, share: number, thread: number, run: number): void => {
    if (!(share > 0) || bin >= count) return;
    // The boxes of one bin follow each other, one per thread.
    for (let at = boxes.length - 1; at >= 0 && boxes[at]!.x === bin && boxes[at]!.width === 1; at--) {
      if (boxes[at]!.thread === thread) { boxes[at]!.share += share; return; }
    }
    boxes.push({ x: bin, width: 1, low: 0, share, thread, run });
  };
  const [start, stop] = rowsAfter(runs, cpu, from);
  for (let run = start; run < stop; run++) {
    const low = Math.max(0, (runs.begin[run]! - from) * scale), high = Math.min(count, (runs.end[run]! - from) * scale), thread = runs.thread[run]!;
    if (low >= count) break;
    if (!(high > low)) continue;
    busy += high - low;
    const a = Math.floor(low), b = Math.floor(high);
    if (a === b) { partial(a, high - low, thread, run); continue; }
    const whole = low === a ? a : a + 1;
    if (whole > a) partial(a, whole - low, thread, run);
    if (b > whole) boxes.push({ x: whole, width: b - whole, low: 0, share: 1, thread, run });
    partial(b, high - b, thread, run);
  }
  for (let at = 1; at < boxes.length; at++) {
    const box = boxes[at]!, below = boxes[at - 1]!;
    if (below.x === box.x) box.low = below.low + below.share;
  }
  return { boxes, busy: busy / count };
}

/** The run on a CPU at a time, or within `slack` of it; -1 when no recorded thread ran there. */
export function runAt(runs: Runs, cpu: number, time: number, slack: number): number {
  const [at, stop] = rowsAfter(runs, cpu, time - slack);
  return at < stop && runs.begin[at]! <= time + slack ? at : -1;
}

/** How many runs of how many threads are on a CPU between two times. */
export function runsBetween(runs: Runs, cpu: number, from: number, to: number): { runs: number; threads: number } {
  const [start, stop] = rowsAfter(runs, cpu, from), threads = new Set<number>();
  let at = start;
  for (; at < stop && runs.begin[at]! < to; at++) threads.add(runs.thread[at]!);
  return { runs: at - start, threads: threads.size };
}
