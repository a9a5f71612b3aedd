// What can be done with the function of a frame.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { Model } from '../model.ts';
import type { Dispatch } from '../panel.ts';
import { transformed, type State } from '../state.ts';

export interface MenuAt { fn: number; zoom: () => void; x: number; y: number }

export function Menu({ model, state, dispatch, at, close }: { model: Model; state: State; dispatch: Dispatch; at: MenuAt; close: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const { width, height } = box.current!.getBoundingClientRect();
    box.current!.style.transform = `translate(${Math.max(4, Math.min(at.x, innerWidth - width - 6))}px, ${Math.max(4, Math.min(at.y, innerHeight - height - 6))}px)`;
    box.current!.querySelector<HTMLElement>('[role=menuitem]')?.focus();
  }, [at]);
  useEffect(() => {
    const onDown = (event: Event) => { if (!box.current?.contains(event.target as Node)) close(); };
    addEventListener('pointerdown', onDown, true);
    return () => removeEventListener('pointerdown', onDown, true);
  }, []);
  const { fn } = at;
  const items: [string, string, () => void][] = [
    ['Zoom into this frame', 'Enter', at.zoom],
    ['Focus on this function', 'f', () => dispatch(transformed(state, { kind: 'focus', fn }))],
    ['Hide stacks with this function', 'h', () => dispatch(transformed(state, { kind: 'hide', fn }))],
    ['Merge this function into its callers', 'm', () => dispatch(transformed(state, { kind: 'merge', fn }))],
    ['Show in the function table', '', () => dispatch({ tab: 'functions', fn })],
    ['Show source and code', '', () => dispatch({ tab: 'source', fn })],
    ['Search for this name', '', () => dispatch({ search: model.name(fn).slice(0, 500), regex: false })],
    ['Copy the name', '', () => void navigator.clipboard?.writeText(model.name(fn)).catch(() => undefined)],
  ];
  const onKeyDown = (event: KeyboardEvent) => {
    const list = [...box.current!.querySelectorAll<HTMLElement>('[role=menuitem]')], now = list.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const item = items.find(([, key]) => key === event.key && key.length === 1);
    if (step) list[(now + step + list.length) % list.length]?.focus();
    else if (event.key === 'Escape' || event.key === 'Tab') close();
    else if (item) { item[2](); close(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" role="menu" ref={box} onKeyDown={onKeyDown} aria-label="Function">
      <div class="menu-title"><bdi>{model.short(fn).slice(0, 200)}</bdi></div>
      {items.map(([text, key, act]) => (
        <button key={text} type="button" role="menuitem" tabIndex={-1} onClick={() => { act(); close(); }}>{text}{key && <kbd>{key}</kbd>}</button>
      ))}
    </div>
  );
}
