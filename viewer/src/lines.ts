// The cost of one function's source lines, including the code inlined into it.
//
// A location is an address with its frames, outermost first. The function's part of a location is its own
// frame and every frame inlined into it. So an inlined line of another file counts at that line, and the line
// with the call includes it in its total.

import { NONE, type Profile } from './payload.ts';

/** The tables of the payload that this needs. */
export type CodeTables = Pick<Profile, 'stacks' | 'locations' | 'frames'>;

/** The cost of a line, a file or an address. A sample counts once in each. */
export interface Cost {
  /** Samples exactly here. */
  self: number;
  /** Samples here or in something called from here. */
  total: number;
}

export interface LineCost extends Cost {
  readonly file: number;
  readonly line: number;
}

export interface FileCost extends Cost {
  readonly file: number;
}

export interface LocationCost extends Cost {
  readonly location: number;
  /** Rows of `lines` in the function's part of the location, outermost first. */
  readonly lines: readonly number[];
}

export interface FunctionCosts {
  /** The function with everything inlined into it. */
  readonly whole: Cost;
  readonly lines: LineCost[];
  /** Files with lines of the function, most self time first. */
  readonly files: FileCost[];
  readonly locations: LocationCost[];
}

/**
 * The function's numbers as in the function table. A function that has no row of its own there (its
 * instances are merged) has the numbers of its code.
 */
export const figuresOf = (table: { self: Float64Array; total: Float64Array }, fn: number, { whole }: Pick<FunctionCosts, 'whole'>): Cost =>
  (table.total[fn]! > 0 ? { self: table.self[fn]!, total: table.total[fn]! } : whole);

/**
 * Sums the samples per line, file and address of the functions that `isWanted` selects. With `isShown`, the
 * weight of other functions goes to the nearest line of a shown function around them.
 */
export function functionCosts(tables: CodeTables, weights: Float64Array, isWanted: (fn: number) => boolean, isShown?: (fn: number) => boolean): FunctionCosts {
  const parts = new Parts(tables, isWanted, isShown);
  const stackSelf = isShown ? atShown(tables, weights, isShown) : weights;
  const { parent, location } = tables.stacks;
  const stackTotal = withCallees(parent, stackSelf);
  // Only stacks with a location of the function matter. They form a tree, usually a small one: `above` of
  // each is the next one around it.
  const found: number[] = [];
  const above: number[] = [];
  const nearest = new Int32Array(parent.length).fill(-1);
  for (let stack = 0; stack < parent.length; stack++) {
    if (stackTotal[stack]! <= 0) continue;
    const around = parent[stack] === NONE ? -1 : nearest[parent[stack]!]!;
    nearest[stack] = around;
    if (parts.at(location[stack]!) === undefined) continue;
    nearest[stack] = found.length;
    found.push(stack);
    above.push(around);
  }

  const whole: Cost = { self: 0, total: 0 };
  // How often each line, file and location is on the stack during the walk.
  const openLines = new Uint32Array(parts.lines.length);
  const openFiles = new Uint32Array(parts.files.length);
  const openLocations = new Uint32Array(parts.locations.length);
  const open = (counts: Uint32Array, rows: readonly Cost[], row: number, value: number): void => {
    if (counts[row]!++ === 0) rows[row]!.total += value;
  };
  const enter = (at: number): void => {
    const stack = found[at]!;
    const part = parts.at(location[stack]!)!;
    const value = stackTotal[stack]!;
    const own = stackSelf[stack]!;
    if (above[at] === -1) whole.total += value;
    whole.self += own;
    for (const row of part.lines) open(openLines, parts.lines, row, value);
    for (const row of part.files) open(openFiles, parts.files, row, value);
    open(openLocations, parts.locations, part.row, value);
    parts.lines[part.innermost]!.self += own;
    parts.files[parts.fileRowOfLine[part.innermost]!]!.self += own;
    parts.locations[part.row]!.self += own;
  };
  const leave = (at: number): void => {
    const part = parts.at(location[found[at]!]!)!;
    for (const row of part.lines) openLines[row]!--;
    for (const row of part.files) openFiles[row]!--;
    openLocations[part.row]!--;
  };
  walk(above, enter, leave);

  const used = parts.files.filter(file => file.total > 0);
  const files = used.sort((a, b) => b.self - a.self || b.total - a.total || a.file - b.file);
  return { whole, lines: parts.lines, files, locations: parts.locations };
}

