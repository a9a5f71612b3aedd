// Draws the tracks in view.

import type { Model } from '../model.ts';
import { kindColours, KINDS, nameColour } from '../palette.ts';
import type { Range } from '../state.ts';
import { lowerBound } from '../aggregate.ts';
import { activity, highest, KIND_COUNT, type ThreadSamples } from './activity.ts';
import { ticks } from './ruler.ts';
import { drawStacked } from './stacked.ts';
import { drawCpu, drawParallel, drawStates, type TimeCache } from './states.ts';
import { HEIGHT, tracksBetween, type Track, type Tracks } from './tracks.ts';

/** Pixels per step of an activity curve. */
const STEP = 3;

export interface Scene {
  model: Model;
  tracks: Tracks;
  samples: ThreadSamples;
  unit: number;
  range: Range;
  dark: boolean;
  /** 1 for each selected thread; undefined for all. */
  chosen: Uint8Array | undefined;
  /** Whether a span is in the span filter; undefined for all. */
  chosenSpans: ((span: number) => boolean) | undefined;
  cache: ActivityCache;
  /** Thread states from waits; undefined when waits were not recorded. */
  times: TimeCache | undefined;
}

/** Activity of threads for one range and width, cached for scrolling. */
export class ActivityCache {
  private readonly known = new Map<number, Float64Array>();
  private readonly sums = new WeakMap<readonly number[], { bins: Float64Array; top: number }>();
  private scale = 0;
  constructor(private readonly samples: ThreadSamples, private readonly unit: number, private readonly range: Range, readonly bins: number) {}
  of(thread: number): Float64Array {
    let bins = this.known.get(thread);
    if (!bins) {
      if (this.known.size > 256) this.known.clear();
      this.known.set(thread, bins = activity(this.samples, thread, this.unit, this.range, this.bins));
    }
    return bins;
  }
  /** The activity of several threads together, and its highest value: at least that of one thread. */
  sum(threads: readonly number[]): { bins: Float64Array; top: number } {
    let known = this.sums.get(threads);
    if (known) return known;
    const bins = new Float64Array(KIND_COUNT * this.bins), all = new Float64Array(this.bins);
    for (const thread of threads) {
      const of = activity(this.samples, thread, this.unit, this.range, this.bins);
      for (let at = 0; at < of.length; at++) {
        bins[at]! += of[at]!;
        all[at % this.bins]! += of[at]!;
      }
    }
    this.sums.set(threads, known = { bins, top: all.reduce((most, value) => Math.max(most, value), this.top) });
    return known;
  }
  get top(): number {
    return this.scale ||= highest(this.samples, this.unit, this.range, this.bins);
  }
}

export const binsFor = (width: number): number => Math.max(1, Math.floor(width / STEP));

export function drawTracks(context: CanvasRenderingContext2D, scene: Scene, width: number, height: number, scroll: number): void {
  const { range: [from, to], dark, tracks } = scene;
  context.clearRect(0, 0, width, height);
  const scale = width / (to - from);
  context.fillStyle = dark ? '#262a32' : '#eef1f5';
  for (const { at } of ticks(from, to, width)) context.fillRect(Math.round((at - from) * scale), 0, 1, height);
  for (const track of tracksBetween(tracks.list, scroll, scroll + height)) {
    const y = track.y - scroll;
    context.globalAlpha = 1;
    if (track.kind === 'process' || track.kind === 'cpus') {
      context.fillStyle = dark ? '#1e2127' : '#f6f7f9';
      context.fillRect(0, y, width, track.height);
    } else if (track.kind === 'group') {
      context.globalAlpha = scene.chosen && !track.threads.some(thread => scene.chosen![thread]) ? .3 : 1;
      drawGroup(context, scene, track.threads, width, y, track.height);
    } else if (track.kind === 'thread') {
      context.globalAlpha = scene.chosen && !scene.chosen[track.thread] ? .3 : 1;
      drawThread(context, scene, track.thread, width, y, track.hasStates ? HEIGHT.thread : track.height);
      if (track.hasStates && scene.times) drawStates(context, scene.times, track.thread, width, y + HEIGHT.thread, dark);
    } else if (track.kind === 'parallel') {
      if (scene.times) drawParallel(context, scene.times, width, y, dark);
    } else if (track.kind === 'cpu') {
      if (scene.times) drawCpu(context, scene.times, track.cpu, width, y, dark, scene.chosen);
    } else if (track.kind === 'counter') drawCounter(context, scene, track.counter, width, y, track.height);
    else drawSpans(context, scene, track, width, y);
    context.globalAlpha = 1;
    context.fillStyle = dark ? '#2e323a' : '#dfe2e7';
    context.fillRect(0, y + track.height - 1, width, 1);
  }
}

