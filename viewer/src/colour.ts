// The active colour scheme: the user's choice, or the default for the metric.

import type { Model } from './model.ts';
import { COLOURS, type Colour, type State } from './state.ts';

/** Whether the samples of a metric have kinds of time. */
export const hasTimeKinds = (model: Model, metric: number): boolean => model.profile.samples[metric]?.reason !== undefined && model.profile.timeKinds.length > 0;

/** The colour schemes available for a metric. */
export const coloursFor = (model: Model, metric: number): readonly Colour[] => (hasTimeKinds(model, metric) ? COLOURS : COLOURS.filter(colour => colour !== 'time'));

/** The user's choice; otherwise waits are coloured by kind of time, everything else by kind of code. */
export function colourOf(model: Model, { colour, metric }: State): Colour {
  const suited = hasTimeKinds(model, metric) ? 'time' : 'kind';
  return colour === 'auto' || (colour === 'time' && suited !== 'time') ? suited : colour;
}

/** The next colour scheme. */
export function nextColour(model: Model, state: State): Colour {
  const colours = coloursFor(model, state.metric);
  return colours[(colours.indexOf(colourOf(model, state)) + 1) % colours.length]!;
}
