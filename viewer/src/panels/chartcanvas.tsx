// The canvas of the stack chart: draws the boxes in view, zooms, pans, and describes the box under the
// pointer.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { JSX } from 'preact';
import type { Shape } from '../aggregate.ts';
import { colourOf } from '../colour.ts';
import { search } from '../derive.ts';
import { duration } from '../format.ts';
import type { Model } from '../model.ts';
import { frameColour, kindWord } from '../palette.ts';
import type { PanelProps } from '../panel.ts';
import { boxesIn, type Box, type ThreadSamples } from '../stackchart.ts';
import { zoomIntoBrush, type Colour, type Range } from '../state.ts';
import { ticks } from '../timeline/ruler.ts';
import { movedRanges, shownRanges, wheelRanges } from '../timeline/wheel.ts';
import { limited } from './cells.tsx';

const ROW = 18;
const AXIS = 20;
/** Readable on every colour of a box, in both themes. */
const INK = '#17191e';
/** Boxes in the table for screen readers. */
const TABLE_ROWS = 200;

interface Props extends PanelProps {
  tree: Shape;
  samples: ThreadSamples;
  /** Rows of the deepest stack. */
  rows: number;
  /** The visible time: that of the timeline. */
  range: Range;
  firstRow: number;
  onRow: (firstRow: number) => void;
  /** The current match of the search. */
  marked: Box | undefined;
}

/** The part of the chart in view. */
interface ChartView { from: number; to: number; firstRow: number }

interface Pointed {
  box: Box;
  x: number;
  y: number;
}

