// The context menu for the function of a frame or a row.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { chosenEditor, copy, openInEditor } from '../editor.ts';
import type { PanelProps } from '../panel.ts';
import { shortPath } from '../paths.ts';
import { transformsOf } from '../panels/transformkeys.ts';
import { transformed } from '../state.ts';
import { libraryName, type Transform } from '../transforms.ts';

type Item = [text: string, key: string, act: () => void];

const ACTS: Record<Transform['kind'], string> = {
  focus: 'Focus on this function', hide: 'Hide stacks with this function', merge: 'Merge this function into its callers',
  collapse: 'Collapse this function: callees count as its own', library: 'Collapse LIBRARY: keep only calls into it',
  subtree: 'Focus on this place only', node: 'Merge in this place only',
};

export interface MenuAt {
  fn: number;
  /** Its place in the call tree: the functions from the root, where it is one. */
  path?: readonly number[] | undefined;
  /** Zooms into the frame, where there is one. */
  zoom?: () => void;
  /** The frames from here to the root, one per line, where there is a stack. */
  stack?: () => string;
  /** A source location, if it is not the function's own. */
  place?: string | undefined;
  x: number;
  y: number;
}

type MenuProps = Pick<PanelProps, 'model' | 'state' | 'dispatch' | 'chooseEditor'> & { at: MenuAt; close: () => void };

export function Menu({ model, state, dispatch, chooseEditor, at, close }: MenuProps) {
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
  const place = at.place || model.place(fn), short = shortPath(place);
  const editor = !!chosenEditor().address;
  const items: Item[] = [
    ...(at.zoom ? [['Zoom into this frame', 'Enter', at.zoom] as Item] : []),
    ...Object.entries(transformsOf(model, at)).map(([key, transform]): Item =>
      [ACTS[transform.kind].replace('LIBRARY', libraryName(model, fn).slice(0, 60) || 'this library'), key, () => dispatch(transformed(state, transform))]),
    ['Show in the function table', '', () => dispatch({ tab: 'functions', fn })],
    ['Show callers and callees as flame graphs', '', () => dispatch({ tab: 'functions', fn, panel: { ...state.panel, 'sandwich-view': 'flame' } })],
    ['Show source and code', '', () => dispatch({ tab: 'source', fn })],
    ['Search for this name', '', () => dispatch({ search: model.name(fn).slice(0, 500), regex: false })],
    ['Copy function name', '', () => copy(model.name(fn))],
    ...(at.stack ? [['Copy stack', '', () => copy(at.stack!())] as Item] : []),
    ...(place && editor ? [[`Open ${short}`, 'e', () => { if (!openInEditor(place)) copy(place); }] as Item] : []),
    ...(place ? [[`Copy ${short}`, '', () => copy(place)] as Item] : []),
    ['Choose an editor …', '', chooseEditor],
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
