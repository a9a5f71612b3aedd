// Moves from one frame to another in the same row.

import type { Layout } from './layout.ts';

/**
 * The nearest visible frame of the same depth to the left (-1) or right (1); the frame itself when there is
 * none.
 */
export function neighbour(layout: Layout, node: number, side: -1 | 1, isVisible: (node: number) => boolean): number {
  const { tree } = layout;
  const depth = tree.depth[node]!;
  let at = node;
  while (at !== 0) {
    const siblings = layout.childrenOf(tree.parent[at]!);
    let next = siblings[siblings.indexOf(at) + side];
    while (next !== undefined && isVisible(next)) {
      const inner = edge(layout, next, depth, side, isVisible);
      if (inner !== undefined) return inner;
      const position = siblings.indexOf(next) + side;
      next = siblings[position];
    }
    at = tree.parent[at]!;
  }
  return node;
}

/** The first frame of a depth inside a node, from its left or right edge. */
function edge(layout: Layout, node: number, depth: number, side: -1 | 1, isVisible: (node: number) => boolean): number | undefined {
  const { tree } = layout;
  const pending = [node];
  while (pending.length) {
    const at = pending.pop()!;
    if (tree.depth[at] === depth) return at;
    const children = [...layout.childrenOf(at)].filter(isVisible);
    pending.push(...(side > 0 ? children.reverse() : children));
  }
  return undefined;
}
