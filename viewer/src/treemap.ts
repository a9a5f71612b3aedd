// Where the rectangles of a tree map are: squarified, as in `crates/whyslow-render/src/treemap/layout.rs`.

import type { CallTree } from './aggregate.ts';

export interface Rect { x: number; y: number; width: number; height: number }

/** A rectangle of the map: a node of the tree with its place. */
export interface Block extends Rect {
  node: number;
  /** 0 for a child of the shown node, 1 for a grandchild. */
  depth: 0 | 1;
  /** Whether there is a strip for its name above what is in it. */
  hasStrip: boolean;
}

/** The height of the strip with the name of a group. */
export const STRIP = 16;
/** Smaller rectangles are not drawn, in square pixels. */
const SMALLEST = 4;

/** A rectangle for each value (largest first), with an area in proportion; together they fill the whole. */
export function squarify(values: readonly number[], whole: Rect): Rect[] {
  const sum = values.reduce((sum, value) => sum + Math.max(0, value), 0), area = whole.width * whole.height;
  if (sum <= 0 || area <= 0) return values.map(() => ({ ...whole, width: 0, height: 0 }));
  const areas = values.map(value => Math.max(0, value) * area / sum), placed: Rect[] = [];
  let left = whole;
  for (let from = 0; from < areas.length;) {
    const side = Math.min(left.width, left.height);
    let to = from + 1, row = areas[from]!, worst = worstRatio(areas, from, to, row, side);
    while (to < areas.length) {
      const next = worstRatio(areas, from, to + 1, row + areas[to]!, side);
      if (next > worst) break;
      row += areas[to++]!;
      worst = next;
    }
    left = place(areas, from, to, row, left, placed);
    from = to;
  }
  return placed;
}

/** How far the least square rectangle of a row is from a square. */
function worstRatio(areas: readonly number[], from: number, to: number, row: number, side: number): number {
  if (row <= 0 || side <= 0) return Infinity;
  const thickness = row / side;
  let worst = 0;
  for (let at = from; at < to; at++) {
    const length = areas[at]! / thickness;
    worst = Math.max(worst, length <= 0 ? Infinity : Math.max(thickness / length, length / thickness));
  }
  return worst;
}

/** Places a row along the shorter side, and returns what is left. */
function place(areas: readonly number[], from: number, to: number, row: number, left: Rect, placed: Rect[]): Rect {
  const isColumn = left.width >= left.height;
  const side = isColumn ? left.height : left.width, room = isColumn ? left.width : left.height;
  const thickness = side > 0 ? Math.min(room, row / side) : 0;
  let at = 0;
  for (let index = from; index < to; index++) {
    const length = thickness > 0 ? Math.max(0, Math.min(side - at, areas[index]! / thickness)) : 0;
    placed.push(isColumn ? { x: left.x, y: left.y + at, width: thickness, height: length } : { x: left.x + at, y: left.y, width: length, height: thickness });
    at += length;
  }
  return isColumn ? { ...left, x: left.x + thickness, width: left.width - thickness } : { ...left, y: left.y + thickness, height: left.height - thickness };
}

/** The children of a node with a value, largest first. */
export function childrenOf(tree: CallTree, node: number): number[] {
  const children = [...tree.children.subarray(tree.firstChild[node]!, tree.firstChild[node + 1]!)];
  return children.filter(child => tree.total[child]! > 0).sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
}

/** The map of a node: its children, and in each of them its own children. A group stands before what is in it. */
export function blocks(tree: CallTree, node: number, width: number, height: number): Block[] {
  const found: Block[] = [];
  const inside = childrenOf(tree, node);
  const places = squarify(inside.map(child => tree.total[child]!), { x: 0, y: 0, width, height });
  inside.forEach((child, at) => {
    const rect = places[at]!;
    if (rect.width * rect.height < SMALLEST) return;
    const deeper = childrenOf(tree, child), hasStrip = deeper.length > 0 && rect.width > 40 && rect.height > 2 * STRIP;
    found.push({ ...rect, node: child, depth: 0, hasStrip });
    if (!deeper.length) return;
    const strip = hasStrip ? STRIP : 1;
    const frame = { x: rect.x + 1, y: rect.y + strip, width: Math.max(0, rect.width - 2), height: Math.max(0, rect.height - strip - 1) };
    const values = deeper.map(grandchild => tree.total[grandchild]!);
    // What belongs to the group itself keeps its part of the area free.
    values.push(Math.max(0, tree.total[child]! - values.reduce((sum, value) => sum + value, 0)));
    squarify(values, frame).forEach((rect, index) => {
      const grandchild = deeper[index];
      if (grandchild !== undefined && rect.width * rect.height >= SMALLEST) found.push({ ...rect, node: grandchild, depth: 1, hasStrip: false });
    });
  });
  return found;
}
