// Why there is no source or machine code to show, and what to do about it.

import { KIND, type Model } from '../model.ts';
import { NONE } from '../payload.ts';

export interface Why {
  reason: string;
  fix: string;
}

const DEBUG_INFO = 'Build with line tables and record again: in Cargo.toml, [profile.release] debug = "line-tables-only".';

/** Why the function's lines are not known. */
export function whyNoLines(model: Model, fn: number, hasSamples: boolean): Why {
  if (!hasSamples) return { reason: 'No selected sample is in this function.', fix: 'Widen the time range, the thread selection or the span filter (Escape goes back one step).' };
  if (fn === model.truncated) return { reason: 'These stacks are truncated: their outer frames are missing.', fix: 'See the Quality panel for what to do.' };
  if (model.isLeftOut(fn)) return { reason: 'Recursive calls were left out of very deep stacks here. They repeat the frames around this one.', fix: 'Select the function that calls itself: its lines show the cost.' };
  if (model.kind(fn) === KIND.kernel) return { reason: 'This is kernel code. whyslow does not read kernel sources.', fix: 'Select your function that calls it: its line shows the cost.' };
  if (model.member(fn) >= model.profile.functions.count) {
    return { reason: 'This code has no symbols: its file is stripped or no longer exists.', fix: DEBUG_INFO };
  }
  return { reason: 'The profile has no line numbers for this function: it was compiled without debug info.', fix: DEBUG_INFO };
}

/** Why the lines have no text. */
export function whyNoText(file: string): Why {
  const isStd = file.startsWith('/rustc/');
  return {
    reason: `The profile does not contain the source of ${file.slice(0, 200) || 'this file'}: the file was not found where the program was recorded.`,
    fix: isStd ? 'Run `rustup component add rust-src` and record again.' : 'Record on a machine that has the sources, or symbolise there.',
  };
}

/** Why there is no machine code. */
export function whyNoCode(model: Model, fn: number): Why {
  if (model.profile.instructions.count === 0) {
    return { reason: 'The profile has no machine code.', fix: 'Imported profiles have none. A recording has it if the executable still exists when the recording ends.' };
  }
  if (model.isLeftOut(fn)) return { reason: 'This stands for recursive calls that were left out.', fix: 'Select the function that calls itself.' };
  if (model.kind(fn) === KIND.kernel) return { reason: 'This is kernel code. whyslow does not read kernel code.', fix: 'Select your function that calls it.' };
  if (model.moduleOf(fn) === NONE) return { reason: 'The address of this code is not known.', fix: 'Record with whyslow itself to get addresses.' };
  return { reason: 'The profile has machine code only for the hottest functions, and this is not one of them.', fix: 'Record for longer, or record only the part that interests you.' };
}
