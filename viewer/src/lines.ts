// What the source lines of one function cost, with the code that was inlined into it.
//
// A location is an address with its frames, the outermost first. The part of a location that belongs to the function is
// the function's frame and every frame inlined into it; so a line of another file that was inlined counts where it was
// written, and the line with the call has it in its total.

import { NONE, type Profile } from './payload.ts';

/** The tables of the payload that this needs. */
export type CodeTables = Pick<Profile, 'stacks' | 'locations' | 'frames'>;

/** What a line, a file or an address costs; a sample counts once in each. */
export interface Cost {
  /** Samples that were exactly here. */
  self: number;
  /** Samples that were here or in something called from here. */
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
  /** Rows of `lines` that the location's part of the function touches, outermost first. */
  readonly lines: readonly number[];
}

export interface FunctionCosts {
  /** The function with what was inlined into it. */
  readonly whole: Cost;
  readonly lines: LineCost[];
  /** Files with lines of the function, those with most own time first. */
  readonly files: FileCost[];
  readonly locations: LocationCost[];
}

/**
 * Adds the samples up per line, file and address of the functions that `isWanted` names. With `isShown`, what other functions
 * weigh belongs to the nearest line of a shown one around them.
 */
export function functionCosts(tables: CodeTables, weights: Float64Array, isWanted: (fn: number) => boolean, isShown?: (fn: number) => boolean): FunctionCosts {
  const parts = new Parts(tables, isWanted, isShown);
  const stackSelf = isShown ? atShown(tables, weights, isShown) : weights;
  const { parent, location } = tables.stacks;
  const stackTotal = withCallees(parent, stackSelf);
  // Only stacks whose own location belongs to the function matter. They are a tree of their own, mostly a small one:
  // `above` of each is the next one around it.
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
  // How often each line, file and location is on the stack that the walk is at.
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

/** What each stack weighs with the callees of its innermost location that have no shown frame. */
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

/** Enters and leaves every node of a forest, depth first; -1 is the parent of roots. Deep trees are no problem. */
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

/** What each stack weighs with everything called from it. */
function withCallees(parent: Uint32Array, self: Float64Array): Float64Array {
  const total = self.slice();
  for (let stack = parent.length - 1; stack >= 0; stack--) {
    const above = parent[stack]!;
    if (above !== NONE) total[above]! += total[stack]!;
  }
  return total;
}

/** The part of a location that belongs to the function: rows of the lines and files it touches. */
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
  /** Location → place in `parts`; -1 for those without the function. */
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
