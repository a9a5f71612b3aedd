// Frames by name: the functions from the root to a node, and the node at such a path.

import type { CallTree } from '../aggregate.ts';

/** The functions from below the root to a node. */
export function pathOf(tree: Pick<CallTree, 'parent' | 'fn'>, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at !== 0; at = tree.parent[at]!) path.push(tree.fn[at]!);
  return path.reverse();
}

/** The node at the end of a path, or as far as the path exists in this tree. */
export function nodeAt(tree: Pick<CallTree, 'fn' | 'firstChild' | 'children'>, path: readonly number[]): { node: number; whole: boolean } {
  let node = 0;
  for (const fn of path) {
    let next = 0;
    for (let at = tree.firstChild[node]!; at < tree.firstChild[node + 1]!; at++) {
      if (tree.fn[tree.children[at]!] === fn) { next = tree.children[at]!; break; }
    }
    if (!next) return { node, whole: false };
    node = next;
  }
  return { node, whole: true };
}
