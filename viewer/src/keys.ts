// The keyboard, in one table: what `?` shows is what happens.

export type Place = 'anywhere' | 'flame' | 'timeline' | 'table';
export interface Key { keys: string; does: string; place: Place }

export const KEYS: readonly Key[] = [
  { place: 'anywhere', keys: '1 … 7', does: 'Flame, Functions, Call tree, Source, Stack chart, Spans, Quality' },
  { place: 'anywhere', keys: '/', does: 'Search' },
  { place: 'anywhere', keys: 'n  N', does: 'Next, previous match' },
  { place: 'anywhere', keys: 'u  r', does: 'Undo, redo (also Ctrl+Z, Ctrl+Y)' },
  { place: 'anywhere', keys: 'Escape', does: 'One step back: zoom, brush, range, span, search, transform' },
  { place: 'anywhere', keys: 'i', does: 'Callers instead of callees' },
  { place: 'anywhere', keys: 'k', does: 'Root on top' },
  { place: 'anywhere', keys: 'l', does: 'Show or hide inlined frames' },
  { place: 'anywhere', keys: 'g', does: 'Merge generic instances' },
  { place: 'anywhere', keys: 'o', does: 'Collapse recursion' },
  { place: 'anywhere', keys: 'c', does: 'Next way to colour' },
  { place: 'anywhere', keys: 'd', does: 'Light or dark' },
  { place: 'anywhere', keys: 't', does: 'To the timeline' },
  { place: 'anywhere', keys: '?', does: 'These keys' },
  { place: 'flame', keys: '← → ↑ ↓', does: 'Move between frames' },
  { place: 'flame', keys: 'Enter', does: 'Zoom into the frame' },
  { place: 'flame', keys: 'Backspace', does: 'Zoom out to the caller' },
  { place: 'flame', keys: 'Home', does: 'To the root' },
  { place: 'flame', keys: 'f  h  m', does: 'Focus, hide, merge the function of the frame' },
  { place: 'flame', keys: 'Shift+F10', does: 'Menu of the frame' },
  { place: 'timeline', keys: '← →', does: 'Move the brush (Alt: faster)' },
  { place: 'timeline', keys: 'Shift+← →', does: 'Widen or narrow the brush' },
  { place: 'timeline', keys: '↑ ↓', does: 'Next, previous track' },
  { place: 'timeline', keys: 'Space', does: 'Select the thread (Ctrl: add, Shift: up to here)' },
  { place: 'timeline', keys: 'Enter', does: 'Zoom into the brushed time' },
  { place: 'timeline', keys: 'a', does: 'All threads' },
];
