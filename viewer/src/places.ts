// Lines of the user's code, or nearest to it: what stacks are charged to.

import type { Model } from './model.ts';
import { NONE } from './payload.ts';

/** `read app.rs:12`: a function with its line. */
export function placeWords(model: Model, fn: number, file: number, line: number): string {
  const path = model.text(file), name = path.slice(path.lastIndexOf('/') + 1).slice(0, 60);
  return `${model.short(fn).slice(0, 80)}${name && ` ${name}`}${name && line ? `:${line}` : ''}`;
}

/** The line that a stack is charged to: a row of `charges`, or NONE. */
export const chargeOf = ({ profile: { charges } }: Model, stack: number): number => (stack === NONE ? NONE : charges.ofStack[stack]!);

/** The function of a charge; NONE when there is none. */
export const chargedFunction = ({ profile: { charges } }: Model, charge: number): number => (charge === NONE ? NONE : charges.function[charge]!);

/** `read app.rs:12`, the line of a charge; empty when unknown. */
export function chargeWords(model: Model, charge: number): string {
  const { function: fn, file, line } = model.profile.charges;
  return charge === NONE ? '' : placeWords(model, fn[charge]!, file[charge]!, line[charge]!);
}

/** `src/app.rs:12`, the line of a charge without its function; empty when unknown. */
export function chargeLine(model: Model, charge: number): string {
  const { file, line } = model.profile.charges, path = model.text(file[charge]!);
  return path && line[charge] ? `${path}:${line[charge]}` : path;
}
