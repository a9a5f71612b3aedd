// Draws the critical path over the tracks: its part on each thread, and a line where it goes on in another one.

import { knowsWakers, RAN, type PathStep } from '../critical.ts';
import type { Model } from '../model.ts';
import type { Range, State } from '../state.ts';
import type { Track } from './tracks.ts';

/** The height of a part, and its distance from the top of its row. */
const BAR = 5, TOP = 2;

/** The setting of the critical path: without one it is drawn while its panel is open. */
export const PATH_SETTING = 'critical-drawn';

export const isPathDrawn = (model: Model, state: State): boolean =>
  knowsWakers(model) && (state.panel[PATH_SETTING] === undefined ? state.tab === 'critical' : state.panel[PATH_SETTING] === 'on');

export const pathColour = (dark: boolean): string => (dark ? '#ff7fb0' : '#c2185b');

/** Thread → the top of the row that shows it: its own, or that of its folded group or process. */
export function rowsOfThreads(list: readonly Track[]): Map<number, number> {
  const rows = new Map<number, number>();
  for (const track of list) {
    if (track.kind === 'thread') rows.set(track.thread, track.y);
    else if ((track.kind === 'group' || track.kind === 'process') && track.isFolded) for (const thread of track.threads) rows.set(thread, track.y);
  }
  return rows;
}

/** A part of the path in pixels, or a line to another row at `from`. */
export type PathMark = { kind: 'ran' | 'waited'; y: number; from: number; to: number } | { kind: 'hop'; from: number; y: number; until: number };

/** What to draw of a path in a time range: neighbours within a pixel are one mark. */
export function pathMarks(steps: readonly PathStep[], rows: ReadonlyMap<number, number>, [from, to]: Range, width: number): PathMark[] {
  const marks: PathMark[] = [], last = new Map<string, PathMark & { to: number }>(), hops = new Set<string>();
  const x = (time: number): number => (time - from) * width / (to - from);
  let before: { y: number | undefined; end: number } | undefined;
  for (const { thread, did, start, end } of steps) {
    const y = rows.get(thread), left = Math.max(0, x(start)), right = Math.min(width, x(end));
    if (before && y !== undefined && before.y !== undefined && before.y !== y && start >= from && start <= to) {
      const key = `${Math.round(left)} ${before.y} ${y}`;
      if (!hops.has(key)) marks.push({ kind: 'hop', from: left, y: before.y, until: y });
      hops.add(key);
    }
    before = { y, end };
    if (y === undefined || right <= 0 || left >= width || right < left) continue;
    const kind = did === RAN ? 'ran' : 'waited', key = `${kind} ${y}`, known = last.get(key);
    if (known && left - known.to < 1) known.to = Math.max(known.to, right);
    else {
      const mark = { kind, y, from: left, to: right } as const;
      marks.push(mark);
      last.set(key, mark);
    }
  }
  return marks;
}

export function drawPath(context: CanvasRenderingContext2D, marks: readonly PathMark[], scroll: number, height: number, dark: boolean): void {
  const ink = pathColour(dark), paper = dark ? '#17191e' : '#fff';
  const isSeen = (y: number): boolean => y - scroll > -40 && y - scroll < height;
  // A rim of the background keeps the path apart from the curves below it.
  for (const mark of marks) {
    if (mark.kind === 'hop' || !isSeen(mark.y)) continue;
    const y = mark.y - scroll + TOP, wide = Math.max(1, mark.to - mark.from);
    context.fillStyle = paper;
    context.fillRect(mark.from - 1, y - 1, wide + 2, BAR + 2);
    context.fillStyle = ink;
    if (mark.kind === 'ran') context.fillRect(mark.from, y, wide, BAR);
    else {
      // Hollow: the thread waits.
      context.fillRect(mark.from, y, wide, 1);
      context.fillRect(mark.from, y + BAR - 1, wide, 1);
    }
  }
  for (const mark of marks) {
    if (mark.kind !== 'hop' || (!isSeen(mark.y) && !isSeen(mark.until) && (mark.y - scroll) * (mark.until - scroll) > 0)) continue;
    const x = Math.round(mark.from) + .5, down = mark.until > mark.y ? 1 : -1;
    const begin = mark.y - scroll + TOP + BAR / 2, end = mark.until - scroll + TOP + (down > 0 ? 0 : BAR);
    for (const [colour, wide] of [[paper, 3.5], [ink, 1.5]] as const) {
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.beginPath();
      context.moveTo(x, begin);
      context.lineTo(x, end);
      context.stroke();
    }
    context.fillStyle = ink;
    context.beginPath();
    context.moveTo(x - 3.5, end - 6 * down);
    context.lineTo(x + 3.5, end - 6 * down);
    context.lineTo(x, end);
    context.fill();
  }
}

/** Whether a thread is on the path at a time, in words. */
export function pathWords(steps: readonly PathStep[], threads: readonly number[], time: number): string {
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (steps[middle]!.end <= time) low = middle + 1;
    else high = middle;
  }
  const step = steps[low];
  return step && step.start <= time && threads.includes(step.thread) ? `critical path: ${step.did === RAN ? 'ran' : 'waited'}` : '';
}
