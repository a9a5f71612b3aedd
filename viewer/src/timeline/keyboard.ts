// Changes the time selection with the keyboard.

import type { Range } from '../state.ts';

interface Key { key: string; shiftKey: boolean; altKey: boolean; ctrlKey: boolean; metaKey: boolean }

/**
 * The time selection after an arrow key: moved, or with Shift widened or narrowed at its end. Undefined for
 * other keys.
 */
export function brushKey({ key, shiftKey, altKey, ctrlKey, metaKey }: Key, [from, to]: Range, brush: Range | undefined): Range | undefined {
  if (ctrlKey || metaKey) return undefined;
  const sign = key === 'ArrowLeft' ? -1 : key === 'ArrowRight' ? 1 : 0;
  if (!sign) return undefined;
  const whole = to - from, step = sign * whole * (altKey ? .1 : .01);
  if (!brush) return [Math.round(from + whole * .45), Math.round(from + whole * .55)];
  if (shiftKey) {
    const end = Math.min(to, Math.max(brush[0] + whole / 1000, brush[1] + step));
    return [brush[0], Math.round(end)];
  }
  const moved = Math.max(from - brush[0], Math.min(to - brush[1], step));
  return [Math.round(brush[0] + moved), Math.round(brush[1] + moved)];
}
