// Folds a call tree: recursion, and code that only carries other code (start-up, thread starts, executors,
// panic catching, forwarded calls). The profile says which functions carry. Same result as `whyslow report
// FILE tree`.
//
// The shape of the folded tree does not depend on the selected samples, so it is built once per tree. A new
// time selection only sums the values again.

import { Growing, type Shape } from './aggregate.ts';

/** Cycles of more functions than this are not recognised as recursion. */
const LONGEST_CYCLE = 4;
/** Shorter chains of carriers are faster to read than a folded row. */
const LEAST_FRAMES = 3;

/** What to fold in a profile. */
export interface Foldable {
  /** Function → its family; -1 for one that is not folded. */
  readonly family: Int8Array;
  /** Whether code of one family counts as part of the other family around it. */
  joins(family: number, around: number): boolean;
  /** The function that represents a family. */
  fn(family: number): number;
  /** Whether a function is one: code without a symbol may be several. */
  isFunction(fn: number): boolean;
  /** Whether a function stands for recursive calls that are left out of deep stacks. */
  isLeftOut(fn: number): boolean;
}

type Frames = Pick<Shape, 'parent' | 'fn' | 'inlined'>;

/** A folded tree without values. Node 0 is the root, its own parent. */
export interface Folded extends Frames {
  /** Rounds on the deepest stack per node; 0 without recursion. */
  times: Uint32Array;
  /** Frames in one round per node. */
  frames: Uint8Array;
  /** 1 where a stack has more rounds, which are left out of the profile. */
  more: Uint8Array;
  /** Frames on the deepest stack that a node represents because they carry others; 0 for a plain frame. */
  hidden: Uint32Array;
  /** Their families, one bit each. */
  families: Uint32Array;
  /** Node of the whole tree → its folded node. */
  nodeOf: Uint32Array;
}

/**
 * Folds a tree. Parents remain before their children. `self` is the weight of each node, over all samples and independent of
 * the selection; `small` is too little weight for a separate branch.
 */
export function fold(tree: Frames, self: Float64Array, foldable: Foldable, small: number): Folded {
  const total = summed(tree.parent, self), regions = new Regions(tree, total, foldable);
  return regions.hidden.some(frames => frames > 0) ? regions.joined(self, small) : regions.asTheyAre();
}

function summed(parent: Uint32Array, self: Float64Array): Float64Array {
  const total = self.slice();
  for (let node = total.length - 1; node > 0; node--) total[parent[node]!]! += total[node]!;
  return total;
}

/** 1 for each node of a chain of carriers that is long enough on some stack. */
function inRegions({ parent, fn }: Frames, total: Float64Array, { family }: Foldable): Uint8Array {
  const deepest = new Uint32Array(parent.length);
  const carried = (node: number): boolean => node !== 0 && total[node]! > 0 && family[fn[node]!]! >= 0;
  for (let node = 1; node < deepest.length; node++) if (carried(node)) deepest[node] = deepest[parent[node]!]! + 1;
  for (let node = deepest.length - 1; node > 0; node--) {
    const around = parent[node]!;
    if (carried(node) && carried(around)) deepest[around] = Math.max(deepest[around]!, deepest[node]!);
  }
  // The outermost node of a region knows how deep it is.
  for (let node = 1; node < deepest.length; node++) if (carried(node) && carried(parent[node]!)) deepest[node] = deepest[parent[node]!]!;
  return Uint8Array.from(deepest, frames => (frames >= LEAST_FRAMES ? 1 : 0));
}

/** A tree with one node per region of carriers and family, and one per round of recursion. */
class Regions {
  private readonly growing: Growing;
  readonly nodeOf: Uint32Array;
  readonly hidden: Uint32Array;
  readonly families: Uint32Array;
  /** The function of a folded node with a single function; -1 for several. */
  private readonly only: Int32Array;
  readonly times: Uint32Array;
  readonly frames: Uint8Array;
  readonly more: Uint8Array;
  /** Per node of the whole tree: the round it is in, so that its children can continue it. */
  private readonly round: { frames: Uint8Array; times: Uint32Array; since: Uint32Array; more: Uint8Array };

  constructor(private readonly tree: Frames, private readonly total: Float64Array, private readonly foldable: Foldable) {
    const count = tree.parent.length, u32 = (): Uint32Array => new Uint32Array(count), u8 = (): Uint8Array => new Uint8Array(count);
    this.growing = new Growing(tree.fn[0] ?? 0);
    [this.nodeOf, this.hidden, this.families, this.times, this.frames, this.more, this.only] = [u32(), u32(), u32(), u32(), u8(), u8(), new Int32Array(count)];
    this.round = { frames: u8(), times: u32(), since: u32(), more: u8() };
    const inRegion = inRegions(tree, total, foldable), inside = new Int8Array(count).fill(-1), depth = u32();
    for (let node = 1; node < count; node++) {
      const above = tree.parent[node]!, fn = tree.fn[node]!;
      if (!inRegion[node]) {
        this.step(node, fn, tree.inlined[node]!);
        continue;
      }
      const own = foldable.family[fn]!, around = inside[above]!, isJoined = around >= 0 && foldable.joins(own, around);
      if (isJoined) this.stay(node);
      else this.step(node, foldable.fn(own), 0);
      const family = inside[node] = isJoined ? around : own, at = this.nodeOf[node]!;
      depth[node] = isJoined ? depth[above]! + 1 : 1;
      this.only[at] = this.hidden[at] === 0 || this.only[at] === fn ? fn : -1;
      this.hidden[at] = Math.max(this.hidden[at]!, depth[node]!);
      this.families[at]! |= 1 << family;
    }
  }

