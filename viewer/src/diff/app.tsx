// A comparison of two sides: the answer, the flame graph of both, and the table of functions.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { firstStep, givenAddress, useAddress } from '../address.ts';
import { count } from '../format.ts';
import { Help } from '../help.tsx';
import { KEYS, type Key } from '../keys.ts';
import { toMatch } from '../matches.ts';
import type { Model } from '../model.ts';
import type { Dispatch } from '../panel.ts';
import { Remarks } from '../remarks.tsx';
import { SaveButton } from '../savebutton.tsx';
import { SearchBox } from '../search.tsx';
import { begin, change, fit, fromHash, redo, START, TABS, undo, type History, type State } from '../state.ts';
import { useDark } from '../theme.ts';
import { SIDES, type Changes, type Side, type Total, type Width } from './changes.ts';
import { DiffFlame, widthOf } from './flame.tsx';
import { DiffTable } from './table.tsx';
import { beforeAfter, worth } from './words.ts';
import './diff.css';

const WORDS: Record<Width, { title: string; help: string }> = {
  both: { title: 'Both', help: 'Frame width: the larger of before and after (1)' },
  before: { title: 'Before', help: 'Frame width: before the change (2)' },
  after: { title: 'After', help: 'Frame width: after the change (3)' },
};

/** The keyboard shortcuts that apply here. */
const HERE: readonly Key[] = [
  { place: 'anywhere', keys: '1  2  3', does: 'Show both sides, before, after' },
  { place: 'anywhere', keys: 'Escape', does: 'Go back one step: zoom, selected function, search' },
  ...KEYS.filter(({ place, keys }) => (place === 'anywhere' && /^(\/|n {2}N|u {2}r|k|w|d|\?)$/.test(keys))
    || (place === 'flame' && !/^(f {2}h {2}m|Shift\+F10)$/.test(keys)) || (place === 'table' && /^(↑|Shift\+↑)/.test(keys))),
  { place: 'table', keys: 'Enter', does: 'Search for the function' },
];

