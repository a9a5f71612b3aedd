// The search matches in the current panel: how many, which one is selected, and how to go to the next.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';

interface Matches {
  of: number;
  /** The selected one, from 0; -1 for none yet. */
  at: number;
  step: (by: number) => void;
  /** The panel they belong to. */
  owner: unknown;
}

let shown: Matches | undefined;
const watchers = new Set<() => void>();

function show(next: Matches | undefined): void {
  const isOther = next?.of !== shown?.of || next?.at !== shown?.at;
  shown = next;
  if (isOther) for (const watcher of watchers) watcher();
}

/** Goes to the next (1) or the previous (-1) match in the current panel. */
export const toMatch = (by: number): void => shown?.step(by);

/** The matches of the current panel; undefined where a panel has none. */
export function useShownMatches(): Matches | undefined {
  const [, redraw] = useState(0);
  useLayoutEffect(() => {
    const watcher = (): void => redraw(count => count + 1);
    watchers.add(watcher);
    watcher();
    return () => { watchers.delete(watcher); };
  }, []);
  return shown;
}

/**
 * Registers the matches of a panel, in the order in which `n` visits them. `go` selects one and scrolls to
 * it. `current` is the index of the selected one where the panel knows it. Another list starts over. Without a list
 * nothing is registered.
 */
export function useMatches<T>(items: ArrayLike<T> | undefined, go: (item: T) => void, current?: number): void {
  const last = useRef({ items, index: -1 });
  if (last.current.items !== items) last.current = { items, index: -1 };
  const [, redraw] = useState(0);
  // With every render: the next key may arrive before the next frame.
  useLayoutEffect(() => {
    if (!items) return;
    const at = current ?? last.current.index;
    const step = (by: number): void => {
      if (!items.length) return;
      const index = at < 0 ? (by > 0 ? 0 : items.length - 1) : (at + by + items.length) % items.length;
      last.current = { items, index };
      go(items[index]!);
      redraw(count => count + 1);
    };
    show({ of: items.length, at, step, owner: last });
  });
  useLayoutEffect(() => () => { if (shown?.owner === last) show(undefined); }, []);
}
