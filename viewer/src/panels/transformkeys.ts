// The keys that transform a function, on a row as in the flame graph.

import { isFold, type Transform } from '../transforms.ts';
import type { Model } from '../model.ts';

/** A function in a table or graph, with its path from the root where it is a place in the call tree. */
export interface Place { fn: number; path?: readonly number[] | undefined }

const OF_FUNCTION = { f: 'focus', h: 'hide', m: 'merge', C: 'collapse', L: 'library' } as const;
const OF_PLACE = { F: 'subtree', M: 'node' } as const;

/** The transforms of a function, by their keys. */
export function transformsOf(model: Model, { fn, path }: Place): Record<string, Transform> {
  const out: Record<string, Transform> = {};
  for (const [key, kind] of Object.entries(OF_FUNCTION)) out[key] = { kind, fn };
  // Folded frames are no single place.
  if (path?.length && !isFold(model, fn) && fn !== model.others) for (const [key, kind] of Object.entries(OF_PLACE)) out[key] = { kind, fn, path };
  return out;
}
