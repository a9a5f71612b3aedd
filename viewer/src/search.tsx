// The search box, and what the matches weigh.

import { matchedValue } from './aggregate.ts';
import { callTree, flameTree, search } from './derive.ts';
import { share } from './format.ts';
import { nodeAt } from './flame/path.ts';
import type { PanelProps } from './panel.ts';
import { TO_MATCH } from './events.ts';

export function SearchBox({ model, state, dispatch }: PanelProps) {
  const result = search(model, state);
  const step = (by: number) => dispatchEvent(new CustomEvent(TO_MATCH, { detail: by }));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
  };
  return (
    <div class="search" role="search">
      <input id="search" type="search" placeholder="Search functions ( / )" aria-label="Search functions" value={state.search} autocomplete="off"
        spellcheck={false} aria-invalid={result.kind === 'invalid'} onKeyDown={onKeyDown}
        onInput={event => dispatch({ search: event.currentTarget.value }, 'search')} />
      <button type="button" aria-pressed={state.regex} aria-label="Regular expression" title="Regular expression" onClick={() => dispatch({ regex: !state.regex })}>.*</button>
      <span class="found" role="status">{found({ model, state })}</span>
      {result.kind === 'found' && result.count > 0 && <>
        <button type="button" class="icon" aria-label="Previous match" title="Previous match (N)" onClick={() => step(-1)}>‹</button>
        <button type="button" class="icon" aria-label="Next match" title="Next match (n)" onClick={() => step(1)}>›</button>
      </>}
    </div>
  );
}

/** The share of what matches, recursion counted once, of the zoomed frame or of everything. */
function found({ model, state }: Pick<PanelProps, 'model' | 'state'>): string {
  const result = search(model, state);
  if (result.kind === 'none') return '';
  if (result.kind === 'invalid') return result.message;
  if (!result.count) return 'no match';
  const zoomed = state.zoom.length > 0 && state.tab === 'flame';
  const tree = zoomed ? flameTree(model, state) : callTree(model, state);
  const node = zoomed ? nodeAt(tree, state.zoom).node : 0;
  const { value } = matchedValue(tree, result.matched, node);
  return `${share(value, tree.total[node]!)} matched`;
}
