// The properties of every panel. See panels/README.md.

import type { Model } from './model.ts';
import type { State } from './state.ts';

/** Changes the state. Consecutive changes with the same `merging` key are one undo step (typing, dragging). */
export type Dispatch = (changes: Partial<State>, merging?: string) => void;

export interface PanelProps {
  model: Model;
  state: State;
  dispatch: Dispatch;
  /** Whether the dark theme is shown, for canvases. */
  dark: boolean;
  /** Opens the editor dialog. */
  chooseEditor: () => void;
}
