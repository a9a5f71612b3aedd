// The search box, and the share of the matches.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { matchedValue } from './aggregate.ts';
import { callTree, findingFrames, flameTree, search } from './derive.ts';
import { count, share } from './format.ts';
import { familiesOf } from './flame/label.ts';
import { nodeAt } from './flame/path.ts';
import { toMatch, useShownMatches } from './matches.ts';
import type { Model } from './model.ts';
import type { PanelProps } from './panel.ts';
import { Paused } from './paused.ts';

type SearchProps = Pick<PanelProps, 'model' | 'state' | 'dispatch'> & {
  /** The status text for matching functions; their share by default. */
  about?: (found: number) => string;
};

/** A search of a large profile waits until typing pauses, in milliseconds. */
const PAUSE = 200;
const isLarge = ({ profile, functionCount }: Model): boolean => functionCount + profile.stacks.count > 100_000;

export function SearchBox({ model, state, dispatch, about }: SearchProps) {
  const result = search(model, state);
  const matches = useShownMatches();
  /** The typed text, until it is searched for. */
  const [typed, setTyped] = useState<string>();
  const start = (text: string): void => {
    setTyped(undefined);
    dispatch({ search: text }, 'search');
  };
  const paused = useMemo(() => new Paused<string>(start, PAUSE), [dispatch]);
  const onInput = (text: string): void => {
    if (!isLarge(model)) return start(text);
    setTyped(text);
    paused.set(text);
  };
  /** The direction to go to a match in, once the search has them. */
  const goes = useRef(0);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter') return;
    goes.current = event.shiftKey ? -1 : 1;
    if (!paused.flush() || typed === state.search) toWanted();
  };
  const toWanted = (): void => {
    if (goes.current) toMatch(goes.current);
    goes.current = 0;
  };
  useEffect(() => {
    toWanted();
    // A search that came from elsewhere (undo, Escape) replaces what is typed.
    paused.drop();
    setTyped(undefined);
  }, [state.search]);
  useEffect(() => () => paused.drop(), []);
  return (
    <div class="search" role="search">
      <input id="search" type="search" placeholder="Search functions ( / )" aria-label="Search functions" value={typed ?? state.search} autocomplete="off"
        spellcheck={false} aria-invalid={result.kind === 'invalid'} onKeyDown={onKeyDown}
        onInput={event => onInput(event.currentTarget.value)} />
      <button type="button" aria-pressed={state.regex} aria-label="Regular expression" title="Regular expression" onClick={() => dispatch({ regex: !state.regex })}>.*</button>
      <span class="found" role="status">{matches && place(matches)}{about && result.kind === 'found' && result.count ? about(result.count) : found({ model, state })}</span>
      {matches && matches.of > 0 && <>
        <button type="button" class="icon" aria-label="Previous match" title="Previous match (N)" onClick={() => toMatch(-1)}>‹</button>
        <button type="button" class="icon" aria-label="Next match" title="Next match (n)" onClick={() => toMatch(1)}>›</button>
      </>}
    </div>
  );
}

/** Which of the panel's matches is selected: `3 of 87`. */
function place({ at, of }: { at: number; of: number }): string {
  if (!of) return '';
  return at < 0 ? `${count(of)} ${of === 1 ? 'match' : 'matches'} · ` : `${count(at + 1)} of ${count(of)} · `;
}

/** The share of the matches, recursion counted once, of the zoomed frame or of everything. */
function found({ model, state }: Pick<PanelProps, 'model' | 'state'>): string {
  const result = search(model, state);
  if (result.kind === 'none') return marked({ model, state });
  if (result.kind === 'invalid') return result.message;
  if (!result.count) return 'no matches';
  const zoomed = state.zoom.length > 0 && state.tab === 'flame';
  const tree = zoomed ? flameTree(model, state) : callTree(model, state);
  const node = zoomed ? nodeAt(tree, state.zoom).node : 0;
  const { value } = matchedValue(tree, at => model.isAmong(result.matched, tree.fn[at]!, familiesOf(tree, at)), node);
  return `${share(value, tree.total[node]!)} matched`;
}

/** The share of the highlighted finding's frames. */
function marked({ model, state }: Pick<PanelProps, 'model' | 'state'>): string {
  const { marked: frames } = state.tab === 'flame' ? findingFrames(model, state) : { marked: undefined };
  if (!frames) return '';
  const tree = flameTree(model, state), { node } = nodeAt(tree, state.zoom);
  return `${share(matchedValue(tree, at => frames[at] === 1, node).value, tree.total[node]!)} highlighted`;
}
