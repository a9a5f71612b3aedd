// The state in the address, and the steps of undo in the browser's own history: Back is undo, Forward is redo.
//
// Each step has one entry there, which knows its number. What is no step (the panel, the selected function) only rewrites the
// entry that is shown. The state changes at once and the browser follows: going to an entry takes it a moment.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { change, toHash, travel, type History, type State } from './state.ts';

/** What an entry of the browser's history knows. */
interface Entry { step: number }

/** The step of an entry; nothing when the reader wrote the address. */
function stepOf(entry: unknown): number | undefined {
  const step = (entry as Partial<Entry> | null)?.step;
  return Number.isSafeInteger(step) ? step : undefined;
}

/** The step that the page was opened at: a page that is loaded anew has its entries still. */
export const firstStep = (): number => stepOf(history.state) ?? 0;

/** The state that was asked for: in the address, or in a saved page until the address says something. */
export const givenAddress = (): string =>
  location.hash.length > 1 || stepOf(history.state) !== undefined ? location.hash : document.getElementById('app')?.dataset.view ?? '';

/** Patience with a browser that does not arrive where it was sent: whoever arrives later is taken for the reader. */
const LOST = 10_000;

export function useAddress(steps: History, fromAddress: () => State, set: (step: (steps: History) => History) => void): void {
  const latest = useRef(steps);
  latest.current = steps;
  /** The entry that the browser is at, how many steps have had theirs, and whether it is on its way to another entry. */
  const browser = useRef({ at: steps.at, made: steps.made, isAway: false, isReaders: false });
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
    if (now.isReaders) Object.assign(now, { at, made, isReaders: false }); // its entry is there already
    // An entry without a number would be taken for an address that the reader wrote when the browser comes back to it.
    if (stepOf(history.state) === undefined) rewrite();
    const fresh = made - now.made, base = at - fresh;
    if (fresh ? now.at > base : now.at !== at) return goTo(base);
    now.made = made;
    while (now.at < at) {
      const state = now.at + 1 === at ? present : past[past.length - (at - now.at - 1)] ?? present;
      history.pushState({ step: ++now.at } satisfies Entry, '', `#${toHash(state)}`);
    }
    // Not for every move of a drag: browsers limit how often an address may change.
    timers.current.rewrite = setTimeout(rewrite, 150);
  };

  // With the render and not after the next frame: a timer of a state that is gone would bring that back.
  useLayoutEffect(follow, [steps]);
  useEffect(() => {
    const onPop = ({ state }: PopStateEvent): void => {
      const step = stepOf(state), now = browser.current;
      if (step === undefined) {
        if (now.isAway) arrive(latest.current.at);
        const next = change(latest.current, fromAddress());
        now.isReaders = next !== latest.current;
        if (now.isReaders) set(() => next);
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
