// Transforms of call stacks. Each sees the frames that the ones before it left, outermost first, and keeps a
// small state per stack that inner frames continue from.

import type { Shape } from './aggregate.ts';
import { KIND, type Model } from './model.ts';
import { NONE } from './payload.ts';

export type Transform =
  | {
    kind:
      /** Only stacks with this function, without the frames around its outermost call. */
      | 'focus'
      /** Only stacks without this function. */
      | 'hide'
      /** The function's frames are left out: their weight goes to their callers. */
      | 'merge'
      /** What the function calls is left out: its weight goes to the function. */
      | 'collapse'
      /** The function's library: calls inside it are left out, so that only its entry functions remain. */
      | 'library';
    fn: number;
  }
  /**
   * One place in the call tree, by its path of functions from the root; `fn` is the last of them. `subtree`:
   * focus on it. `node`: merge it into its caller.
   */
  | { kind: 'subtree' | 'node'; fn: number; path: readonly number[] };

/** What happens to a frame. */
export const FRAME = { kept: 0, removed: 1, root: 2 } as const;
type Fate = (typeof FRAME)[keyof typeof FRAME];

interface Step {
  /** Stack → the state after its innermost frame. */
  state: Uint32Array;
  /** The fate of the next frame after this state; sets `next` if the state changes. */
  visit: (fn: number, state: number) => Fate;
  isDropped: (state: number) => boolean;
}

/**
 * A place in the call tree that the transforms before give. `isPlace` has a 1 for each node of the tree that
 * is shown there: for `subtree` there or below.
 */
export interface Found { tree: Pick<Shape, 'parent' | 'fn'>; isPlace: Uint8Array }

/** How the tree is built: `isOwn` has a 1 for functions that are shown (undefined: all), `collapse` as in `ShapeOptions`. */
interface Built { isOwn: Uint8Array | undefined; collapse: boolean }

export class Transforms {
  private readonly steps: Step[];
  private readonly now: Uint32Array;
  /** The state after the frame that was just visited. */
  private next = 0;

  /** `places`: the place of each transform that has one. */
  constructor(model: Model, transforms: readonly Transform[], places: readonly (Found | undefined)[], built: Built) {
    const stacks = model.profile.stacks.count;
    this.steps = transforms.map((transform, at) => ({ state: new Uint32Array(stacks), ...this.step(model, transform, places[at], built) }));
    this.now = new Uint32Array(transforms.length);
  }

  /** Continues from the frames of a stack; NONE: starts. */
  begin(parent: number): void {
    for (let at = 0; at < this.steps.length; at++) this.now[at] = parent === NONE ? 0 : this.steps[at]!.state[parent]!;
  }

  frame(fn: number): Fate {
    let fate: Fate = FRAME.kept;
    for (let at = 0; at < this.steps.length; at++) {
      this.next = this.now[at]!;
      const here = this.steps[at]!.visit(fn, this.now[at]!);
      this.now[at] = this.next;
      if (here === FRAME.removed) return here;
      if (here === FRAME.root) fate = here;
    }
    return fate;
  }

  end(stack: number): void {
    for (let at = 0; at < this.steps.length; at++) this.steps[at]!.state[stack] = this.now[at]!;
  }

  isDropped(stack: number): boolean {
    return this.steps.some(({ state, isDropped }) => isDropped(state[stack]!));
  }

  private step(model: Model, transform: Transform, place: Found | undefined, built: Built): Omit<Step, 'state'> {
    const { fn: wanted } = transform;
    const never = (): boolean => false;
    switch (transform.kind) {
      case 'focus':
        return { isDropped: state => state === 0, visit: (fn, state) => (state ? FRAME.kept : fn !== wanted ? FRAME.removed : this.to(1, FRAME.root)) };
      case 'hide':
        return { isDropped: state => state === 1, visit: fn => (fn === wanted ? this.to(1, FRAME.kept) : FRAME.kept) };
      case 'merge':
        return { isDropped: never, visit: fn => (fn === wanted ? FRAME.removed : FRAME.kept) };
      case 'collapse':
        return { isDropped: never, visit: (fn, state) => (state ? FRAME.removed : this.to(fn === wanted ? 1 : 0, FRAME.kept)) };
      case 'library': {
        const inside = libraryMembers(model, wanted);
        return { isDropped: never, visit: (fn, state) => (inside[fn] === 1 && state === 1 ? FRAME.removed : this.to(inside[fn]!, FRAME.kept)) };
      }
      case 'subtree': {
        if (!place) return { isDropped: never, visit: () => FRAME.kept };
        const next = follow(model, place.tree, built);
        return {
          isDropped: state => place.isPlace[state] !== 1,
          // Folded recursion leads out of a place again.
          visit: (fn, state) => {
            const node = next(fn, state), isInside = place.isPlace[node] === 1;
            return this.to(node, !isInside ? FRAME.removed : place.isPlace[state] === 1 ? FRAME.kept : FRAME.root);
          },
        };
      }
      case 'node': {
        if (!place) return { isDropped: never, visit: () => FRAME.kept };
        const next = follow(model, place.tree, built);
        return {
          isDropped: never,
          visit: (fn, state) => {
            const node = next(fn, state);
            return this.to(node, place.isPlace[node] === 1 ? FRAME.removed : FRAME.kept);
          },
        };
      }
    }
  }

  private to(state: number, fate: Fate): Fate {
    this.next = state;
    return fate;
  }
}

/** The node that a frame leads to, from the node of the frames around it: as the tree was built. */
function follow(model: Model, { parent, fn: fnOf }: Found['tree'], { isOwn, collapse }: Built): (fn: number, node: number) => number {
  const key = (node: number, fn: number): number => node * model.functionCount + fn;
  const children = new Map<number, number>();
  for (let node = 1; node < parent.length; node++) children.set(key(parent[node]!, fnOf[node]!), node);
  return (fn, node) => {
    if (isOwn && isOwn[fn] !== 1) return node;
    if (collapse) for (let around = node; around !== 0; around = parent[around]!) if (fnOf[around] === fn) return around;
    return children.get(key(node, fn)) ?? node;
  };
}

/** Whether a function of the call tree stands for folded carriers. */
export const isFold = (model: Model, fn: number): boolean => fn > model.root && fn !== model.others && model.member(fn) === fn;

/** The library of a function: its crate, or else its module; empty when unknown. */
export function libraryName(model: Model, fn: number): string {
  return model.crate(fn) || model.moduleName(model.moduleOf(fn));
}

/** 1 for each function of the same library as this one. */
function libraryMembers(model: Model, fn: number): Uint8Array {
  const crate = model.crate(fn), module = model.moduleOf(fn);
  const isInside = (other: number): boolean => (crate ? model.crate(other) === crate : !model.crate(other) && model.moduleOf(other) === module && module !== NONE);
  return Uint8Array.from({ length: model.functionCount }, (_, other) => (other === fn || isInside(other) ? 1 : 0));
}

/** 1 for each function of the user's own code. */
export const ownFunctions = (model: Model): Uint8Array => Uint8Array.from({ length: model.functionCount }, (_, fn) => (model.kind(fn) === KIND.yours ? 1 : 0));
