// Call trees that open branch by branch: top-down, inverted, the callers and the callees of a function.
//
// A branch stands for several nodes of the merged call tree. Its children are built only when it opens,
// because seen from the inside a profile has about as many nodes as all its stacks have frames.

import type { FoldedTree } from './derive.ts';
import { NONE } from './payload.ts';

/** One row of an outline before it is laid out. */
export interface Branch {
  readonly fn: number;
  /** Value of samples that end here; for callers only the outermost row has one. */
  readonly self: number;
  readonly total: number;
  readonly inlined: boolean;
  /** Rounds of recursion folded into the row, and the frames of a round. */
  readonly times: number;
  readonly frames: number;
  /** Whether a stack has more rounds, which are left out of the profile. */
  readonly more: boolean;
  /**
   * Frames on the deepest stack that the row stands for because they only carry other code, and their
   * families.
   */
  readonly hidden: number;
  readonly families: number;
  readonly mayOpen: boolean;
  /** Nodes of the folded tree, and the weight of each in this branch. */
  readonly nodes: readonly number[];
  readonly weights: readonly number[];
}

/** A tree that builds its branches on demand. */
export interface Outline {
  readonly whole: number;
  readonly roots: readonly Branch[];
  children(branch: Branch): readonly Branch[];
}

/** From the outermost callers to their callees. */
export function topDown(tree: FoldedTree): Outline {
  const children = inwards(tree, tree.total, NONE);
  return { whole: tree.total[0] ?? 0, roots: children({ nodes: [0] }), children };
}

/** From the innermost functions, by self time, to their callers. */
export function inverted(tree: FoldedTree): Outline {
  const groups = new Groups(tree);
  for (let node = 1; node < tree.parent.length; node++) {
    const value = tree.self[node]!;
    if (value > 0) groups.add(node, value, value);
  }
  return { whole: tree.total[0] ?? 0, roots: groups.outwards(), children: outwards(tree) };
}

/** Everything outside the outermost call of a function. */
export function callersOf(tree: FoldedTree, fn: number): Outline {
  const inside = new Uint8Array(tree.parent.length);
  const groups = new Groups(tree);
  let whole = 0;
  for (let node = 1; node < tree.parent.length; node++) {
    if (inside[tree.parent[node]!] === 1) {
      inside[node] = 1;
      continue;
    }
    if (tree.fn[node] !== fn) continue;
    inside[node] = 1;
    const value = tree.total[node]!;
    if (value <= 0) continue;
    whole += value;
    groups.add(node, 0, value);
  }
  const children = outwards(tree);
  const [root] = groups.outwards();
  return { whole, roots: root ? children(root) : [], children };
}

/** Everything inside the innermost call of a function. */
export function calleesOf(tree: FoldedTree, fn: number): Outline {
  // The weight of a node without further calls of the function below it: those have their own callees.
  const value = tree.self.slice();
  const nodes: number[] = [];
  let whole = 0;
  for (let node = tree.parent.length - 1; node > 0; node--) {
    if (tree.fn[node] !== fn) {
      value[tree.parent[node]!]! += value[node]!;
    } else if (value[node]! > 0) {
      whole += value[node]!;
      nodes.push(node);
    }
  }
  const children = inwards(tree, value, fn);
  return { whole, roots: children({ nodes }), children };
}

/** Children towards the callees, weighted by `value`, without those of the function `without`. */
function inwards(tree: FoldedTree, value: Float64Array, without: number): (branch: Pick<Branch, 'nodes'>) => Branch[] {
  const counts = (child: number): boolean => value[child]! > 0 && tree.fn[child] !== without;
  return branch => {
    const groups = new Groups(tree);
    for (const node of branch.nodes) {
      for (let at = tree.firstChild[node]!; at < tree.firstChild[node + 1]!; at++) {
        const child = tree.children[at]!;
        if (counts(child)) groups.add(child, tree.self[child]!, value[child]!);
      }
    }
    return groups.inwards(counts);
  };
}

/** Children towards the callers, with the weights of the branch. */
function outwards(tree: FoldedTree): (branch: Pick<Branch, 'nodes' | 'weights'>) => Branch[] {
  return branch => {
    const groups = new Groups(tree);
    branch.nodes.forEach((node, at) => {
      const above = tree.parent[node]!;
      if (above !== 0) groups.add(above, 0, branch.weights[at]!);
    });
    return groups.outwards();
  };
}

interface Group {
  fn: number;
  self: number;
  total: number;
  inlined: boolean;
  times: number;
  frames: number;
  more: boolean;
  hidden: number;
  families: number;
  nodes: number[];
  weights: number[];
}

/** Groups nodes by function. */
class Groups {
  private readonly byFunction = new Map<number, Group>();

  constructor(private readonly tree: FoldedTree) {}

  add(node: number, self: number, total: number): void {
    const fn = this.tree.fn[node]!;
    let group = this.byFunction.get(fn);
    if (group === undefined) {
      group = { fn, self: 0, total: 0, inlined: true, times: 0, frames: 0, more: false, hidden: 0, families: 0, nodes: [], weights: [] };
      this.byFunction.set(fn, group);
    }
    group.self += self;
    group.hidden = Math.max(group.hidden, this.tree.hidden[node]!);
    group.families |= this.tree.families[node]!;
    group.total += total;
    group.inlined &&= this.tree.inlined[node] === 1;
    group.more ||= this.tree.more[node] === 1;
    if (this.tree.times[node]! > group.times) {
      group.times = this.tree.times[node]!;
      group.frames = this.tree.frames[node]!;
    }
    group.nodes.push(node);
    group.weights.push(total);
  }

  inwards(counts: (child: number) => boolean): Branch[] {
    const { firstChild, children } = this.tree;
    const opens = (node: number): boolean => {
      for (let at = firstChild[node]!; at < firstChild[node + 1]!; at++) if (counts(children[at]!)) return true;
      return false;
    };
    return this.sorted(opens);
  }

  outwards(): Branch[] {
    return this.sorted(node => this.tree.parent[node] !== 0);
  }

  private sorted(opens: (node: number) => boolean): Branch[] {
    const kept = [...this.byFunction.values()].filter(group => group.total > 0);
    kept.sort((a, b) => b.total - a.total || a.fn - b.fn);
    return kept.map(group => ({ ...group, mayOpen: group.nodes.some(opens) }));
  }
}
