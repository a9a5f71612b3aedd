// Colours. Kinds of code have the colours of the SVG flame graph: at least 20 CIE Lab units apart in
// simulated colour blindness. Dark text is readable on all of them in both themes.

import { KIND, type Model } from './model.ts';
import { NONE } from './payload.ts';
import type { Colour } from './state.ts';

/** Kinds in the order of the legend, by the codes of the payload. */
export const KINDS: readonly { code: number; word: string }[] = [
  { code: KIND.yours, word: 'your code' },
  { code: KIND.dependency, word: 'dependency' },
  { code: KIND.std, word: 'std' },
  { code: KIND.allocator, word: 'allocator' },
  { code: KIND.kernel, word: 'kernel' },
  { code: KIND.runtime, word: 'runtime' },
  { code: KIND.unknown, word: 'unknown' },
];

export const kindWord = (code: number): string => KINDS.find(kind => kind.code === code)?.word ?? 'unknown';

/** Colours by code of kind, then the colour of frames that are not code. */
const LIGHT = ['#8b8e92', '#f09a48', '#f8db8d', '#54c8f6', '#cf84c8', '#5bb077', '#d8e3eb', '#eceef0'];
const DARK = ['#84878b', '#f09a48', '#f8db8d', '#54c8f6', '#cf84c8', '#5bb077', '#c3ced7', '#b4b8be'];
const NO_CODE = 7;

/**
 * Colours of changes, from much less through within noise to much more: those of the SVG flame graph.
 * Blue and orange differ in lightness, too.
 */
const CHANGES = { light: ['#4f8fdc', '#a9d0f5', '#d5d8dc', '#f8c98f', '#ec8a2f'], dark: ['#4f8fdc', '#a9d0f5', '#b4b8be', '#f8c98f', '#ec8a2f'] };
const NOT_SIGNIFICANT = 2;

export function changeColour(row: number, dark: boolean): string {
  const colours = dark ? CHANGES.dark : CHANGES.light;
  return colours[row] ?? colours[NOT_SIGNIFICANT]!;
}

/** For crates, modules and functions: neighbours in this list differ in lightness too. */
const MANY = ['#f09a48', '#54c8f6', '#f8db8d', '#cf84c8', '#5bb077', '#a9b8e8', '#e7b8a4', '#bcd96f', '#7fd0c0', '#e69ab0', '#c9b17c', '#9db8c9'];

/** The colour of the n-th of several things; a quiet one for all after the list ends. */
export const nthColour = (n: number, dark: boolean): string => MANY[n] ?? kindColour(KIND.runtime, dark);

export const kindColours = (dark: boolean): readonly string[] => dark ? DARK : LIGHT;
export const kindColour = (kind: number, dark: boolean): string => (dark ? DARK : LIGHT)[kind] ?? LIGHT[0]!;

/** The colour of a function under a colour mode. */
export function functionColour(model: Model, fn: number, mode: Colour, dark: boolean): string {
  if (fn === model.root || fn === model.truncated || fn === model.others) return (dark ? DARK : LIGHT)[NO_CODE]!;
  // Kinds of time belong to samples, not to functions. Without them, use the kind of code.
  if (mode === 'kind' || mode === 'time') return kindColour(model.kind(fn), dark);
  const group = colourGroup(model, fn, mode);
  return group ? nameColour(group) : kindColour(KIND.unknown, dark);
}

/** How many shades functions of one kind have, and how much lighter each is than the one before. */
const SHADES = { count: 4, step: .09 };

/**
 * The colour of a frame. Functions of one kind have its colour in several shades, so that neighbours differ.
 * Shades are lighter only: dark text stays readable.
 */
export function frameColour(model: Model, fn: number, mode: Colour, dark: boolean): string {
  const colour = functionColour(model, fn, mode, dark);
  return mode === 'kind' && fn !== model.root ? lighter(colour, hash(model.name(fn).slice(0, 200)) % SHADES.count * SHADES.step) : colour;
}

function lighter(colour: string, share: number): string {
  const channel = (at: number): string => {
    const value = parseInt(colour.slice(at, at + 2), 16);
    return Math.round(value + (255 - value) * share).toString(16).padStart(2, '0');
  };
  return `#${channel(1)}${channel(3)}${channel(5)}`;
}

/** What functions of one colour have in common; empty when unknown. */
export function colourGroup(model: Model, fn: number, mode: Colour): string {
  if (fn === model.others) return 'not yours';
  if (mode === 'kind' || mode === 'time') return kindWord(model.kind(fn));
  const module = model.moduleOf(fn);
  const moduleName = module === NONE ? '' : model.moduleName(module);
  if (mode === 'module') return moduleName;
  return mode === 'crate' ? model.crate(fn) || moduleName : model.name(fn).slice(0, 200);
}

/** The same name always gets the same colour. */
export const nameColour = (name: string): string => MANY[hash(name.slice(0, 200)) % MANY.length]!;

function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value ^ value >>> 13) >>> 0;
}
