// Colours and patterns of the kinds of time. The colours are at least 20 CIE Lab units apart in simulated
// colour blindness, and dark text is readable on all of them. Where there is no text, patterns distinguish
// the kinds too.

import type { Model } from './model.ts';

/**
 * By the rows of `timeKinds`: running, queued for a CPU, blocked by threads, by I/O, by something else,
 * idle.
 */
const LIGHT = ['#62cf92', '#f8cd45', '#e96a54', '#5791ee', '#c77ab5', '#e4e8ed'];
const DARK = ['#62cf92', '#f8cd45', '#e96a54', '#5791ee', '#c77ab5', '#cdd2d9'];

export const timeColour = (kind: number, dark: boolean): string => (dark ? DARK : LIGHT)[kind] ?? '#8b8e92';

/** Lines over the colour: none for running and idle. Degrees; `dots` for a grid of points. */
const LINES: readonly (number | 'dots' | undefined)[] = [undefined, 45, 90, 'dots', 135, undefined];
const INK = '#16181d70';
const SIZE = 6;

/** The background of a swatch in a legend. */
export function timeSwatch(kind: number, dark: boolean): string {
  const colour = timeColour(kind, dark), lines = LINES[kind];
  if (lines === undefined) return colour;
  if (lines === 'dots') return `radial-gradient(${INK} 1px, transparent 1.2px) 0 0 / 4px 4px, ${colour}`;
  return `repeating-linear-gradient(${lines}deg, ${INK} 0 1px, transparent 1px 4px), ${colour}`;
}

const tiles = new Map<string, HTMLCanvasElement>();

/** The same as the fill of a canvas. */
export function timeFill(context: CanvasRenderingContext2D, kind: number, dark: boolean): string | CanvasPattern {
  const colour = timeColour(kind, dark), lines = LINES[kind];
  if (lines === undefined) return colour;
  const key = `${kind} ${dark}`;
  let tile = tiles.get(key);
  if (!tile) tiles.set(key, tile = tileOf(colour, lines));
  return context.createPattern(tile, 'repeat') ?? colour;
}

function tileOf(colour: string, lines: number | 'dots'): HTMLCanvasElement {
  const tile = Object.assign(document.createElement('canvas'), { width: SIZE, height: SIZE });
  const context = tile.getContext('2d')!;
  context.fillStyle = colour;
  context.fillRect(0, 0, SIZE, SIZE);
  context.fillStyle = context.strokeStyle = INK;
  if (lines === 'dots') for (const at of [1, 4]) context.fillRect(at, at, 1.4, 1.4);
  else if (lines === 90) context.fillRect(1, 0, 1, SIZE);
  else {
    context.beginPath();
    for (const shift of [-SIZE, 0, SIZE]) {
      context.moveTo(shift, lines === 45 ? SIZE : 0);
      context.lineTo(shift + SIZE, lines === 45 ? 0 : SIZE);
    }
    context.stroke();
  }
  return tile;
}

/** The kinds of time of a profile with their names. */
export const timeKinds = (model: Model): readonly { kind: number; word: string }[] => model.profile.timeKinds.map(({ word }, kind) => ({ kind, word }));
