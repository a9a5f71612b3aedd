// Who holds memory over time: live bytes of the largest holders, stacked, on the axis of the timeline.

import './heapchart.css';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { liveAt } from '../derive.ts';
import { bytes, duration, share } from '../format.ts';
import { inFlame } from '../heap.ts';
import { binOf, heldMemory, holderAt, type HeldMemory, type Holders } from '../heapseries.ts';
import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import { nthColour } from '../palette.ts';
import type { PanelProps } from '../panel.ts';
import type { Range } from '../state.ts';
import { drawStacked } from '../timeline/stacked.ts';
import { ticks } from '../timeline/ruler.ts';
import { limited } from './cells.tsx';

/** In pixels: of the chart, of the room above its highest point, and of a bin. */
const HEIGHT = 158, HEAD = 10, STEP = 2;
/** Points in time of the table for screen readers. */
const POINTS = 5;

export function HeapChart({ model, state, dispatch, dark }: PanelProps) {
  const holder = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(600);
  const [pointed, setPointed] = useState<{ x: number; y: number }>();
  const by: Holders = state.panel['heap-holders'] === 'functions' ? 'functions' : 'sites';
  const range: Range = state.ranges.at(-1) ?? [0, model.duration], [from, to] = range;
  const bins = Math.max(1, Math.floor(width / STEP));
  const held = useMemo(() => heldMemory(model, state, by, range, bins),
    [model, by, from, to, bins, JSON.stringify([state.threads, state.inline, state.generics, state.own, state.transforms])]);

  useLayoutEffect(() => {
    const measure = (): void => setWidth(Math.max(50, holder.current!.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(holder.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => { if (held) draw(canvas.current!, held, range, width, dark); }, [held, from, to, width, dark]);
  if (!held) return null;

  const { holders, others, top } = held;
  const time = pointed ? from + pointed.x / width * (to - from) : Math.min(to, liveAt(model, state)), bin = binOf(bins, range, time);
  const all = [...holders, others].reduce((sum, { live }) => sum + live[bin]!, 0);
  const under = pointed ? holderAt(held, bin, (HEIGHT - pointed.y) / (HEIGHT - HEAD) * top) : -1;
  const chosen = Number(state.panel['heap-line'] ?? -1);
  const isChosen = (at: number): boolean => (by === 'sites' ? holders[at]!.site === chosen : holders[at]!.fn === state.fn);
  const choose = (at: number): void => {
    const of = holders[at];
    if (of) dispatch({ ...inFlame(model, state, of.site), panel: { ...state.panel, 'heap-line': String(of.site) } }, 'heap-line');
  };
  const nameOf = (at: number): string => (at === holders.length ? othersName(others.count, by) : limited(model.name(holders[at]!.fn), 200));
  const placeOf = (at: number): string => (at < holders.length && by === 'sites' ? siteOf(model, holders[at]!.site) : '');
  const shown = [...holders.keys(), ...(others.count ? [holders.length] : [])].reverse();
  return (
    <section class="heap-chart" aria-label="Live bytes over time">
      <div class="heap-holders" style={{ height: `${HEIGHT}px` }}>
        {shown.map(at => (
          <button key={at} type="button" class={under === at ? 'pointed' : undefined} disabled={at === holders.length} aria-pressed={at < holders.length && isChosen(at)}
            title={[nameOf(at), placeOf(at)].filter(Boolean).join('\n')} onClick={() => choose(at)}>
            <i style={{ background: colourOf(at, holders.length, dark) }} /><bdi>{at < holders.length ? limited(shortOf(model, holders[at]!.fn, placeOf(at)), 80) : nameOf(at)}</bdi>
            <span>{bytes((holders[at] ?? others).live[bin]!)}</span>
          </button>
        ))}
      </div>
      <div class="heap-area" ref={holder}>
        <canvas ref={canvas} role="img" aria-label={`Live bytes of ${holders.length} ${by} and all others; the next table has the same data`} style={{ width: `${width}px`, height: `${HEIGHT}px` }}
          onPointerMove={event => setPointed({ x: event.offsetX, y: event.offsetY })} onPointerLeave={() => setPointed(undefined)} onClick={() => choose(under)} />
        {state.brush && <div class="timeline-brush" style={{ left: `${(state.brush[0] - from) * width / (to - from)}px`, width: `${Math.max(1, (state.brush[1] - state.brush[0]) * width / (to - from))}px` }} />}
        <span class="heap-top quiet">{bytes(top)}</span>
        {top === 0 && <p class="empty">Nothing of the selection was live in this time.</p>}
        {pointed && top > 0 && <div class="heap-pointed" style={{ left: `${pointed.x}px` }}>
          <div class={pointed.x > width * .6 ? 'left' : ''}>
            {under >= 0 && <><b dir="ltr">{nameOf(under)}</b>{placeOf(under) && <span class="quiet" dir="ltr">{placeOf(under)}</span>}
              <span>{bytes((holders[under] ?? others).live[bin]!)}, {share((holders[under] ?? others).live[bin]!, all)} of {bytes(all)}</span></>}
            <span class="quiet">{under < 0 && `${bytes(all)} live `}at {duration(time)}</span>
          </div>
        </div>}
      </div>
      <Table held={held} range={range} nameOf={at => [nameOf(at), placeOf(at)].filter(Boolean).join(' ')} />
    </section>
  );
}

/** The choice of the holders, next to the other tools of the panel. */
export function HolderChoice({ state, dispatch }: Pick<PanelProps, 'state' | 'dispatch'>) {
  const isFunctions = state.panel['heap-holders'] === 'functions', isOn = isChartShown(state.panel['heap-chart']);
  const set = (key: string, value: string): void => dispatch({ panel: { ...state.panel, [key]: value } });
  return (
    <>
      <button type="button" class="switch" aria-pressed={isOn} title="Live bytes over time, by who allocated them" onClick={() => set('heap-chart', isOn ? 'off' : 'on')}>Over time</button>
      {isOn && <div class="segments" role="group" aria-label="Stacked by">
        <button type="button" aria-pressed={!isFunctions} onClick={() => set('heap-holders', 'sites')}>Sites</button>
        <button type="button" aria-pressed={isFunctions} onClick={() => set('heap-holders', 'functions')}>Functions</button>
      </div>}
    </>
  );
}

/** In a small window the table needs the room. */
export const isChartShown = (setting: string | undefined): boolean => (setting ? setting === 'on' : innerHeight >= 720);

const othersName = (count: number, by: Holders): string => `${count} other${count === 1 ? ` ${by.slice(0, -1)}` : ` ${by}`}`;

const colourOf = (at: number, holders: number, dark: boolean): string => (at < holders ? nthColour(at, dark) : dark ? '#767c87' : '#c4c9d1');

function siteOf(model: Model, site: number): string {
  const { file, line } = model.profile.heap;
  return file[site] === NONE ? '' : model.text(file[site]!) + (line[site] ? `:${line[site]}` : '');
}

/** `push vec.rs:12`, for a narrow column. */
function shortOf(model: Model, fn: number, place: string): string {
  return `${model.short(fn)}${place && ` ${place.slice(place.lastIndexOf('/') + 1)}`}`;
}

function Table({ held: { holders, others, bins }, range: [from, to], nameOf }: { held: HeldMemory; range: Range; nameOf: (at: number) => string }) {
  const points = Array.from({ length: POINTS }, (_, point) => Math.round(point / (POINTS - 1) * (bins - 1)));
  return (
    <div class="hidden"><table aria-label="Live bytes over time as a table">
      <thead><tr><th>Allocated by</th>{points.map((bin, at) => <th key={at}>{duration(from + (bin + 1) / bins * (to - from))}</th>)}</tr></thead>
      <tbody>{[...holders, ...(others.count ? [others] : [])].map(({ live }, at) => <tr key={at}><td>{nameOf(at)}</td>{points.map((bin, point) => <td key={point}>{bytes(live[bin]!)}</td>)}</tr>)}</tbody>
    </table></div>
  );
}

function draw(canvas: HTMLCanvasElement, { holders, others, bins, top }: HeldMemory, [from, to]: Range, width: number, dark: boolean): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(HEIGHT * ratio);
  const context = canvas.getContext('2d')!;
  context.scale(ratio, ratio);
  context.fillStyle = dark ? '#262a32' : '#eef1f5';
  for (const { at } of ticks(from, to, width)) context.fillRect(Math.round((at - from) * width / (to - from)), 0, 1, HEIGHT);
  if (!top) return;
  const values = new Float64Array((holders.length + 1) * bins);
  [...holders, others].forEach(({ live }, at) => values.set(live, at * bins));
  const place = { left: 0, width: bins * STEP, base: HEIGHT, room: HEIGHT - HEAD, top };
  drawStacked(context, values, bins, Array.from({ length: holders.length + 1 }, (_, at) => ({ kind: at, fill: colourOf(at, holders.length, dark) })), place);
  // A line on top of each area: neighbours are told apart by more than their colour.
  context.strokeStyle = dark ? '#17191e' : '#fff';
  context.lineWidth = 1;
  const level = new Float64Array(bins);
  for (let at = 0; at <= holders.length; at++) {
    context.beginPath();
    for (let bin = 0; bin < bins; bin++) {
      level[bin]! += values[at * bins + bin]!;
      const y = HEIGHT - level[bin]! / top * place.room;
      context.lineTo(bin * STEP, y);
      context.lineTo((bin + 1) * STEP, y);
    }
    context.stroke();
  }
}
