// The flame graph: canvas, breadcrumb, legend, details of a frame, menu, keyboard.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { colourOf } from '../colour.ts';
import { flameTree, search } from '../derive.ts';
import { useMatches } from '../matches.ts';
import { Nothing } from '../panels/nothing.tsx';
import type { PanelProps } from '../panel.ts';
import { usePrinting } from '../printing.ts';
import { transformed } from '../state.ts';
import { FlameCanvas } from './canvas.ts';
import { Crumbs } from './crumbs.tsx';
import { describe, Tip } from './tip.tsx';
import { FrameTable } from './frame_table.tsx';
import { familiesOf, Labels } from './label.ts';
import { Layout } from './layout.ts';
import { Legend, useWanted } from './legend.tsx';
import { Menu, type MenuAt } from './menu.tsx';
import { nodeAt, pathOf } from './path.ts';
import { threadShares } from './threads.ts';
import { timeShares } from './times.ts';
import { beside } from './walk.ts';
import './flame.css';

/** The frame under the pointer or the keyboard, and where its details go (in the window). */
interface Marked { node: number; x: number; y: number; layout: Layout }

export function FlamePanel({ model, state, dispatch, dark, chooseEditor }: PanelProps) {
  const colour = colourOf(model, state);
  const tree = flameTree(model, state);
  const layout = useMemo(() => new Layout(tree, state.byName ? model.nameRanks() : undefined), [tree, state.byName]);
  const labels = useMemo(() => new Labels(model), [model]);
  const zoomed = nodeAt(tree, state.zoom).node;
  const rootOnTop = state.icicle !== state.inverted;
  const found = search(model, state);
  const [group, setGroup] = useState<string | undefined>(undefined);
  useEffect(() => setGroup(undefined), [colour]);
  const inGroup = useWanted(model, colour, group);
  const wanted = found.kind === 'found' ? found.matched : inGroup;

  const threads = useMemo(() => colour === 'thread' ? threadShares(model, state) : undefined, [tree, colour]);
  const times = useMemo(() => colour === 'time' ? timeShares(model, state, tree) : undefined, [tree, colour]);
  const timeWanted = times && group !== undefined ? model.profile.timeKinds.findIndex(({ word }) => word === group) : -1;

  const scroller = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null), spacer = useRef<HTMLDivElement>(null);
  const mark = useRef<HTMLDivElement>(null);
  const picture = useRef<FlameCanvas | undefined>(undefined);
  const [marked, setMarked] = useState<Marked | undefined>(undefined);
  const [menu, setMenu] = useState<MenuAt | undefined>(undefined);
  const [drawn, setDrawn] = useState(0);
  const current = marked?.layout === layout ? marked : undefined;
  const latest = useRef<Marked | undefined>(undefined);
  latest.current = current;

  const placeMark = () => {
    const rect = latest.current && picture.current?.rectOf(latest.current.node);
    const style = mark.current?.style;
    if (!style) return;
    style.display = rect ? 'block' : 'none';
    if (!rect) return;
    style.transform = `translate(${rect.x - 1}px, ${rect.y - 1}px)`;
    style.width = `${rect.width + 2}px`;
    style.height = `${rect.height + 2}px`;
  };

  // Before the browser paints: after a brush no old picture is seen, not for one frame.
  useLayoutEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const made = new FlameCanvas(scroller.current!, canvas.current!, spacer.current!, () => {
      placeMark();
      clearTimeout(timer);
      timer = setTimeout(() => setDrawn(count => count + 1), 300); // the table behind the canvas follows when all is quiet
    });
    picture.current = made;
    return () => { clearTimeout(timer); made.close(); picture.current = undefined; };
  }, []);
  useLayoutEffect(() => {
    picture.current?.show({ layout, zoomed, rootOnTop, look: { model, labels, colour, dark, wanted, zoomed, threads, times, timeWanted, inverted: state.inverted } });
  }, [layout, zoomed, rootOnTop, colour, dark, wanted, threads, times, timeWanted]);
  useLayoutEffect(placeMark, [marked, layout]);
  const printing = usePrinting();
  useLayoutEffect(() => picture.current?.onPaper(printing), [printing]);

  const markByKey = (node: number) => {
    picture.current?.reveal(node);
    const rect = picture.current?.rectOf(node), at = canvas.current!.getBoundingClientRect();
    setMarked({ node, layout, x: at.left + (rect ? Math.min(rect.x + 12, at.width - 40) : 0), y: at.top + (rect?.y ?? 0) + 10 });
  };
  const zoom = (node: number) => {
    setMenu(undefined);
    dispatch({ zoom: pathOf(tree, node), ...(node ? { fn: tree.fn[node]! } : {}) });
  };

  // Matches, heaviest first; the next one is selected, marked and brought into sight.
  const matches = useMemo(() => {
    const nodes: number[] = [];
    if (found.kind !== 'found') return nodes;
    for (let node = 1; node < tree.total.length; node++) if (model.isAmong(found.matched, tree.fn[node]!, familiesOf(tree, node)) && tree.total[node]! > 0) nodes.push(node);
    return nodes.sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
  }, [tree, found]);
  useMatches(matches, node => {
    if (!picture.current?.isVisible(node) || (zoomed && !isInside(tree.parent, node, zoomed))) zoom(node);
    else dispatch({ fn: tree.fn[node]! });
    markByKey(node);
  });

  const drag = useRef<{ x: number; y: number; scroll: number; moved: boolean } | undefined>(undefined);
  const onPointerDown = (event: PointerEvent) => {
    setMenu(undefined);
    if (event.button !== 0 || event.target !== canvas.current) return;
    drag.current = { x: event.clientX, y: event.clientY, scroll: scroller.current!.scrollTop, moved: false };
  };
  const onPointerMove = (event: PointerEvent) => {
    const from = drag.current;
    if (from && event.buttons & 1) {
      if (!from.moved && Math.hypot(event.clientX - from.x, event.clientY - from.y) > 4) {
        from.moved = true;
        canvas.current!.setPointerCapture(event.pointerId);
      }
      if (from.moved) {
        picture.current?.pan(from.x - event.clientX);
        scroller.current!.scrollTop = from.scroll + from.y - event.clientY;
        Object.assign(from, { x: event.clientX, y: event.clientY, scroll: scroller.current!.scrollTop });
        setMarked(undefined);
        return;
      }
    }
    const node = picture.current?.nodeAt(event.clientX, event.clientY) ?? -1;
    if (menu) return;
    if (node < 0) setMarked(undefined);
    else setMarked({ node, layout, x: event.clientX, y: event.clientY });
  };
  const onClick = (event: MouseEvent) => {
    const moved = drag.current?.moved;
    drag.current = undefined;
    if (moved) return;
    const node = picture.current?.nodeAt(event.clientX, event.clientY) ?? -1;
    if (node >= 0) zoom(node);
  };
  const openMenu = (node: number, x: number, y: number) => {
    setMenu({ fn: tree.fn[node]!, zoom: () => zoom(node), x, y });
    dispatch({ fn: tree.fn[node]! });
  };
  const onContextMenu = (event: MouseEvent) => {
    const node = picture.current?.nodeAt(event.clientX, event.clientY) ?? -1;
    if (node <= 0) return;
    event.preventDefault();
    setMarked({ node, layout, x: event.clientX, y: event.clientY });
    openMenu(node, event.clientX, event.clientY);
  };
  useEffect(() => {
    // Not through Preact: the listener must be able to keep the page from zooming.
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) picture.current?.zoomAt(event.clientX, Math.exp(-event.deltaY / 250));
      else picture.current?.pan(event.deltaX);
    };
    const element = scroller.current!;
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = current?.node ?? zoomed, fn = tree.fn[at]!;
    const [away, back] = rootOnTop ? ['ArrowDown', 'ArrowUp'] : ['ArrowUp', 'ArrowDown'];
    const transform = (kind: 'focus' | 'hide' | 'merge') => () => { if (at) dispatch(transformed(state, { kind, fn })); };
    const acts: Record<string, () => void> = {
      [away]: () => markByKey(current ? layout.childrenOf(at).find(child => !!picture.current?.isVisible(child)) ?? at : at),
      [back]: () => markByKey(tree.parent[at]!),
      ArrowLeft: () => markByKey(beside(layout, at, -1, node => !!picture.current?.isVisible(node))),
      ArrowRight: () => markByKey(beside(layout, at, 1, node => !!picture.current?.isVisible(node))),
      Home: () => markByKey(0),
      Enter: () => { zoom(at); markByKey(at); },
      ' ': () => { zoom(at); markByKey(at); },
      Backspace: () => { const up = tree.parent[zoomed]!; zoom(up); markByKey(up); },
      ContextMenu: () => menuByKey(at),
      f: transform('focus'),
      h: transform('hide'),
      m: transform('merge'),
    };
    const free = event.key === 'Escape' && picture.current?.zoomedFreely && !menu;
    const act = free ? () => picture.current?.resetView() : event.key === 'F10' && event.shiftKey ? () => menuByKey(at) : acts[event.key];
    if (event.key === 'Escape') setMarked(undefined);
    if (!act) return;
    event.preventDefault();
    act();
  };
  const menuByKey = (node: number) => {
    if (!node) return;
    markByKey(node);
    const rect = picture.current?.rectOf(node), at = canvas.current!.getBoundingClientRect();
    openMenu(node, at.left + (rect?.x ?? 0) + 10, at.top + (rect?.y ?? 0) + 18);
  };

  return (
    <div class="flame">
      <div class="flame-bar">
        <Crumbs model={model} tree={tree} zoomed={zoomed} zoom={zoom} />
        <Legend model={model} state={state} colour={colour} dark={dark} threads={threads} times={times} group={group} setGroup={setGroup} />
      </div>
      <div class="flame-scroll" ref={scroller} tabIndex={0} role="application" aria-roledescription="flame graph"
        aria-label="Flame graph. Arrow keys move, Enter zooms, Escape goes back, f focuses, h hides, m merges." onKeyDown={onKeyDown}
        onPointerDown={onPointerDown} onPointerMove={onPointerMove} onPointerLeave={() => { if (!menu) setMarked(undefined); }} onClick={onClick}
        onContextMenu={onContextMenu} onBlur={() => { if (!menu) setMarked(undefined); }}>
        <div class="flame-window">
          <canvas ref={canvas} />
          <div class="flame-mark" ref={mark} />
        </div>
        <div ref={spacer} />
      </div>
      {tree.total[0] === 0 && <p class="flame-empty"><Nothing model={model} state={state} dispatch={dispatch} /></p>}
      {current && !menu && <Tip model={model} state={state} tree={tree} times={times} node={current.node} zoomed={zoomed} x={current.x} y={current.y} />}
      {menu && <Menu model={model} state={state} dispatch={dispatch} chooseEditor={chooseEditor} at={menu} close={() => { setMenu(undefined); scroller.current?.focus(); }} />}
      <div class="hidden" role="status">{current ? describe(model, state, tree, current.node, times) : ''}</div>
      <FrameTable model={model} state={state} tree={tree} times={times} boxes={picture.current?.boxes} version={drawn} />
    </div>
  );
}

function isInside(parent: Uint32Array, node: number, around: number): boolean {
  for (let at = node; at >= around; at = parent[at]!) {
    if (at === around) return true;
    if (at === 0) break;
  }
  return false;
}