export function ChartCanvas(props: Props): JSX.Element {
  const { model, state, dispatch, dark, tree, samples, rows, range, onRow, marked } = props;
  const holder = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 800, height: 300 });
  const [pointed, setPointed] = useState<Pointed>();
  const found = search(model, state);
  const matched = found.kind === 'found' ? found.matched : undefined;
  const dragged = useRef<{ x: number; y: number; firstRow: number; hasMoved: boolean } | undefined>(undefined);

  useLayoutEffect(() => {
    const element = holder.current!;
    const measure = (): void => setSize({ width: Math.max(50, element.clientWidth), height: Math.max(50, element.clientHeight) });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  const shownRows = Math.max(1, Math.ceil((size.height - AXIS) / ROW));
  const lastFirst = Math.max(0, rows - Math.floor((size.height - AXIS) / ROW));
  // A higher window shows rows that were scrolled away.
  const view: ChartView = { from: range[0], to: range[1], firstRow: Math.min(props.firstRow, lastFirst) };
  const span = view.to - view.from;
  const boxes = useMemo(
    () => boxesIn(tree, samples, { from: view.from, to: view.to, width: size.width, firstRow: view.firstRow, rows: shownRows }),
    [tree, samples, view.from, view.to, view.firstRow, size.width, shownRows],
  );

  const whole: Range = [0, model.duration];
  const show = (ranges: readonly Range[], merging?: string): void => dispatch({ ranges, brush: undefined }, merging);
  const move = (by: number): void => show(movedRanges(state.ranges, whole, by), 'chart');
  const toRow = (row: number): void => onRow(Math.min(lastFirst, Math.max(0, Math.round(row))));
  const zoomed = useRef(-Infinity);
  const zoom = (factor: number, at: number): void => {
    // As in the timeline: one zoom without a pause is one range.
    const fresh = performance.now() - zoomed.current > 1000 || !state.ranges.length;
    zoomed.current = performance.now();
    show(wheelRanges(state.ranges, whole, at, factor, fresh), 'chart');
  };

  // Wheel events must be able to keep the page from scrolling, which needs a non-passive listener.
  useLayoutEffect(() => {
    const element = canvas.current!;
    const onWheel = (event: WheelEvent): void => {
      event.preventDefault();
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      if (sideways !== 0) return move(sideways * span / size.width);
      if (event.altKey) return toRow(view.firstRow + Math.sign(event.deltaY) * 3);
      zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 400))), view.from + event.offsetX * span / size.width);
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  });

  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => {
      draw(canvas.current!, { model, dark, boxes, view, size, tree, colour: colourOf(model, state), selected: state.fn, pointed: pointed?.box, marked, matched });
    });
    return () => cancelAnimationFrame(frame);
  }, [boxes, dark, state.colour, state.fn, pointed?.box, marked, matched, size]);

  const boxAt = (x: number, y: number): Box | undefined => {
    if (y < AXIS) return undefined;
    const row = view.firstRow + Math.floor((y - AXIS) / ROW);
    const time = view.from + x * span / size.width;
    const pixel = span / size.width;
    return boxes.find(box => box.row === row && box.start <= time && Math.max(box.end, box.start + pixel) > time);
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = marked ? (marked.start + marked.end) / 2 : (view.from + view.to) / 2;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => move(-span / 8),
      ArrowRight: () => move(span / 8),
      ArrowUp: () => toRow(view.firstRow - 1),
      ArrowDown: () => toRow(view.firstRow + 1),
      PageUp: () => toRow(view.firstRow - shownRows + 2),
      PageDown: () => toRow(view.firstRow + shownRows - 2),
      Home: () => toRow(0),
      End: () => toRow(rows),
      '+': () => zoom(0.7, middle),
      '=': () => zoom(0.7, middle),
      '-': () => zoom(1 / 0.7, middle),
      '0': () => show([]),
      Enter: () => dispatch(zoomIntoBrush(state)),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };

  const onPointerDown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    dragged.current = { x: event.offsetX, y: event.offsetY, firstRow: view.firstRow, hasMoved: false };
    canvas.current!.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent): void => {
    const drag = dragged.current;
    if (drag && (drag.hasMoved || Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 3)) {
      drag.hasMoved = true;
      setPointed(undefined);
      if (drag.x !== event.offsetX && state.ranges.length) move((drag.x - event.offsetX) * span / size.width);
      drag.x = event.offsetX;
      toRow(drag.firstRow + (drag.y - event.offsetY) / ROW);
      return;
    }
    const box = boxAt(event.offsetX, event.offsetY);
    setPointed(box && { box, x: event.offsetX, y: event.offsetY });
  };
  const onPointerUp = (event: PointerEvent): void => {
    const drag = dragged.current;
    dragged.current = undefined;
    if (!drag || drag.hasMoved) return;
    const box = boxAt(event.offsetX, event.offsetY);
    if (box) dispatch({ fn: tree.fn[box.node]! });
  };
  const onDblClick = (event: MouseEvent): void => {
    const box = boxAt(event.offsetX, event.offsetY);
    if (box) show(shownRanges(state.ranges, whole, [box.start, box.end], true));
  };

  return (
    <div class="chart-canvas on-axis" ref={holder}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Stack chart from ${duration(view.from)} to ${duration(view.to)}, ${boxes.length} boxes; the next table has the same data`}
        style={{ width: `${size.width}px`, height: `${size.height}px` }}
        onKeyDown={onKeyDown}
        onPointerDown={onPointerDown}
        onPointerMove={onPointerMove}
        onPointerUp={onPointerUp}
        onPointerLeave={() => setPointed(undefined)}
        onDblClick={onDblClick}
      />
      {state.brush && <div class="timeline-brush" style={{ left: `${(state.brush[0] - view.from) * size.width / span}px`, width: `${Math.max(1, (state.brush[1] - state.brush[0]) * size.width / span)}px` }} />}
      {samples.time.length === 0 && <p class="empty">This thread has no selected samples.</p>}
      {rows > shownRows - 1 && <div class="chart-rows quiet" aria-hidden="true">rows {view.firstRow + 1} – {Math.min(rows, view.firstRow + shownRows - 1)} of {rows}</div>}
      {pointed && <Tip model={model} tree={tree} pointed={pointed} size={size} />}
      <div class="hidden"><table aria-label="Stack chart as a table">
        <thead><tr><th>Function</th><th>Depth</th><th>Start</th><th>Duration</th></tr></thead>
        <tbody>
          {boxes.slice(0, TABLE_ROWS).map((box, at) => (
            <tr key={at}>
              <td>{limited(model.name(tree.fn[box.node]!), 200)}</td><td>{box.row + 1}</td><td>{duration(box.start)}</td><td>{duration(box.end - box.start)}</td>
            </tr>
          ))}
        </tbody>
      </table></div>
    </div>
  );
}

function Tip({ model, tree, pointed, size }: { model: Model; tree: Shape; pointed: Pointed; size: { width: number; height: number } }) {
  const fn = tree.fn[pointed.box.node]!;
  const isRight = pointed.x > size.width - 380;
  const isLow = pointed.y > size.height - 110;
  const style = {
    [isRight ? 'right' : 'left']: `${isRight ? size.width - pointed.x + 12 : pointed.x + 12}px`,
    [isLow ? 'bottom' : 'top']: `${isLow ? size.height - pointed.y + 12 : pointed.y + 14}px`,
  };
  return (
    <div class="chart-tip" style={style}>
      <b dir="ltr">{limited(model.name(fn), 300)}</b>
      <div>{duration(pointed.box.end - pointed.box.start)} from {duration(pointed.box.start)}</div>
      <div class="quiet">{[kindWord(model.kind(fn)), model.crate(fn), limited(model.place(fn), 200), tree.inlined[pointed.box.node] ? 'inlined' : ''].filter(Boolean).join(' · ')}</div>
    </div>
  );
}

interface Picture {
  model: Model;
  dark: boolean;
  boxes: readonly Box[];
  view: ChartView;
  size: { width: number; height: number };
  tree: Shape;
  colour: Colour;
  selected: number | undefined;
  pointed: Box | undefined;
  marked: Box | undefined;
  /** 1 for functions that match the search; others are faint. */
  matched: Uint8Array | undefined;
}

function draw(canvas: HTMLCanvasElement, { model, dark, boxes, view, size, tree, colour, selected, pointed, marked, matched }: Picture): void {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(size.width * ratio);
  canvas.height = Math.round(size.height * ratio);
  const context = canvas.getContext('2d')!;
  const style = getComputedStyle(document.documentElement);
  const variable = (name: string): string => style.getPropertyValue(name).trim();
  context.scale(ratio, ratio);
  context.clearRect(0, 0, size.width, size.height);
  context.font = `11px ${variable('--sans') || 'sans-serif'}`;
  context.textBaseline = 'middle';
  const faintInk = variable('--text');
  const scale = size.width / (view.to - view.from);
  const x = (time: number): number => (time - view.from) * scale;

  for (const box of boxes) {
    const left = Math.max(0, x(box.start));
    const width = Math.min(size.width, x(box.end)) - left;
    const top = AXIS + (box.row - view.firstRow) * ROW;
    const fn = tree.fn[box.node]!;
    const isFaint = matched !== undefined && matched[fn] !== 1;
    context.globalAlpha = isFaint ? 0.28 : pointed === box ? 0.75 : 1;
    context.fillStyle = frameColour(model, fn, colour, dark);
    context.fillRect(left, top, Math.max(0.6, width - (width > 3 ? 0.8 : 0)), ROW - 1);
    context.globalAlpha = 1;
    if (fn === selected && width > 2) {
      context.strokeStyle = variable('--accent');
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, width - 2.6, ROW - 3);
    }
    if (width > 34) label(context, model.short(fn), isFaint ? faintInk : INK, left, top, width);
  }
  if (marked) {
    // A match may be narrower than a pixel.
    const left = x(marked.start), width = Math.max(3, x(marked.end) - left), top = AXIS + (marked.row - view.firstRow) * ROW;
    context.fillStyle = variable('--accent');
    context.fillRect(left, top - 2, width, 2);
    context.fillRect(left, top + ROW - 1, width, 2);
  }
  axis(context, view, size, variable('--quiet'), variable('--line'), variable('--background'));
}

function label(context: CanvasRenderingContext2D, short: string, ink: string, left: number, top: number, width: number): void {
  // About 6 pixels per letter; measuring the text of every box would be slow.
  const room = Math.floor((width - 8) / 6.2);
  const text = short.length <= room ? short : `${short.slice(0, Math.max(0, room - 1))}…`;
  if (text.length < 3) return;
  context.fillStyle = ink;
  context.fillText(text, left + 4, top + ROW / 2, width - 6);
}

function axis(context: CanvasRenderingContext2D, view: ChartView, size: { width: number }, ink: string, line: string, paper: string): void {
  context.fillStyle = paper;
  context.fillRect(0, 0, size.width, AXIS - 1);
  context.fillStyle = ink;
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.beginPath();
  for (const { at: time, text } of ticks(view.from, view.to, size.width)) {
    const at = Math.round((time - view.from) * size.width / (view.to - view.from)) + 0.5;
    context.moveTo(at, AXIS - 6);
    context.lineTo(at, AXIS - 1);
    context.fillText(text, at + 4, AXIS / 2 - 1);
  }
  context.moveTo(0, AXIS - 0.5);
  context.lineTo(size.width, AXIS - 0.5);
  context.stroke();
}
