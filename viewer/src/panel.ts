// What every panel is given. See panels/README.md.

import type { Model } from './model.ts';
import type { State } from './state.ts';

/**
 * Changes the state. Steps with the same `merging` key, one after the other, are one step of the history (typing,
 * dragging).
 */
export type Dispatch = (changes: Partial<State>, merging?: string) => void;

export interface PanelProps {
  model: Model;
  state: State;
  dispatch: Dispatch;
  /** Whether the dark theme is shown, for canvases. */
  dark: boolean;
  /** Lets the reader choose an editor. */
  chooseEditor: () => void;
}
