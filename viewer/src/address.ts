// The state in the address, and the undo steps in the browser's history: Back is undo, Forward is redo.
//
// Each step has one history entry, which stores the step's number. Changes that are not steps (the panel, the
// selected function) only rewrite the current entry. The state changes immediately and the browser follows:
// going to an entry takes it a while.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { change, toHash, travel, type History, type State } from './state.ts';

/** The data stored in an entry of the browser's history. */
interface Entry { step: number }

/** The step of an entry; undefined if the user typed the address. */
function stepOf(entry: unknown): number | undefined {
  const step = (entry as Partial<Entry> | null)?.step;
  return Number.isSafeInteger(step) ? step : undefined;
}

/** The step at which the page was opened: a reloaded page keeps its history entries. */
export const firstStep = (): number => stepOf(history.state) ?? 0;

/** The requested state: from the address, or from a saved page if the address has none. */
export const givenAddress = (): string =>
  location.hash.length > 1 || stepOf(history.state) !== undefined ? location.hash : document.getElementById('app')?.dataset.view ?? '';

/**
 * How long to wait for the browser to reach an entry, in milliseconds. A later arrival counts as the user's
 * own navigation.
 */
const LOST = 10_000;

export function useAddress(steps: History, fromAddress: () => State, set: (step: (steps: History) => History) => void): void {
  const latest = useRef(steps);
  latest.current = steps;
  /**
   * The entry the browser is at, how many steps have an entry, and whether the browser is on its way to
   * another entry.
   */
  const browser = useRef({ at: steps.at, made: steps.made, isAway: false, isByUser: false });
  const timers = useRef<{ rewrite?: ReturnType<typeof setTimeout>; lost?: ReturnType<typeof setTimeout> }>({});

  const rewrite = (): void => {
    const hash = `#${toHash(latest.current.present)}`;
    if (hash !== (location.hash || '#') || stepOf(history.state) === undefined) history.replaceState({ step: browser.current.at } satisfies Entry, '', hash);
  };
  const goTo = (step: number): void => {
    const now = browser.current;
    now.isAway = true;
    history.go(step - now.at);
    timers.current.lost = setTimeout(() => { arrive(step); follow(); }, LOST);
  };
  const arrive = (step: number): void => {
    clearTimeout(timers.current.lost);
    Object.assign(browser.current, { isAway: false, at: step });
  };
  const follow = (): void => {
    const { at, made, past, present } = latest.current, now = browser.current;
    clearTimeout(timers.current.rewrite);
    if (now.isAway) return;
    if (now.isByUser) Object.assign(now, { at, made, isByUser: false }); // its entry already exists
    // When the browser returns to an entry without a number, it would count as an address that the user
    // typed.
    if (stepOf(history.state) === undefined) rewrite();
    const fresh = made - now.made, base = at - fresh;
    if (fresh ? now.at > base : now.at !== at) return goTo(base);
    now.made = made;
    while (now.at < at) {
      const state = now.at + 1 === at ? present : past[past.length - (at - now.at - 1)] ?? present;
      history.pushState({ step: ++now.at } satisfies Entry, '', `#${toHash(state)}`);
    }
    // Not on every move of a drag: browsers limit how often an address may change.
    timers.current.rewrite = setTimeout(rewrite, 150);
  };

  // With the render, not after the next frame: the timer of an outdated state would restore that state.
  useLayoutEffect(follow, [steps]);
  useEffect(() => {
    const onPop = ({ state }: PopStateEvent): void => {
      const step = stepOf(state), now = browser.current;
      if (step === undefined) {
        if (now.isAway) arrive(latest.current.at);
        const next = change(latest.current, fromAddress());
        now.isByUser = next !== latest.current;
        if (now.isByUser) set(() => next);
        else rewrite();
      } else if (now.isAway) {
        arrive(step);
        follow();
      } else {
        now.at = step;
        set(steps => travel(steps, step, fromAddress));
      }
    };
    addEventListener('popstate', onPop);
    return () => removeEventListener('popstate', onPop);
  }, []);
}