export function DiffApp({ model, changes }: { model: Model; changes: Changes }) {
  const fromAddress = (): State => fit(fromHash(givenAddress()), { metrics: 1, threads: 0, functions: model.functionCount, spans: 0, findings: 0, duration: 1, tabs: TABS });
  const [history, setHistory] = useState<History>(() => begin(fromAddress(), firstStep()));
  const [help, setHelp] = useState(false);
  const state = history.present, dark = useDark(state.theme);
  const latest = useRef(state);
  latest.current = state;
  const dispatch = useCallback<Dispatch>((changes, merging) => setHistory(history => change(history, changes, merging)), []);
  useAddress(history, fromAddress, setHistory);
  const setWidth = (width: Width) => {
    const { 'diff-side': _, ...others } = latest.current.panel;
    dispatch({ panel: width === 'both' ? others : { ...others, 'diff-side': width } });
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => key(event, latest.current, {
      dispatch, setWidth, undo: () => setHistory(undo), redo: () => setHistory(redo), help: () => setHelp(shown => !shown),
    });
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  const props = { model, changes, state, dispatch, dark };
  const title = titleOf(changes);
  useEffect(() => { document.title = `${title.slice(0, 80)} · whyslow`; }, [title]);
  return (
    <div class="app">
      <header class="header">
        <h1 title={title}><span class="brand">whyslow</span> <bdi>{title}</bdi></h1>
        <div class="facts">{changes.metric} · {changes.runs === 1 ? '1 run per side' : `${count(changes.runs)} runs per side`}</div>
        <SearchBox model={model} state={state} dispatch={dispatch} about={found => `${count(found)} ${found === 1 ? 'function' : 'functions'}`} />
        <div class="buttons">
          <button type="button" class="icon" onClick={() => setHistory(undo)} disabled={!history.past.length} aria-label="Undo" title="Undo (u)">↶</button>
          <button type="button" class="icon" onClick={() => setHistory(redo)} disabled={!history.future.length} aria-label="Redo" title="Redo (r)">↷</button>
          <button type="button" class="icon" onClick={() => dispatch({ theme: dark ? 'light' : 'dark' })} aria-label={dark ? 'Light theme' : 'Dark theme'}
            title={dark ? 'Light theme (d)' : 'Dark theme (d)'}>{dark ? '☀' : '☾'}</button>
          <SaveButton file="diff" state={state} />
          <button type="button" class="icon" onClick={() => setHelp(true)} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">?</button>
        </div>
      </header>
      <main class="diff" id="panel" tabIndex={-1}>
        <Answer changes={changes} />
        <div class="diff-parts">
          <section class="diff-picture pane" aria-label="Flame graph">
            <div class="tools">
              <h2>Flame graph</h2>
              <div class="segments" role="group" aria-label="Frame width">
                {SIDES.map(side => <button key={side} type="button" aria-pressed={widthOf(state) === side} title={WORDS[side].help} onClick={() => setWidth(side)}>{WORDS[side].title}</button>)}
              </div>
              <button type="button" aria-pressed={state.icicle} title="Root on top (k)" onClick={() => dispatch({ icicle: !state.icicle })}>Icicle</button>
              <button type="button" aria-pressed={state.whole} title="Also show start-up and runtime frames (w)" onClick={() => dispatch({ whole: !state.whole })}>Whole stacks</button>
            </div>
            <DiffFlame {...props} />
          </section>
          <DiffTable {...props} />
        </div>
      </main>
      {help && <Help close={() => setHelp(false)} keys={HERE} />}
    </div>
  );
}

/** whyslow's answer, what it is based on, and the totals. */
function Answer({ changes }: { changes: Changes }) {
  const { answer, worth: restsOn, before, after, remarks, totals, verdicts } = changes;
  return (
    <section class="diff-answer" aria-label="Answer">
      <p class="diff-sentence">{answer}</p>
      <Remarks remarks={remarks} />
      <details>
        <summary>Details: both sides, all totals, and what the numbers are based on</summary>
        <p class="quiet">{restsOn}</p>
        <dl class="diff-sides">
          <dt>before</dt><dd><SideWords side={before} /></dd>
          <dt>after</dt><dd><SideWords side={after} /></dd>
        </dl>
        <table class="diff-totals">
          <thead><tr><th scope="col">Total</th><th scope="col">Before → after</th><th scope="col">Change</th><th scope="col">Verdict</th></tr></thead>
          <tbody>{totals.filter(isNotable).map(total => (
            <tr key={total.what}><th scope="row">{total.what}</th><td>{beforeAfter(total, total.unit)}</td><td>{worth(total, total.unit)}</td><td>{verdicts[total.verdict]}</td></tr>
          ))}</tbody>
        </table>
      </details>
    </section>
  );
}

const isNotable = ({ before, after }: Total): boolean => before > 0 || after > 0;

function SideWords({ side: { files, command } }: { side: Side }) {
  return <><bdi>{files.length > 3 ? `${files.length} files, ${files[0]} to ${files.at(-1)}` : files.join(', ')}</bdi>{command && <> · <code>{command.slice(0, 300)}</code></>}</>;
}

/** The title of both sides: their commands, or their files. */
function titleOf({ before, after }: Changes): string {
  const [old, now] = [before, after].map(({ command, files }) => (command || files[0] || '').replace(/^\S*\/(?=[^\s/])/, ''));
  return old === now ? `${now}: before and after` : `${old} → ${now}`;
}

interface Acts { dispatch: Dispatch; setWidth: (width: Width) => void; undo: () => void; redo: () => void; help: () => void }

/** Keys that work anywhere on the page. */
function key(event: KeyboardEvent, state: State, { dispatch, setWidth, undo, redo, help }: Acts): void {
  if (event.defaultPrevented || event.altKey) return;
  const target = event.target as HTMLElement, isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  const back = (): Partial<State> => (state.zoom.length ? { zoom: [] } : state.fn !== undefined ? { fn: undefined } : { search: START.search });
  const control = event.ctrlKey || event.metaKey;
  const plain: Record<string, () => void> = {
    '/': () => document.getElementById('search')?.focus(), '?': help, n: () => toMatch(1), N: () => toMatch(-1), u: undo, r: redo,
    k: () => dispatch({ icicle: !state.icicle }), w: () => dispatch({ whole: !state.whole }), 1: () => setWidth('both'), 2: () => setWidth('before'), 3: () => setWidth('after'),
    d: () => dispatch({ theme: document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark' }),
  };
  const withControl: Record<string, () => void> = { z: event.shiftKey ? redo : undo, y: redo };
  let act: (() => void) | undefined;
  if (event.key === 'Escape' && !control) {
    if (document.querySelector('dialog[open]')) return;
    act = () => { if (isTyping) target.blur(); dispatch(isTyping ? { search: '' } : back()); };
  } else if (!isTyping) act = (control ? withControl : plain)[event.key.length === 1 && control ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

