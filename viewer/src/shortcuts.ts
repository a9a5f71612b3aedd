// Keys that work anywhere on the page; keys.ts lists them for the user.

import { toMatch } from './matches.ts';
import type { Dispatch } from './panel.ts';
import { escape, type Colour, type State, type Tab } from './state.ts';

interface Acts { tabs: readonly Tab[]; colour: (state: State) => Colour; toPanel: (tab: Tab) => void; dispatch: Dispatch; undo: () => void; redo: () => void; help: () => void }

const focus = (selector: string) => document.querySelector<HTMLElement>(selector)?.focus();

export function globalKey(event: KeyboardEvent, state: State, { tabs, colour, toPanel, dispatch, undo, redo, help }: Acts): void {
  if (event.defaultPrevented || event.altKey) return;
  const target = event.target as HTMLElement;
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  const control = event.ctrlKey || event.metaKey;
  let act: (() => void) | undefined;
  if (control) {
    const key = event.key.toLowerCase();
    if (typing) return;
    if (key === 'z') act = event.shiftKey ? redo : undo;
    else if (key === 'y') act = redo;
  } else if (event.key === 'Escape') {
    if (document.querySelector('dialog[open]')) return;
    act = () => {
      if (typing) target.blur();
      dispatch(typing && target.id === 'search' ? { search: '' } : escape(state));
    };
  } else if (!typing) {
    const plain: Record<string, () => void> = {
      '/': () => focus('#search'),
      '?': help,
      n: () => toMatch(1),
      N: () => toMatch(-1),
      u: undo,
      r: redo,
      i: () => dispatch({ inverted: !state.inverted }),
      k: () => dispatch({ icicle: !state.icicle }),
      l: () => dispatch({ inline: !state.inline }),
      g: () => dispatch({ generics: !state.generics }),
      o: () => dispatch({ collapse: !state.collapse }),
      y: () => dispatch({ own: !state.own }),
      w: () => dispatch({ whole: !state.whole }),
      b: () => dispatch({ byName: !state.byName }),
      c: () => dispatch({ colour: colour(state) }),
      d: () => dispatch({ theme: document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark' }),
      t: () => focus('.timeline-tracks'),
    };
    const tab = tabs[Number(event.key) - 1];
    act = tab ? () => toPanel(tab) : plain[event.key];
  }
  if (act) {
    event.preventDefault();
    act();
  }
}
