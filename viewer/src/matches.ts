// The matches of the search in the panel that is shown: how many there are, which one was gone to, and the way to the next.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';

interface Matches {
  of: number;
  /** The one that was gone to, from 0; -1 for none yet. */
  at: number;
  step: (by: number) => void;
  /** The panel they are of. */
  owner: unknown;
}

let shown: Matches | undefined;
const watchers = new Set<() => void>();

function show(next: Matches | undefined): void {
  const isOther = next?.of !== shown?.of || next?.at !== shown?.at;
  shown = next;
  if (isOther) for (const watcher of watchers) watcher();
}

/** To the next (1) or the previous (-1) match in the panel that is shown. */
export const toMatch = (by: number): void => shown?.step(by);

/** The matches of the panel that is shown; nothing where a panel has none. */
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
 * What matches in a panel, in the order in which it is gone through; `go` selects one and brings it into sight. `current` is the
 * place of the selected one where the panel knows it; another list starts anew.
 */
export function useMatches<T>(items: ArrayLike<T>, go: (item: T) => void, current?: number): void {
  const last = useRef({ items, index: -1 });
  if (last.current.items !== items) last.current = { items, index: -1 };
  const [, redraw] = useState(0);
  // With every render: the next key may come before the next frame.
  useLayoutEffect(() => {
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
