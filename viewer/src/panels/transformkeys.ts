// f, h and m on a row: focus on, hide or merge its function, as in the flame graph.

import type { Transform } from '../aggregate.ts';

const KINDS: Readonly<Record<string, Transform['kind']>> = { f: 'focus', h: 'hide', m: 'merge' };

/** The transform of a key, if any. */
export function transformOf(event: KeyboardEvent, fn: number | undefined): Transform | undefined {
  const kind = KINDS[event.key];
  return kind && fn !== undefined ? { kind, fn } : undefined;
}
