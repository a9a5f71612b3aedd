// Where the window of a flame graph stands over its rows. The root is at the top or at the bottom; the
// distance to it stays the same when the rows or the height of the window change.

/** All in CSS pixels. */
export interface Place {
  /** The height of everything that can be scrolled over: never less than the window. */
  content: number;
  /** The part of it below or above the window. */
  spare: number;
  /** The scroll position. */
  top: number;
}

/** The place of a window of this height, as far from the root as before. */
export function placed(rows: number, height: number, fromRoot: number, rootOnTop: boolean): Place {
  const content = Math.max(height, rows), spare = content - height;
  const away = Math.max(0, Math.min(spare, fromRoot));
  return { content, spare, top: rootOnTop ? away : spare - away };
}

/** The distance from the root to the window's edge on the root's side. */
export const distanceFromRoot = (top: number, spare: number, rootOnTop: boolean): number => Math.max(0, rootOnTop ? top : spare - top);
