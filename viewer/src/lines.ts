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

/** Children of each stack, as a first child and a next sibling. */
export interface StackLinks {
  readonly firstChild: Uint32Array;
  readonly nextSibling: Uint32Array;
}

export function stackLinks(parent: Uint32Array): StackLinks {
  const firstChild = new Uint32Array(parent.length).fill(NONE);
  const nextSibling = new Uint32Array(parent.length).fill(NONE);
  for (let stack = parent.length - 1; stack >= 0; stack--) {
    const above = parent[stack]!;
    if (above === NONE) continue;
    nextSibling[stack] = firstChild[above]!;
    firstChild[above] = stack;
  }
  return { firstChild, nextSibling };
}

/** Adds the samples up per line, file and address of the functions that `isWanted` names. */
export function functionCosts(
  tables: CodeTables,
  links: StackLinks,
  stackSelf: Float64Array,
  isWanted: (fn: number) => boolean,
): FunctionCosts {
  const parts = new Parts(tables, isWanted);
  const stackTotal = withCallees(tables.stacks.parent, stackSelf);
  const whole: Cost = { self: 0, total: 0 };
  // How often each line, file and location is on the stack that the walk is at.
  const openLines: number[] = [];
  const openFiles: number[] = [];
  const openLocations: number[] = [];
  let openWhole = 0;

  const open = (counts: number[], rows: readonly Cost[], row: number, value: number): void => {
    const times = counts[row] ?? 0;
    if (times === 0) rows[row]!.total += value;
    counts[row] = times + 1;
  };

  const enter = (stack: number): void => {
    const part = parts.of(tables.stacks.location[stack]!);
    if (part === null) return;
    const value = stackTotal[stack]!;
    const own = stackSelf[stack]!;
    if (openWhole++ === 0) whole.total += value;
    whole.self += own;
    for (const row of part.lines) open(openLines, parts.lines, row, value);
    for (const row of part.files) open(openFiles, parts.files, row, value);
    open(openLocations, parts.locations, part.row, value);
    parts.lines[part.innermost]!.self += own;
    parts.files[parts.fileRowOfLine[part.innermost]!]!.self += own;
    parts.locations[part.row]!.self += own;
  };

  const leave = (stack: number): void => {
    const part = parts.of(tables.stacks.location[stack]!);
    if (part === null) return;
    openWhole--;
    for (const row of part.lines) openLines[row]!--;
    for (const row of part.files) openFiles[row]!--;
    openLocations[part.row]!--;
  };

  for (let root = 0; root < tables.stacks.parent.length; root++) {
    if (tables.stacks.parent[root] !== NONE || stackTotal[root]! <= 0) continue;
    let stack = root;
    enter(stack);
    for (;;) {
      let next = links.firstChild[stack]!;
      while (next !== NONE && stackTotal[next]! <= 0) next = links.nextSibling[next]!;
      while (next === NONE) {
        leave(stack);
        if (stack === root) break;
        next = links.nextSibling[stack]!;
        stack = tables.stacks.parent[stack]!;
        while (next !== NONE && stackTotal[next]! <= 0) next = links.nextSibling[next]!;
      }
      if (next === NONE) break;
      stack = next;
      enter(stack);
    }
  }

  const files = [...parts.files].sort((a, b) => b.self - a.self || b.total - a.total || a.file - b.file);
  return { whole, lines: parts.lines, files, locations: parts.locations };
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
  private readonly known = new Map<number, Part | null>();
  private readonly rowOfLine = new Map<number, number>();
  private readonly rowOfFile = new Map<number, number>();

  constructor(
    private readonly tables: CodeTables,
    private readonly isWanted: (fn: number) => boolean,
  ) {}

  of(location: number): Part | null {
    const known = this.known.get(location);
    if (known !== undefined) return known;
    const part = this.make(location);
    this.known.set(location, part);
    return part;
  }

  private make(location: number): Part | null {
    const { locations, frames } = this.tables;
    const end = locations.frames[location + 1]!;
    let frame = locations.frames[location]!;
    while (frame < end && !this.isWanted(frames.function[frame]!)) frame++;
    if (frame >= end) return null;
    const lines = new Set<number>();
    const files = new Set<number>();
    let innermost = 0;
    for (; frame < end; frame++) {
      innermost = this.line(frames.file[frame]!, frames.line[frame]!);
      lines.add(innermost);
      files.add(this.fileRowOfLine[innermost]!);
    }
    const row = this.locations.length;
    const rows = [...lines];
    this.locations.push({ location, lines: rows, self: 0, total: 0 });
    return { row, lines: rows, files: [...files], innermost };
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
