// Which branches of an outline are open, and the resulting rows: a list in reading order, built without
// recursion.

import type { Branch, Outline } from './outline.ts';

/** The maximum number of rows. Expanding everything stops here. */
export const MOST_ROWS = 20_000;

/** One visible row. */
export interface Row {
  readonly branch: Branch;
  /** Identifies the path to the row. The same path has the same number for other samples too. */
  readonly path: number;
  readonly depth: number;
  readonly open: boolean;
  /** Index of the parent row in the list; -1 for a root. */
  readonly parent: number;
  /** The number of siblings, and the position among them (from 1). */
  readonly setSize: number;
  readonly place: number;
}

/** Numbers paths of functions, so that open rows remain open when the values change. */
export class Paths {
  private readonly children: Map<number, number>[] = [new Map()];

  /** The number of `fn` below the path `parent`; 0 is the empty path. */
  below(parent: number, fn: number): number {
    const known = this.children[parent]!;
    let path = known.get(fn);
    if (path === undefined) {
      path = this.children.length;
      this.children.push(new Map());
      known.set(fn, path);
    }
    return path;
  }
}

/** The rows to show. */
export function rowsOf(outline: Outline, paths: Paths, open: ReadonlySet<number>): Row[] {
  interface Level { branches: readonly Branch[]; next: number; parent: number; path: number }
  const rows: Row[] = [];
  const levels: Level[] = [{ branches: outline.roots, next: 0, parent: -1, path: 0 }];
  while (levels.length > 0 && rows.length < MOST_ROWS) {
    const level = levels[levels.length - 1]!;
    const branch = level.branches[level.next++];
    if (branch === undefined) {
      levels.pop();
      continue;
    }
    const path = paths.below(level.path, branch.fn);
    const isOpen = branch.mayOpen && open.has(path);
    rows.push({
      branch,
      path,
      depth: levels.length - 1,
      open: isOpen,
      parent: level.parent,
      setSize: level.branches.length,
      place: level.next,
    });
    if (isOpen) levels.push({ branches: outline.children(branch), next: 0, parent: rows.length - 1, path });
  }
  return rows;
}

/**
 * The paths along the heaviest branches: from the heaviest root down to where the time is spent or splits
 * into small parts.
 */
export function heaviestPath(outline: Outline, paths: Paths, least = 0.3): number[] {
  const found: number[] = [];
  let branches = outline.roots;
  let path = 0;
  let above = 0;
  while (found.length < MOST_ROWS) {
    const heaviest = branches[0];
    if (heaviest === undefined || !heaviest.mayOpen || (path !== 0 && heaviest.total < above * least)) return found;
    path = paths.below(path, heaviest.fn);
    found.push(path);
    above = heaviest.total;
    branches = outline.children(heaviest);
  }
  return found;
}

/** The paths of a branch and of everything below it, up to the maximum number of rows. */
export function pathsBelow(outline: Outline, paths: Paths, branch: Branch, path: number, most = MOST_ROWS): number[] {
  const found: number[] = [];
  const waiting: [Branch, number][] = [[branch, path]];
  for (let first = 0; first < waiting.length && found.length < most; first++) {
    const [next, at] = waiting[first]!;
    if (!next.mayOpen) continue;
    found.push(at);
    for (const child of outline.children(next)) waiting.push([child, paths.below(at, child.fn)]);
  }
  return found;
}
