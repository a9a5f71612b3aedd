// An interactive flame graph: canvas, highlighted frame, pointer, keyboard, search. The caller decides what
// the frames are and how to describe them.

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useMatches } from '../matches.ts';
import { usePrinting } from '../printing.ts';
import { FlameCanvas } from './canvas.ts';
import type { Appearance } from './draw.ts';
import type { Boxes, Layout } from './layout.ts';
import { neighbour } from './walk.ts';
import './flame.css';

/** The frame under the pointer or the keyboard cursor, and the position of its tooltip in the window. */
interface Marked { node: number; x: number; y: number; layout: Layout }

export interface FlameViewProps {
  layout: Layout;
  /** A new object when frames should be drawn differently. */
  appearance: Appearance;
  zoomed: number;
  rootOnTop: boolean;
  /** The root's row is not drawn. */
  hidesRoot?: boolean;
  /** What it shows and which keys it has. */
  label: string;
  zoom: (node: number) => void;
  /** The search matches, in the order in which `n` visits them; none where another part of the panel visits them. */
  matches?: readonly number[];
  /** Called when the user goes to a match. */
  onMatch: (node: number) => void;
  /** Additional keys, for the highlighted or zoomed frame. */
  keys?: (node: number) => Record<string, () => void>;
  /** The context menu of a frame; `onMenu` is called first. */
  menu?: (at: { node: number; x: number; y: number }, close: () => void) => ComponentChildren;
  onMenu?: (node: number) => void;
  /** Shown above the graph. */
  bar: ComponentChildren;
  /** Shown instead of the graph when there is nothing to draw. */
  empty: ComponentChildren;
  tip: (at: { node: number; x: number; y: number }) => ComponentChildren;
  /** The same as one sentence, for screen readers. */
  describe: (node: number) => string;
  /** The frames in view as a table; `version` changes when they do. */
  table: (boxes: Boxes | undefined, version: number) => ComponentChildren;
}

export function FlameView({ layout, appearance, zoomed, rootOnTop, hidesRoot, label, matches, onMatch, keys, onMenu, ...given }: FlameViewProps) {
  const { tree } = layout;
  const scroller = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null), spacer = useRef<HTMLDivElement>(null);
  const mark = useRef<HTMLDivElement>(null);
  const picture = useRef<FlameCanvas | undefined>(undefined);
  const [marked, setMarked] = useState<Marked | undefined>(undefined);
  const [menu, setMenu] = useState<{ node: number; x: number; y: number } | undefined>(undefined);
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

  // Before the browser paints: after a new time selection no outdated drawing is visible, not even for one
  // frame.
  useLayoutEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const made = new FlameCanvas(scroller.current!, canvas.current!, spacer.current!, () => {
      placeMark();
      clearTimeout(timer);
      timer = setTimeout(() => setDrawn(count => count + 1), 300); // the accessible table follows when drawing pauses
    });
    picture.current = made;
    return () => { clearTimeout(timer); made.close(); picture.current = undefined; };
  }, []);
  useLayoutEffect(() => {
    picture.current?.show({ layout, zoomed, rootOnTop, hidesRoot, appearance });
  }, [layout, zoomed, rootOnTop, hidesRoot, appearance]);
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
    given.zoom(node);
  };

  // Selects and highlights the next match, and scrolls to it.
  useMatches(matches, node => {
    if (!picture.current?.isVisible(node) || (zoomed && !isInside(tree.parent, node, zoomed))) zoom(node);
    else onMatch(node);
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
    setMenu({ node, x, y });
    onMenu?.(node);
  };
  const onContextMenu = (event: MouseEvent) => {
    const node = picture.current?.nodeAt(event.clientX, event.clientY) ?? -1;
    if (node <= 0 || !given.menu) return;
    event.preventDefault();
    setMarked({ node, layout, x: event.clientX, y: event.clientY });
    openMenu(node, event.clientX, event.clientY);
  };
  useEffect(() => {
    // Not through Preact: the listener must be able to keep the page from zooming.
    const onWheel = (event: WheelEvent) => {
      const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      // Without Ctrl the wheel scrolls, where there is something to scroll.
      const zooms = event.ctrlKey || event.metaKey || (!isSideways && element.scrollHeight <= element.clientHeight + 1);
      if (!zooms && !isSideways) return;
      event.preventDefault();
      if (zooms) picture.current?.zoomAt(event.clientX, Math.exp(-event.deltaY / 250));
      else picture.current?.pan(event.deltaX);
    };
    const element = scroller.current!;
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = current?.node ?? zoomed;
    const [away, back] = rootOnTop ? ['ArrowDown', 'ArrowUp'] : ['ArrowUp', 'ArrowDown'];
    const acts: Record<string, () => void> = {
      [away]: () => markByKey(current ? layout.childrenOf(at).find(child => !!picture.current?.isVisible(child)) ?? at : at),
      [back]: () => markByKey(tree.parent[at]!),
      ArrowLeft: () => markByKey(neighbour(layout, at, -1, node => !!picture.current?.isVisible(node))),
      ArrowRight: () => markByKey(neighbour(layout, at, 1, node => !!picture.current?.isVisible(node))),
      Home: () => markByKey(0),
      Enter: () => { zoom(at); markByKey(at); },
      ' ': () => { zoom(at); markByKey(at); },
      Backspace: () => { const up = tree.parent[zoomed]!; zoom(up); markByKey(up); },
      ...(given.menu ? { ContextMenu: () => menuByKey(at) } : {}),
      ...keys?.(at),
    };
    const free = event.key === 'Escape' && picture.current?.zoomedFreely && !menu;
    const act = free ? () => picture.current?.resetView() : event.key === 'F10' && event.shiftKey && given.menu ? () => menuByKey(at) : acts[event.key];
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
      {given.bar}
      <div class="flame-scroll" ref={scroller} tabIndex={0} role="application" aria-roledescription="flame graph"
        aria-label={label} onKeyDown={onKeyDown}
        onPointerDown={onPointerDown} onPointerMove={onPointerMove} onPointerLeave={() => { if (!menu) setMarked(undefined); }} onClick={onClick}
        onContextMenu={onContextMenu} onBlur={() => { if (!menu) setMarked(undefined); }}>
        <div class="flame-window">
          <canvas ref={canvas} />
          <div class="flame-mark" ref={mark} />
        </div>
        <div ref={spacer} />
      </div>
      {tree.total[0] === 0 && <p class="flame-empty">{given.empty}</p>}
      {current && !menu && given.tip(current)}
      {menu && given.menu?.(menu, () => { setMenu(undefined); scroller.current?.focus(); })}
      <div class="hidden" role="status">{current ? given.describe(current.node) : ''}</div>
      {given.table(picture.current?.boxes, drawn)}
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
