// The cost of a function's instructions: maps its samples' addresses to the machine code in the profile.

import { lowerBound } from './bounds.ts';
import type { Cost, FunctionCosts } from './lines.ts';
import type { Profile } from './payload.ts';

/** The tables of the payload that this needs. */
export type Machine = Pick<Profile, 'locations' | 'code' | 'instructions'>;

export interface InstructionCost extends Cost {
  readonly instruction: number;
  /** Rows of `FunctionCosts.lines` that samples at this instruction belong to. */
  readonly lines: number[];
}

export interface CodePiece extends Cost {
  readonly code: number;
  readonly instructions: InstructionCost[];
}

/** The pieces of machine code with the function's samples, heaviest first. */
export function codePieces(machine: Machine, costs: FunctionCosts): CodePiece[] {
  const pieces = new Map<number, CodePiece>();
  for (const cost of costs.locations) {
    if (cost.total === 0) continue;
    const row = codeAt(machine, machine.locations.module[cost.location]!, machine.locations.address[cost.location]!);
    if (row < 0) continue;
    let piece = pieces.get(row);
    if (piece === undefined) pieces.set(row, (piece = emptyPiece(machine, row)));
    const at = instructionAt(machine, piece.instructions, machine.locations.address[cost.location]!);
    const found = piece.instructions[at];
    if (found === undefined) continue;
    // An instruction has one location, or two when it is both sampled and returned to.
    found.self += cost.self;
    found.total = Math.min(found.total + cost.total, costs.whole.total);
    piece.self += cost.self;
    piece.total = Math.min(piece.total + cost.total, costs.whole.total);
    for (const line of cost.lines) if (!found.lines.includes(line)) found.lines.push(line);
  }
  return [...pieces.values()].sort((a, b) => b.self - a.self || b.total - a.total || a.code - b.code);
}

function emptyPiece(machine: Machine, row: number): CodePiece {
  const first = lowerBound(machine.instructions.code.length, at => machine.instructions.code[at]! < row);
  const instructions: InstructionCost[] = [];
  for (let at = first; at < machine.instructions.code.length && machine.instructions.code[at] === row; at++) {
    instructions.push({ instruction: at, self: 0, total: 0, lines: [] });
  }
  return { code: row, self: 0, total: 0, instructions };
}

/** The piece of machine code that contains an address; -1 when the profile has none. */
export function codeAt(machine: Machine, module: number, address: number): number {
  const after = lowerBound(
    machine.code.module.length,
    at => machine.code.module[at]! < module || (machine.code.module[at] === module && machine.code.start[at]! <= address),
  );
  const row = after - 1;
  return row >= 0 && machine.code.module[row] === module && address < machine.code.end[row]! ? row : -1;
}

function instructionAt(machine: Machine, instructions: readonly InstructionCost[], address: number): number {
  const starts = (at: number): number => machine.instructions.address[instructions[at]!.instruction]!;
  return lowerBound(instructions.length, at => starts(at) <= address) - 1;
}
