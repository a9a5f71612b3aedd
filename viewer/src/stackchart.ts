// The layout of a stack chart: one thread's stacks in time order. A frame that remains on the stack is one
// box.
//
// Only the visible part is laid out: the rows in view, and at most one sample per pixel. So a chart of a
// million samples, or of stacks 10,000 frames deep, costs no more than its visible part.

import type { Shape } from './aggregate.ts';
import { lowerBound } from './bounds.ts';
import { NONE, type SampleTable } from './payload.ts';

/** The samples of one thread. */
export interface ThreadSamples {
  readonly time: Float64Array;
  /** When each sample ends: at the next one, unless the thread was not running in between. */
  readonly until: Float64Array;
  /** The innermost node of each sample's stack in the call tree, or `NONE`. */
  readonly node: Uint32Array;
}

/** A call tree; node 0 is the root, which is not shown. */
export type Nodes = Pick<Shape, 'parent' | 'depth'>;

export interface View {
  readonly from: number;
  readonly to: number;
  readonly width: number;
  readonly firstRow: number;
  readonly rows: number;
}

/** A frame that was on the stack from `start` to `end`. */
export interface Box {
  readonly node: number;
  readonly row: number;
  readonly start: number;
  readonly end: number;
}

/** A gap to the next sample longer than this many times the usual one counts as a pause. */
const PAUSE = 2.5;

/** Pauses of fewer pixels are not drawn: they would only be noise. */
const BRIDGED = 2;

/**
 * Extracts one thread's samples from a table. `nodeOf` maps a stack to its node, or to `NONE` when it is not
 * shown.
 */
export function threadSamples(
  samples: SampleTable,
  thread: number,
  nodeOf: (stack: number) => number,
  isShown: (sample: number) => boolean = () => true,
): ThreadSamples {
  const rows: number[] = [];
  for (let sample = 0; sample < samples.time.length; sample++) {
    if (samples.thread[sample] === thread && samples.stack[sample] !== NONE && isShown(sample)) rows.push(sample);
  }
  const time = Float64Array.from(rows, sample => samples.time[sample]!);
  const node = Uint32Array.from(rows, sample => nodeOf(samples.stack[sample]!));
  const usual = usualGap(time);
  const until = new Float64Array(time.length);
  for (let at = 0; at < time.length; at++) {
    const next = at + 1 < time.length ? time[at + 1]! : Infinity;
    until[at] = next - time[at]! > PAUSE * usual ? time[at]! + usual : next;
  }
  return { time, until, node };
}

/** The median gap between two samples; a millisecond where there is none. */
function usualGap(time: Float64Array): number {
  const gaps = new Float64Array(Math.max(0, time.length - 1));
  for (let at = 0; at < gaps.length; at++) gaps[at] = time[at + 1]! - time[at]!;
  gaps.sort();
  return Math.max(1, gaps[gaps.length >> 1] ?? 1e6);
}

/** Where a thread is in matching functions: the outermost frame at each time, in time order. */
export function matchesIn(nodes: Pick<Shape, 'parent' | 'depth' | 'fn'>, thread: ThreadSamples, matched: Uint8Array, [from, to]: readonly [number, number]): Box[] {
  // Parents come before their children.
  const outermost = new Uint32Array(nodes.parent.length).fill(NONE);
  for (let node = 1; node < outermost.length; node++) {
    const around = outermost[nodes.parent[node]!]!;
    outermost[node] = around !== NONE ? around : matched[nodes.fn[node]!] === 1 ? node : NONE;
  }
  const found: { node: number; row: number; start: number; end: number }[] = [];
  for (let at = 0; at < thread.time.length; at++) {
    const [start, end, inner] = [thread.time[at]!, thread.until[at]!, thread.node[at]!];
    const node = inner === NONE ? NONE : outermost[inner]!;
    if (node === NONE || end <= from || start >= to) continue;
    const last = found.at(-1);
    if (last?.node === node && last.end === start) last.end = end;
    else found.push({ node, row: nodes.depth[node]! - 1, start, end });
  }
  return found;
}

/** The boxes in view, from left to right; equal starts from the outside in. */
export function boxesIn(nodes: Nodes, thread: ThreadSamples, view: View): Box[] {
  const boxes: Box[] = [];
  const open = new Uint32Array(view.rows).fill(NONE);
  const starts = new Float64Array(view.rows);
  const next = new Uint32Array(view.rows);
  let end = -Infinity;

  const change = (time: number): void => {
    for (let row = 0; row < view.rows; row++) {
      if (open[row] === next[row]) continue;
      if (open[row] !== NONE) boxes.push({ node: open[row]!, row: view.firstRow + row, start: starts[row]!, end: Math.min(end, time) });
      open[row] = next[row]!;
      starts[row] = time;
    }
  };

  const pixel = (view.to - view.from) / view.width;
  let at = lowerBound(thread.time.length, i => thread.until[i]! <= view.from);
  while (at < thread.time.length && thread.time[at]! < view.to) {
    const time = thread.time[at]!;
    if (time > end + BRIDGED * pixel) {
      next.fill(NONE);
      change(end);
    }
    rowsAt(nodes, thread.node[at]!, view, next);
    change(time);
    end = thread.until[at]!;
    // The next sample that starts in another pixel; those between would not be visible.
    let after = at + 1;
    if (after < thread.time.length && thread.time[after]! < time + pixel) {
      after = lowerBound(thread.time.length, i => thread.time[i]! < time + pixel);
      end = Math.max(end, thread.until[after - 1]!);
    }
    at = after;
  }
  next.fill(NONE);
  change(end);
  return boxes.sort((a, b) => a.start - b.start || a.row - b.row);
}

/** Fills in the nodes of a stack that are in view. */
function rowsAt(nodes: Nodes, innermost: number, view: View, into: Uint32Array): void {
  into.fill(NONE);
  if (innermost === NONE) return;
  for (let node = innermost; node !== 0; node = nodes.parent[node]!) {
    const row = nodes.depth[node]! - 1 - view.firstRow;
    if (row < 0) return;
    if (row < into.length) into[row] = node;
  }
}

/** The depth of the thread's deepest sample. */
export function deepest(nodes: Nodes, thread: ThreadSamples): number {
  let most = 0;
  for (const node of thread.node) if (node !== NONE) most = Math.max(most, nodes.depth[node]!);
  return most;
}
