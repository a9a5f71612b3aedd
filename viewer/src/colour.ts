// Which way of colouring frames is in effect: what the reader chose, or what suits the metric.

import type { Model } from './model.ts';
import { COLOURS, type Colour, type State } from './state.ts';

/** Whether the samples of a metric have kinds of time. */
export const hasTimeKinds = (model: Model, metric: number): boolean => model.profile.samples[metric]?.reason !== undefined && model.profile.timeKinds.length > 0;

/** The ways that a metric can be coloured in. */
export const coloursFor = (model: Model, metric: number): readonly Colour[] => (hasTimeKinds(model, metric) ? COLOURS : COLOURS.filter(colour => colour !== 'time'));

/** Waiting is seen by kinds of time, everything else by kinds of code, unless the reader chose. */
export function colourOf(model: Model, { colour, metric }: State): Colour {
  const suited = hasTimeKinds(model, metric) ? 'time' : 'kind';
  return colour === 'auto' || (colour === 'time' && suited !== 'time') ? suited : colour;
}

/** The way after the present one. */
export function nextColour(model: Model, state: State): Colour {
  const colours = coloursFor(model, state.metric);
  return colours[(colours.indexOf(colourOf(model, state)) + 1) % colours.length]!;
}
