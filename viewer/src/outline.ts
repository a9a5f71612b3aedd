// Call trees that are opened branch by branch: top-down, inverted, the callers and the callees of a function.
//
// A branch stands for several nodes of the merged call tree. Its children are only made when it is opened, because seen
// from the inside a profile has about as many nodes as all its stacks have frames.

import type { FoldedTree } from './fold.ts';
import { NONE } from './payload.ts';

/** One row of an outline before it is laid out. */
export interface Branch {
  readonly fn: number;
  /** Value of samples that end here; for callers only the outermost row has one. */
  readonly self: number;
  readonly total: number;
  readonly inlined: boolean;
  /** Rounds of recursion that are folded into the row, and the frames of a round. */
  readonly times: number;
  readonly frames: number;
  /** Frames around the row that only start a program or a thread and are left out. */
  readonly startUp: number;
  readonly mayOpen: boolean;
  /** Nodes of the folded tree, and what each weighs in this branch. */
  readonly nodes: readonly number[];
  readonly weights: readonly number[];
}

/** A tree that makes its branches when asked. */
export interface Outline {
  readonly whole: number;
  readonly roots: readonly Branch[];
  children(branch: Branch): readonly Branch[];
}

/** From the outermost callers inwards. Frames that only start a program or a thread are left out up to the last of them. */
export function topDown(tree: FoldedTree, isStartUp: (fn: number) => boolean = () => false): Outline {
  const children = inwards(tree, tree.total, NONE);
  const groups = new Groups(tree);
  for (const root of children({ nodes: [0] })) {
    const { branch, left } = afterStartUp(root, children, isStartUp);
    for (const node of branch.nodes) groups.add(node, tree.self[node]!, tree.total[node]!, left);
  }
  return { whole: tree.total[0] ?? 0, roots: groups.inwards(child => tree.total[child]! > 0), children };
}

/** The last start-up frame of a branch that is nothing else so far: each one's only call is the next one. */
function afterStartUp(root: Branch, children: Outline['children'], isStartUp: (fn: number) => boolean): { branch: Branch; left: number } {
  let last = { branch: root, left: 0 };
  let branch = root;
  // A start is not deep; what is deeper is something else.
  for (let depth = 0; depth < 40; depth++) {
    if (depth > 0 && isStartUp(branch.fn)) last = { branch, left: depth };
    const inner = children(branch);
    if (inner.length !== 1 || branch.self > 0) break;
    branch = inner[0]!;
  }
  return isStartUp(root.fn) ? last : { branch: root, left: 0 };
}

/** From the innermost functions outwards: whose own time it is, then who called them. */
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
  // What a node weighs without further calls of the function below it: those have their own callees.
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

/** Children towards the callees, weighing `value`, without those of the function `without`. */
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

/** Children towards the callers, weighing what the branch weighs there. */
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
  startUp: number;
  nodes: number[];
  weights: number[];
}

/** Nodes gathered by function. */
class Groups {
  private readonly byFunction = new Map<number, Group>();

  constructor(private readonly tree: FoldedTree) {}

  add(node: number, self: number, total: number, startUp = 0): void {
    const fn = this.tree.fn[node]!;
    let group = this.byFunction.get(fn);
    if (group === undefined) {
      group = { fn, self: 0, total: 0, inlined: true, times: 0, frames: 0, startUp: 0, nodes: [], weights: [] };
      this.byFunction.set(fn, group);
    }
    group.self += self;
    group.startUp = Math.max(group.startUp, startUp);
    group.total += total;
    group.inlined &&= this.tree.inlined[node] === 1;
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
