// Selects threads like files in a list: a click selects one, Ctrl adds or removes, Shift extends.

/**
 * The selected threads after a click on `thread`; undefined for all of them. `order` is the order on the
 * screen, `anchor` the position in it where a Shift-click starts, `count` the number of threads, visible or
 * not.
 */
export function chooseThread(order: readonly number[], count: number, chosen: readonly number[] | undefined, thread: number, anchor: number | undefined, add: boolean): readonly number[] | undefined {
  let next: Set<number>;
  if (anchor !== undefined) {
    const at = order.indexOf(thread);
    next = new Set([...(add ? chosen ?? [] : []), ...order.slice(Math.min(at, anchor), Math.max(at, anchor) + 1)]);
  } else if (add) {
    next = new Set(chosen ?? []);
    if (!next.delete(thread)) next.add(thread);
  } else if (chosen?.length === 1 && chosen[0] === thread) {
    return undefined; // a second click selects all
  } else {
    next = new Set([thread]);
  }
  return next.size === 0 || next.size === count ? undefined : [...next].sort((a, b) => a - b);
}

/** Whether exactly the threads of a process are selected. */
export const isChosen = ({ threads }: { threads: readonly number[] }, chosen: readonly number[] | undefined): boolean =>
  chosen?.length === threads.length && threads.every(thread => chosen.includes(thread));
