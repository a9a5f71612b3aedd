// The loops of a piece of machine code: their cost, how they are drawn next to the instructions, and hints
// about avoidable cost.

import type { CodeTables } from './codetables.ts';
import type { CodePiece } from './instructions.ts';
import type { Cost } from './lines.ts';
import { NONE } from './payload.ts';

/** How many nested loops have their own lane; deeper ones share the last. */
const DEEPEST = 4;

export interface LoopCost extends Cost {
  readonly loop: number;
  /** As `whyslow asm` calls it: `L1`. */
  readonly name: string;
  /** 0 for an outermost loop. */
  readonly depth: number;
}

/**
 * What one lane shows next to an instruction: nothing, the line of a loop with its ends, or a dotted line
 * past code that is not in the loop.
 */
export type Lane = '' | 'first' | 'in' | 'last' | 'only' | 'past';

export interface CodeHint {
  readonly hint: number;
  readonly loop: LoopCost | undefined;
  /** Indices into `CodePiece.instructions`, ascending. */
  readonly at: number[];
}

/** The loops of a piece, outer ones first. */
export function loopsOf({ loops, instructions }: Pick<CodeTables, 'loops' | 'instructions'>, piece: CodePiece): LoopCost[] {
  const found: (Omit<LoopCost, 'self' | 'total'> & { self: number; total: number })[] = [];
  const first = loops.code.indexOf(piece.code);
  for (let loop = Math.max(0, first); first >= 0 && loop < loops.count && loops.code[loop] === piece.code; loop++) {
    const around = found[loops.parent[loop]! - first];
    found.push({ loop, name: `L${loop - first + 1}`, depth: around ? around.depth + 1 : 0, self: 0, total: 0 });
  }
  for (const row of piece.instructions) {
    for (let loop = instructions.loop[row.instruction]!; loop !== NONE; loop = loops.parent[loop]!) {
      const cost = found[loop - first];
      if (!cost) break;
      cost.self += row.self;
      cost.total = Math.min(cost.total + row.total, piece.total);
    }
  }
  return found;
}

/** What each lane shows next to each instruction of a piece. */
export function lanesOf({ loops, instructions }: Pick<CodeTables, 'loops' | 'instructions'>, piece: CodePiece, costs: readonly LoopCost[]): Lane[][] {
  const columns = costs.reduce((most, { depth }) => Math.max(most, Math.min(depth + 1, DEEPEST)), 0);
  const begin = piece.instructions[0]?.instruction ?? 0;
  const lanes: Lane[][] = piece.instructions.map(() => Array.from({ length: columns }, () => ''));
  for (const { loop, depth } of costs) {
    if (depth >= DEEPEST) continue;
    const first = loops.first[loop]! - begin, last = loops.last[loop]! - begin;
    for (let at = Math.max(0, first); at <= last && at < lanes.length; at++) {
      let inner = instructions.loop[begin + at]!;
      while (inner !== NONE && inner !== loop) inner = loops.parent[inner]!;
      lanes[at]![depth] = first === last ? 'only' : at === first ? 'first' : at === last ? 'last' : inner === loop ? 'in' : 'past';
    }
  }
  return lanes;
}

/** The hints of a piece, heaviest first. */
export function hintsOf({ hints, hintInstructions }: Pick<CodeTables, 'hints' | 'hintInstructions'>, piece: CodePiece, costs: readonly LoopCost[]): CodeHint[] {
  const begin = piece.instructions[0]?.instruction ?? 0;
  const found = new Map<number, CodeHint>();
  for (let hint = 0; hint < hints.count; hint++) {
    if (hints.code[hint] === piece.code) found.set(hint, { hint, loop: costs.find(({ loop }) => loop === hints.loop[hint]), at: [] });
  }
  for (let row = 0; row < hintInstructions.count; row++) {
    const at = hintInstructions.instruction[row]! - begin;
    if (at >= 0 && at < piece.instructions.length) found.get(hintInstructions.hint[row]!)?.at.push(at);
  }
  return [...found.values()];
}