  /** A frame that is a part of the node around it. */
  private stay(node: number): void {
    const above = this.tree.parent[node]!, { frames, times, since, more } = this.round;
    this.nodeOf[node] = this.nodeOf[above]!;
    frames[node] = frames[above]!;
    times[node] = times[above]!;
    since[node] = since[above]!;
    more[node] = more[above]!;
  }

  /** Goes down one frame; back to the end of the first round if the frame completes another one. */
  private step(node: number, fn: number, inlined: number): void {
    const { growing, round } = this, under = this.nodeOf[this.tree.parent[node]!]!;
    this.stay(node);
    if (this.foldable.isLeftOut(fn) && round.times[node]! >= 2 && round.since[node]! < round.frames[node]!) {
      let first = under;
      for (let step = 0; step < round.since[node]!; step++) first = growing.parent[first]!;
      round.more[node] = 1;
      if (this.times[first]! > 1 && this.total[node]! > 0) this.more[first] = 1;
      return;
    }
    const back = roundBack(growing, under, fn);
    if (back === 0) {
      this.nodeOf[node] = growing.child(under, fn, inlined);
      round.since[node]!++;
      return;
    }
    let first = under, isRecursion = true;
    for (let step = 0, at = under; step < back; step++, at = growing.parent[at]!) {
      first = at;
      isRecursion &&= this.foldable.isFunction(growing.fn[at]!);
    }
    const goesOn = round.frames[node] === back && round.since[node]! + 1 === back;
    round.times[node] = goesOn ? round.times[node]! + 1 : 2;
    if (!goesOn) round.more[node] = 0;
    round.frames[node] = back;
    round.since[node] = 0;
    this.nodeOf[node] = first;
    growing.inlined[first]! &= inlined;
    if (isRecursion && this.total[node]! > 0 && round.times[node]! > this.times[first]!) {
      this.times[first] = round.times[node]!;
      this.frames[first] = back;
      this.more[first]! |= round.more[node]!;
    }
  }

  asTheyAre(): Folded {
    return this.withTree(this.growing, this, this.nodeOf);
  }

  /**
   * Joins a folded node with a folded child when nothing else below it is worth showing; and never folds a
   * single frame.
   */
  joined(self: Float64Array, small: number): Folded {
    const { growing: { parent, fn, inlined, count }, nodeOf, times, frames, more, only } = this, hidden = this.hidden.slice(), families = this.families.slice();
    const sums = new Float64Array(count);
    nodeOf.forEach((at, node) => { sums[at]! += self[node]!; });
    const total = summed(parent, sums);
    const joins = (node: number): boolean => !!this.hidden[node] && !!this.hidden[parent[node]!] && times[node]! < 2 && total[parent[node]!]! - total[node]! <= small;
    for (let node = count - 1; node > 0; node--) {
      if (!joins(node)) continue;
      hidden[parent[node]!]! += hidden[node]!;
      families[parent[node]!]! |= families[node]!;
    }
    const joined = new Growing(fn[0]!), to = new Uint32Array(count);
    const kept = { times: new Uint32Array(count), frames: new Uint8Array(count), more: new Uint8Array(count), hidden: new Uint32Array(count), families: new Uint32Array(count) };
    for (let node = 1; node < count; node++) {
      const under = to[parent[node]!]!;
      if (joins(node)) {
        to[node] = under;
        continue;
      }
      const isOne = hidden[node] === 1 && only[node]! >= 0;
      const at = to[node] = joined.child(under, isOne ? only[node]! : fn[node]!, inlined[node]!);
      if (times[node]! > kept.times[at]!) [kept.times[at], kept.frames[at], kept.more[at]] = [times[node]!, frames[node]!, more[node]!];
      if (!hidden[node] || isOne) continue;
      kept.hidden[at] = Math.max(kept.hidden[at]!, hidden[node]!);
      kept.families[at]! |= families[node]!;
    }
    return this.withTree(joined, kept, nodeOf.map(node => to[node]!));
  }

  private withTree({ parent, fn, inlined, count }: Growing, of: Omit<Folded, keyof Frames | 'nodeOf'>, nodeOf: Uint32Array): Folded {
    return {
      parent: parent.slice(0, count), fn: fn.slice(0, count), inlined: inlined.slice(0, count), nodeOf,
      times: of.times.slice(0, count), frames: of.frames.slice(0, count), more: of.more.slice(0, count), hidden: of.hidden.slice(0, count), families: of.families.slice(0, count),
    };
  }
}

/**
 * The number of frames in the round that a call of `name` from `node` completes again; 0 when it completes
 * none.
 */
function roundBack({ parent, fn }: Growing, node: number, name: number): number {
  let end = node;
  for (let frames = 1; frames <= LONGEST_CYCLE && end !== 0; frames++, end = parent[end]!) {
    if (fn[end] !== name) continue;
    let inner = node;
    let outer = parent[end]!;
    let same = 1;
    while (same < frames && outer !== 0 && fn[inner] === fn[outer]) {
      inner = parent[inner]!;
      outer = parent[outer]!;
      same++;
    }
    if (same === frames) return frames;
  }
  return 0;
}
