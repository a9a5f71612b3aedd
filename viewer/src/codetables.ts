// The machine code tables of a payload: code ranges, instructions, loops, and hints about avoidable cost.

import { damaged, NONE, within, type Columns } from './container.ts';

export interface CodeTables {
  code: { count: number; module: Uint32Array; start: Float64Array; end: Float64Array };
  /** `target` is the instruction it jumps to, `loop` the innermost loop around it; or NONE. */
  instructions: { count: number; code: Uint32Array; address: Float64Array; text: Uint32Array; target: Uint32Array; loop: Uint32Array };
  /** From the first to the last instruction. A loop comes before its inner loops. */
  loops: { count: number; code: Uint32Array; parent: Uint32Array; first: Uint32Array; last: Uint32Array };
  /** Heaviest first within each code range. `loop` is NONE outside loops. */
  hints: { count: number; code: Uint32Array; loop: Uint32Array; id: Uint32Array; sentence: Uint32Array; advice: Uint32Array };
  /** The instructions behind each hint. */
  hintInstructions: { count: number; hint: Uint32Array; instruction: Uint32Array };
}

export function readCode(columns: Columns): CodeTables {
  const rows = (name: string): number => columns.length(name);
  const code = rows('code.module'), instructions = rows('instructions.code'), loops = rows('loops.code'), hints = rows('hints.code'), shown = rows('hint_instructions.hint');
  const u32 = (name: string, count: number): Uint32Array => columns.u32(name, count, NONE);
  return {
    code: { count: code, module: u32('code.module', code), start: columns.f64('code.start', code, 0), end: columns.f64('code.end', code, 0) },
    instructions: {
      count: instructions, code: u32('instructions.code', instructions), address: columns.f64('instructions.address', instructions, 0),
      text: u32('instructions.text', instructions), target: u32('instructions.target', instructions), loop: u32('instructions.loop', instructions),
    },
    loops: { count: loops, code: u32('loops.code', loops), parent: u32('loops.parent', loops), first: u32('loops.first', loops), last: u32('loops.last', loops) },
    hints: {
      count: hints, code: u32('hints.code', hints), loop: u32('hints.loop', hints),
      id: u32('hints.id', hints), sentence: u32('hints.sentence', hints), advice: u32('hints.advice', hints),
    },
    hintInstructions: { count: shown, hint: u32('hint_instructions.hint', shown), instruction: u32('hint_instructions.instruction', shown) },
  };
}

/** After this check, nothing can index out of bounds or loop forever. */
export function checkCode({ code, instructions, loops, hints, hintInstructions }: CodeTables, bounds: { texts: number; modules: number }): void {
  within('code.module', code.module, bounds.modules, true);
  within('instructions.code', instructions.code, code.count, false);
  within('instructions.text', instructions.text, bounds.texts, true);
  within('instructions.target', instructions.target, instructions.count, true);
  within('instructions.loop', instructions.loop, loops.count, true);
  within('loops.code', loops.code, code.count, false);
  within('loops.first', loops.first, instructions.count, false);
  within('loops.last', loops.last, instructions.count, false);
  loops.parent.forEach((parent, row) => { if (parent !== NONE && parent >= row) throw damaged('loops.parent', row); });
  within('hints.code', hints.code, code.count, false);
  within('hints.loop', hints.loop, loops.count, true);
  for (const column of ['id', 'sentence', 'advice'] as const) within(`hints.${column}`, hints[column], bounds.texts, true);
  within('hint_instructions.hint', hintInstructions.hint, hints.count, false);
  within('hint_instructions.instruction', hintInstructions.instruction, instructions.count, false);
}
