// Draws thread states from waits: the kinds of a thread's time, the number of threads in each, and the thread
// on each CPU.

import type { Model } from '../model.ts';
import { nthColour } from '../palette.ts';
import { NONE } from '../payload.ts';
import { cpuBoxes, runsOf, type Box, type Runs } from '../runs.ts';
import type { Range } from '../state.ts';
import { timeFill } from '../timekinds.ts';
import { kindShares, type Waits } from '../waits.ts';
import { drawStacked } from './stacked.ts';
import { HEIGHT } from './tracks.ts';

/** Pixels per step of the concurrent threads curve. */
const STEP = 2;
/** The number of threads with cached lanes. */
const MOST = 256;

/** The sums of one range and width, cached for scrolling. */
export class TimeCache {
  readonly runs: Runs | undefined;
  readonly kinds: number;
  readonly bins: number;
  readonly steps: number;
  private readonly lanes = new Map<number, Float64Array>();
  private readonly cpus = new Map<number, { boxes: Box[]; busy: number }>();
  private together: { bins: Float64Array; top: number } | undefined;

  constructor(readonly model: Model, readonly waits: Waits, readonly range: Range, width: number) {
    this.runs = runsOf(model);
    this.kinds = model.profile.timeKinds.length;
    this.steps = Math.max(1, Math.floor(width / STEP));
    this.bins = this.steps * STEP;
  }

  /** The kinds of a thread's time, one bin per pixel. */
  of(thread: number): Float64Array {
    let bins = this.lanes.get(thread);
    if (!bins) {
      if (this.lanes.size > MOST) this.lanes.clear();
      this.lanes.set(thread, bins = kindShares(this.waits, [thread], this.kinds, this.range, this.bins));
    }
    return bins;
  }

  /** How a thread's time in the range splits into kinds, in nanoseconds. */
  total(thread: number): Float64Array {
    const lane = this.of(thread), out = new Float64Array(this.kinds), width = (this.range[1] - this.range[0]) / this.bins;
    for (let kind = 0; kind < this.kinds; kind++) {
      let sum = 0;
      for (let bin = kind * this.bins; bin < (kind + 1) * this.bins; bin++) sum += lane[bin]!;
      out[kind] = sum * width;
    }
    return out;
  }

  /** How many threads are in each kind at the same time, and the maximum that are not idle. */
  get parallel(): { bins: Float64Array; top: number } {
    if (!this.together) {
      const bins = this.allLanes();
      let top = 0;
      for (let bin = 0; bin < this.steps; bin++) top = Math.max(top, this.busyKinds.reduce((sum, kind) => sum + bins[kind * this.steps + bin]!, 0));
      this.together = { bins, top: top || 1 };
    }
    return this.together;
  }

  /** All threads in steps of the curve: from the cached lanes where possible. */
  private allLanes(): Float64Array {
    const { count, tid } = this.model.profile.threads;
    if (count > MOST) return kindShares(this.waits, tid.keys(), this.kinds, this.range, this.steps);
    const bins = new Float64Array(this.kinds * this.steps);
    for (let thread = 0; thread < count; thread++) {
      const lane = this.of(thread);
      for (let kind = 0; kind < this.kinds; kind++) {
        for (let step = 0; step < this.steps; step++) for (let at = 0; at < STEP; at++) bins[kind * this.steps + step]! += lane[kind * this.bins + step * STEP + at]! / STEP;
      }
    }
    return bins;
  }

  /** All kinds of time except idle. */
  get busyKinds(): number[] {
    return [...this.model.profile.timeKinds.keys()].filter(kind => this.model.profile.timeKinds[kind]!.state !== 'idle');
  }

  cpu(cpu: number): { boxes: Box[]; busy: number } {
    let lane = this.cpus.get(cpu);
    if (!lane) this.cpus.set(cpu, lane = cpuBoxes(this.runs!, cpu, this.range, this.bins));
    return lane;
  }
}

const fills = (context: CanvasRenderingContext2D, kinds: Iterable<number>, dark: boolean) => [...kinds].map(kind => ({ kind, fill: timeFill(context, kind, dark) }));

/** The lane of a thread: from bottom to top, the share of each kind of time. */
export function drawStates(context: CanvasRenderingContext2D, times: TimeCache, thread: number, width: number, y: number, dark: boolean): void {
  drawStacked(context, times.of(thread), times.bins, fills(context, Array(times.kinds).keys(), dark), { left: 0, width, base: y + HEIGHT.states - 3, room: HEIGHT.states - 3, top: 1 });
}

export function drawParallel(context: CanvasRenderingContext2D, times: TimeCache, width: number, y: number, dark: boolean): void {
  const { bins, top } = times.parallel;
  drawStacked(context, bins, times.steps, fills(context, times.busyKinds, dark), { left: 0, width, base: y + HEIGHT.parallel - 1, room: HEIGHT.parallel - 6, top });
}

/** Each thread has a colour. A notch marks a migration from another CPU, if there is room. */
export function drawCpu(context: CanvasRenderingContext2D, times: TimeCache, cpu: number, width: number, y: number, dark: boolean, chosen: Uint8Array | undefined): void {
  const { boxes } = times.cpu(cpu), runs = times.runs!, step = width / times.bins, room = HEIGHT.cpu - 3, base = y + HEIGHT.cpu - 2;
  let colour = '';
  for (const { x, width: wide, low, share, thread } of boxes) {
    const next = threadColour(thread, dark);
    if (next !== colour) context.fillStyle = colour = next;
    context.globalAlpha = chosen && !chosen[thread] ? .3 : 1;
    context.fillRect(x * step, base - (low + share) * room, wide * step, share * room);
  }
  context.globalAlpha = 1;
  context.fillStyle = dark ? '#fff' : '#16181d';
  let marked = -Infinity;
  for (const { x, width: wide, run } of boxes) {
    const left = x * step;
    if (wide * step < 3 || left < marked + 6 || runs.from[run] === NONE || (runs.begin[run]! < times.range[0])) continue;
    marked = left;
    context.beginPath();
    context.moveTo(left, y + 1);
    context.lineTo(left + 5, y + 1);
    context.lineTo(left, y + 6);
    context.fill();
  }
}

/** Neighbours in the table of threads have different colours. */
export const threadColour = (thread: number, dark: boolean): string => nthColour(thread % 12, dark);