function drawThread(context: CanvasRenderingContext2D, { model, range: [from, to], cache, dark }: Scene, thread: number, width: number, y: number, height: number): void {
  const { threads } = model.profile;
  const x = (time: number) => Math.max(0, Math.min(width, (time - from) * width / (to - from)));
  const bins = cache.of(thread), count = cache.bins, top = cache.top, room = height - 4;
  const begin = x(threads.start[thread] || 0), end = Number.isNaN(threads.end[thread]!) ? width : x(threads.end[thread]!);
  context.fillStyle = dark ? '#2e323a' : '#dfe2e7';
  if (end > begin) context.fillRect(begin, y + height - 3, end - begin, 2); // while the thread existed
  const base = y + height - 1, colours = kindColours(dark);
  drawStacked(context, bins, count, KINDS.map(({ code }) => ({ kind: code, fill: colours[code]! })), { left: 0, width, base, room, top });
}

/** The sum of the threads' curves, as high as its highest bin. */
function drawGroup(context: CanvasRenderingContext2D, { cache, dark }: Scene, threads: readonly number[], width: number, y: number, height: number): void {
  const { bins, top } = cache.sum(threads), colours = kindColours(dark);
  drawStacked(context, bins, cache.bins, KINDS.map(({ code }) => ({ kind: code, fill: colours[code]! })), { left: 0, width, base: y + height - 1, room: height - 4, top });
}

function drawCounter(context: CanvasRenderingContext2D, { model, range: [from, to], dark }: Scene, counter: number, width: number, y: number, height: number): void {
  const { counterValues: { time, value } } = model.profile;
  const [first, last] = counterRows(model, counter);
  let low = Infinity, high = -Infinity;
  for (let i = first; i < last; i++) { low = Math.min(low, value[i]!); high = Math.max(high, value[i]!); }
  if (!(high > -Infinity)) return;
  low = Math.min(0, low);
  const rows = time.subarray(first, last);
  const begin = Math.max(0, lowerBound(rows, from) - 1), end = Math.min(rows.length, lowerBound(rows, to) + 1);
  const x = (t: number) => (t - from) * width / (to - from), at = (v: number) => y + height - 2 - (v - low) / (high - low || 1) * (height - 6);
  context.beginPath();
  context.lineJoin = 'bevel';
  const startX = Math.max(0, x(rows[begin] ?? from));
  let column = startX, level = at(value[first + begin] ?? low);
  context.moveTo(startX, level);
  for (let i = begin; i < end;) {
    // All values of one pixel: the step from the previous value, up and down to the extremes, then on with
    // the last.
    column = Math.max(startX, Math.min(width, x(rows[i]!)));
    let least = Infinity, most = -Infinity;
    context.lineTo(column, level);
    for (const stop = x(rows[i]!) + 1; i < end && x(rows[i]!) < stop; i++) {
      level = at(value[first + i]!);
      least = Math.min(least, level);
      most = Math.max(most, level);
    }
    context.lineTo(column, least);
    context.lineTo(column, most);
    context.lineTo(column, level);
  }
  context.lineTo(end === rows.length ? Math.min(width, x(rows[end - 1] ?? to)) : width, level);
  context.strokeStyle = dark ? '#6cb2ff' : '#1f6fc4';
  context.lineWidth = 1.25;
  context.stroke();
  context.lineTo(end === rows.length ? Math.min(width, x(rows[end - 1] ?? to)) : width, y + height - 1);
  context.lineTo(startX, y + height - 1);
  context.closePath();
  context.fillStyle = dark ? '#6cb2ff26' : '#1f6fc41f';
  context.fill();
  const peak = model.peakOf(counter);
  if (peak !== undefined && peak >= from && peak <= to) drawPeak(context, x(peak), width, y, height, dark);
}

