// Computes the position of each frame of a flame graph. Children are sorted and placed only when they come
// into view, so a tree of any size costs only its visible part.

import type { CallTree } from '../aggregate.ts';

/** The range of values from the left to the right edge. */
export interface View { start: number; span: number }

/** Boxes narrower than this are drawn as one with their lighter siblings. */
export const NARROW = 0.6;

/** The visible boxes, as columns; within a row from left to right. */
export interface Boxes {
  count: number;
  x: number[];
  width: number[];
  row: number[];
  /** The node; for a run of narrow frames, its heaviest one. */
  node: number[];
  /** 1 when the box is a run of frames too narrow to draw separately. */
  run: number[];
}

export class Layout {
  readonly tree: CallTree;
  private readonly start: Float64Array;
  private readonly children: Uint32Array;
  private readonly opened: Uint8Array;

  /**
   * `rank`: functions in the left-to-right order of their frames, or `given` for the order of the tree;
   * without it heaviest first.
   */
  constructor(tree: CallTree, private readonly rank?: Uint32Array | 'given') {
    this.tree = tree;
    this.start = new Float64Array(tree.parent.length);
    this.children = tree.children.slice();
    this.opened = new Uint8Array(tree.parent.length);
  }

  /** The value to the left of a node. */
  startOf(node: number): number {
    const path: number[] = [];
    for (let at = node; at !== 0; at = this.tree.parent[at]!) path.push(this.tree.parent[at]!);
    for (let i = path.length - 1; i >= 0; i--) this.open(path[i]!);
    return this.start[node]!;
  }

  viewOf(node: number): View {
    return { start: this.startOf(node), span: this.tree.total[node]! || 1 };
  }

  /** The children of a node, from left to right. */
  childrenOf(node: number): Uint32Array {
    this.open(node);
    return this.children.subarray(this.tree.firstChild[node]!, this.tree.firstChild[node + 1]!);
  }

  /** Sorts the children of a node and places them. */
  private open(node: number): void {
    if (this.opened[node]) return;
    this.opened[node] = 1;
    const { total, fn, firstChild } = this.tree, { rank } = this;
    const children = this.children.subarray(firstChild[node]!, firstChild[node + 1]!);
    if (rank === 'given') { /* as they are */ } else if (rank) children.sort((a, b) => rank[fn[a]!]! - rank[fn[b]!]! || a - b);
    else heaviestFirst(children, total);
    let at = this.start[node]!;
    for (const child of children) {
      this.start[child] = at;
      at += total[child]!;
    }
  }

  /** The boxes of `rows` rows from depth `top` on, when `view` fills `width` pixels. */
  visible(view: View, width: number, top: number, rows: number): Boxes {
    const { tree: { total, depth, firstChild }, start } = this;
    const boxes: Boxes = { count: 0, x: [], width: [], row: [], node: [], run: [] };
    const add = (node: number, left: number, right: number, row: number, run: number) => {
      const from = Math.max(0, left), to = Math.min(width, right);
      if (row < 0 || to <= from) return;
      boxes.x.push(from);
      boxes.width.push(to - from);
      boxes.row.push(row);
      boxes.node.push(node);
      boxes.run.push(run);
      boxes.count++;
    };
    const scale = width / view.span;
    const pending = total.length && total[0]! > 0 ? [0] : [];
    const lastOfRun = new Map<number, number>(); // a run of narrow frames, by its first one
    while (pending.length) {
      const node = pending.pop()!;
      if (node < 0) {
        const child = -node, last = lastOfRun.get(child)!;
        add(child, (start[child]! - view.start) * scale, (start[last]! + total[last]! - view.start) * scale, depth[child]! - top, 1);
        continue;
      }
      const left = (start[node]! - view.start) * scale;
      const row = depth[node]! - top;
      add(node, left, left + total[node]! * scale, row, 0);
      if (row + 1 >= rows) continue;
      this.open(node);
      const first = pending.length;
      let run = 0;
      for (let at = firstChild[node]!; at < firstChild[node + 1]!; at++) {
        const child = this.children[at]!;
        const x = (start[child]! - view.start) * scale, wide = total[child]! * scale;
        if (x > width) break;
        if (wide === 0) continue;
        if (wide >= NARROW) {
          run = 0;
          if (x + wide > 0) pending.push(child);
          continue;
        }
        if (run === 0) pending.push(-(run = child));
        if (this.rank) {
          lastOfRun.set(run, child);
          continue;
        }
        // All that follow are lighter.
        lastOfRun.set(run, this.children[firstChild[node + 1]! - 1]!);
        break;
      }
      // The leftmost is next.
      for (let low = first, high = pending.length - 1; low < high; low++, high--) {
        const swap = pending[low]!;
        pending[low] = pending[high]!;
        pending[high] = swap;
      }
    }
    return boxes;
  }
}

/**
 * Sorts nodes by weight. Most lists are short: moving a few numbers by hand is far faster than a sort with a
 * callback.
 */
function heaviestFirst(nodes: Uint32Array, total: Float64Array): void {
  if (nodes.length > 40) {
    nodes.sort((a, b) => total[b]! - total[a]! || a - b);
    return;
  }
  for (let i = 1; i < nodes.length; i++) {
    const node = nodes[i]!, weight = total[node]!;
    let at = i;
    for (; at > 0; at--) {
      const before = nodes[at - 1]!, other = total[before]!;
      if (other > weight || (other === weight && before < node)) break;
      nodes[at] = before;
    }
    nodes[at] = node;
  }
}

/** The rows needed for all frames with a weight of at least `minimum`. */
export function rowsNeeded(tree: CallTree, minimum: number): number {
  let deepest = 0;
  for (let node = 0; node < tree.total.length; node++) {
    if (tree.total[node]! >= minimum && tree.total[node]! > 0 && tree.depth[node]! > deepest) deepest = tree.depth[node]!;
  }
  return deepest + 1;
}

/** The box at a position; -1 when there is none. A box one pixel wide can be hit one pixel next to it. */
export function boxAt(boxes: Boxes, x: number, row: number): number {
  let best = -1, distance = 1.5;
  for (let i = 0; i < boxes.count; i++) {
    if (boxes.row[i] !== row) continue;
    const left = boxes.x[i]!, right = left + boxes.width[i]!;
    const away = x < left ? left - x : x >= right ? x - right : 0;
    if (away === 0) return i;
    if (away < distance) { distance = away; best = i; }
  }
  return best;
}
