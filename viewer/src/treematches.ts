// Where a call tree has the functions that the search matches: paths to go to, the heaviest first.

import type { FoldedTree } from './fold.ts';
import type { Outline } from './outline.ts';

/** More matches than this are not gone through one by one. */
const MOST = 10_000;

/** Paths of functions from a root row to each outermost match of a top-down tree. */
export function matchesTopDown(tree: FoldedTree, outline: Outline, matched: Uint8Array): number[][] {
  const isRoot = new Uint8Array(tree.parent.length);
  for (const root of outline.roots) for (const node of root.nodes) isRoot[node] = 1;
  const inside = new Uint8Array(tree.parent.length);
  const found: number[] = [];
  for (let node = 1; node < tree.parent.length; node++) {
    if (tree.total[node]! <= 0) continue;
    const isInside = inside[tree.parent[node]!] === 1;
    if (!isInside && matched[tree.fn[node]!] === 1) found.push(node);
    if (isInside || matched[tree.fn[node]!] === 1) inside[node] = 1;
  }
  found.sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
  const paths = new Map<string, number[]>();
  for (const node of found.slice(0, MOST)) {
    const path: number[] = [];
    let at = node;
    for (; at !== 0; at = tree.parent[at]!) {
      path.push(tree.fn[at]!);
      if (isRoot[at] === 1) break;
    }
    // Start-up frames are in no row.
    if (at === 0) continue;
    path.reverse();
    // Threads that meet after their start have the same path.
    if (!paths.has(path.join())) paths.set(path.join(), path);
  }
  return [...paths.values()];
}

/** In an inverted tree the rows without an outer one are the functions themselves. */
export const matchesInverted = (outline: Outline, matched: Uint8Array): number[][] =>
  outline.roots.filter(root => matched[root.fn] === 1).slice(0, MOST).map(root => [root.fn]);