/** A line at the time of the heap's peak, with a label next to it. */
function drawPeak(context: CanvasRenderingContext2D, x: number, width: number, y: number, height: number, dark: boolean): void {
  const left = Math.round(Math.min(width - 1, x));
  context.fillStyle = dark ? '#ffa566' : '#b3440b';
  context.fillRect(left, y + 1, 1, height - 2);
  context.font = '10px system-ui, sans-serif';
  context.textBaseline = 'top';
  const wide = context.measureText('peak').width, at = left + 4 + wide > width ? left - 4 - wide : left + 4;
  // The curve is highest here: an outline keeps the label readable.
  context.lineWidth = 3;
  context.lineJoin = 'round';
  context.strokeStyle = dark ? '#17191e' : '#fff';
  context.strokeText('peak', at, y + height / 2 - 4);
  context.fillText('peak', at, y + height / 2 - 4);
}

/** The rows of a counter in the table of values. */
export function counterRows(model: Model, counter: number): [number, number] {
  const column = model.profile.counterValues.counter;
  const bound = (wanted: number): number => {
    let low = 0, high = column.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (column[middle]! < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return [bound(counter), bound(counter + 1)];
}

function drawSpans(context: CanvasRenderingContext2D, { model, tracks, range: [from, to], chosenSpans, dark }: Scene, track: Track & { kind: 'spans' }, width: number, y: number): void {
  const { spans } = model.profile;
  const scale = width / (to - from);
  const drawn = new Float64Array(track.isFolded ? 1 : track.lanes).fill(-1);
  context.font = '10px system-ui, sans-serif';
  context.textBaseline = 'middle';
  for (const span of track.spans) {
    const start = spans.start[span]!, end = Number.isNaN(spans.end[span]!) ? to : spans.end[span]!;
    if (start > to) break;
    if (end < from) continue;
    const lane = track.isFolded ? 0 : tracks.lanes[span]!;
    // A span that starts in a taken pixel starts next to it.
    const left = Math.max(0, drawn[lane]!, (start - from) * scale), right = Math.min(width, Math.max(left + 1.5, (end - from) * scale));
    if ((end - from) * scale <= drawn[lane]! + .5) continue; // already covered
    drawn[lane] = right;
    const top = y + 4 + lane * HEIGHT.lane;
    context.globalAlpha = chosenSpans && !chosenSpans(span) ? .25 : 1;
    // Folded: shows when any span was open.
    context.fillStyle = track.isFolded ? (dark ? '#555b66' : '#b9bec6') : nameColour(model.text(spans.name[span]!));
    context.fillRect(left, top, right - left - (right - left > 3 ? .6 : 0), HEIGHT.lane - 2);
    if (!track.isFolded && right - left > 34) {
      context.fillStyle = '#16181d';
      context.fillText(cutToFit(context, model.text(spans.name[span]!), right - left - 6), left + 3, top + HEIGHT.lane / 2 - .5);
    }
  }
  context.globalAlpha = 1;
}

/** The start of a text that fits into `room` pixels. */
function cutToFit(context: CanvasRenderingContext2D, text: string, room: number): string {
  let shown = text.slice(0, 400);
  if (shown === text && context.measureText(text).width <= room) return text;
  while (shown && context.measureText(shown + '…').width > room) {
    const wide = context.measureText(shown + '…').width;
    shown = shown.slice(0, Math.min(shown.length - 1, Math.floor(shown.length * room / wide)));
  }
  return shown ? shown.replace(/[\ud800-\udbff]$/, '') + '…' : '';
}
