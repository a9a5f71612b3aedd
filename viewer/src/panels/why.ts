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
  if (!hasSamples) return { reason: 'No selected sample is in this function.', fix: 'Widen the time range, the threads or the span filter (Escape goes one step back).' };
  if (fn === model.truncated) return { reason: 'These are stacks whose outer frames could not be had.', fix: 'See Quality for what can be done about it.' };
  if (model.kind(fn) === KIND.kernel) return { reason: 'This is code of the kernel, whose source is not read.', fix: 'Select the function of yours that calls it: its line has the cost.' };
  if (model.member(fn) >= model.profile.functions.count) {
    return { reason: 'This code has no names: its file was stripped, or is gone.', fix: DEBUG_INFO };
  }
  return { reason: 'The profile has no line numbers for this function: it was compiled without debug information.', fix: DEBUG_INFO };
}

/** Why the lines have no text. */
export function whyNoText(file: string): Why {
  const isStd = file.startsWith('/rustc/');
  return {
    reason: `The text of ${file.slice(0, 200) || 'this file'} is not in the profile: the file was not found where the program was recorded.`,
    fix: isStd ? 'Run `rustup component add rust-src` and record again.' : 'Record where the sources are, or symbolise there.',
  };
}

/** Why there is no machine code. */
export function whyNoCode(model: Model, fn: number): Why {
  if (model.profile.instructions.count === 0) {
    return { reason: 'The profile has no machine code.', fix: 'An imported profile has none; a recording has it when the executable was still there at its end.' };
  }
  if (model.kind(fn) === KIND.kernel) return { reason: 'This is code of the kernel, which is not read.', fix: 'Select the function of yours that calls it.' };
  if (model.moduleOf(fn) === NONE) return { reason: 'Where this code was in memory is not known.', fix: 'Record with whyslow itself to have addresses.' };
  return { reason: 'The profile has machine code of the hottest functions only, and this is not one of them.', fix: 'Record for longer, or only the part that you look at.' };
}