/** The weight of each stack including the callees of its innermost location that have no shown frame. */
function atShown({ stacks, locations, frames }: CodeTables, weights: Float64Array, isShown: (fn: number) => boolean): Float64Array {
  const hasShown = new Uint8Array(locations.count);
  for (let location = 0; location < locations.count; location++) {
    for (let frame = locations.frames[location]!; frame < locations.frames[location + 1]!; frame++) {
      if (isShown(frames.function[frame]!)) hasShown[location] = 1;
    }
  }
  const moved = weights.slice();
  for (let stack = moved.length - 1; stack >= 0; stack--) {
    if (hasShown[stacks.location[stack]!]) continue;
    const around = stacks.parent[stack]!;
    if (around !== NONE) moved[around]! += moved[stack]!;
    moved[stack] = 0;
  }
  return moved;
}

/** Enters and leaves every node of a forest, depth first, without recursion. Roots have the parent -1. */
function walk(parent: readonly number[], enter: (node: number) => void, leave: (node: number) => void): void {
  const child = new Int32Array(parent.length).fill(-1);
  const sibling = new Int32Array(parent.length).fill(-1);
  let first = -1;
  for (let node = parent.length - 1; node >= 0; node--) {
    const above = parent[node]!;
    if (above === -1) {
      sibling[node] = first;
      first = node;
    } else {
      sibling[node] = child[above]!;
      child[above] = node;
    }
  }
  let node = first;
  while (node !== -1) {
    enter(node);
    let next = child[node]!;
    while (next === -1 && node !== -1) {
      leave(node);
      next = sibling[node]!;
      node = parent[node]!;
    }
    node = next;
  }
}

/** The weight of each stack including everything called from it. */
function withCallees(parent: Uint32Array, self: Float64Array): Float64Array {
  const total = self.slice();
  for (let stack = parent.length - 1; stack >= 0; stack--) {
    const above = parent[stack]!;
    if (above !== NONE) total[above]! += total[stack]!;
  }
  return total;
}

/** The function's part of a location: the rows of its lines and files. */
interface Part {
  readonly row: number;
  readonly lines: readonly number[];
  readonly files: readonly number[];
  readonly innermost: number;
}

class Parts {
  readonly lines: LineCost[] = [];
  readonly files: FileCost[] = [];
  readonly locations: LocationCost[] = [];
  readonly fileRowOfLine: number[] = [];
  private readonly parts: Part[] = [];
  /** Location → index in `parts`; -1 for those without the function. */
  private readonly partOf: Int32Array;
  private readonly rowOfLine = new Map<number, number>();
  private readonly rowOfFile = new Map<number, number>();

  constructor({ locations, frames }: CodeTables, isWanted: (fn: number) => boolean, isShown: ((fn: number) => boolean) | undefined) {
    this.partOf = new Int32Array(locations.count).fill(-1);
    for (let location = 0; location < locations.count; location++) {
      const end = locations.frames[location + 1]!;
      let frame = locations.frames[location]!;
      while (frame < end && !isWanted(frames.function[frame]!)) frame++;
      if (frame >= end) continue;
      const lines = new Set<number>();
      const files = new Set<number>();
      let innermost = 0;
      for (; frame < end; frame++) {
        if (isShown && !isShown(frames.function[frame]!)) continue;
        innermost = this.line(frames.file[frame]!, frames.line[frame]!);
        lines.add(innermost);
        files.add(this.fileRowOfLine[innermost]!);
      }
      const rows = [...lines];
      this.partOf[location] = this.parts.length;
      this.parts.push({ row: this.locations.length, lines: rows, files: [...files], innermost });
      this.locations.push({ location, lines: rows, self: 0, total: 0 });
    }
  }

  at(location: number): Part | undefined {
    return this.parts[this.partOf[location]!];
  }

  private line(file: number, line: number): number {
    const key = file * 0x100000000 + line;
    const known = this.rowOfLine.get(key);
    if (known !== undefined) return known;
    const row = this.lines.length;
    this.lines.push({ file, line, self: 0, total: 0 });
    this.rowOfLine.set(key, row);
    let fileRow = this.rowOfFile.get(file);
    if (fileRow === undefined) {
      fileRow = this.files.length;
      this.files.push({ file, self: 0, total: 0 });
      this.rowOfFile.set(file, fileRow);
    }
    this.fileRowOfLine.push(fileRow);
    return row;
  }
}
