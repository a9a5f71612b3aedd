// The timeline: tracks of counters, spans and threads. Selects time and threads.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { criticalPath } from '../critical.ts';
import { threadValues } from '../derive.ts';
import { requesterKinds } from '../heap.ts';
import type { PanelProps } from '../panel.ts';
import { timeRange, zoomIntoBrush, type Range } from '../state.ts';
import { waitsOf } from '../waits.ts';
import { byThread, stackKinds, stretches, type ThreadSamples } from './activity.ts';
import { TimelineBar } from './bar.tsx';
import { brushKey } from './keyboard.ts';
import { ActivityCache, binsFor, drawTracks, type Scene } from './draw.ts';
import { Labels, labelWidth, stopId } from './labels.tsx';
import { TimeTable } from './legend.tsx';
import { drawPath, isPathDrawn, pathMarks, pathWords, rowsOfThreads } from './path.ts';
import { readout, spanAt, stretchUnder } from './readout.ts';
import { clock } from './ruler.ts';
import { Ruler } from './ruler_view.tsx';
import { TimeCache } from './states.ts';
import { chooseThread, isChosen } from './threads.ts';
import { groupName, parseChanged, toggled, tracksBetween, tracksOf, type Stop } from './tracks.ts';
import { wheelRanges } from './wheel.ts';
import './timeline.css';

/** Tracks are higher where waits were recorded. */
const MOST_HEIGHT = { plain: 300, withWaits: 400 };
/** Pixels around an edge of the time selection in which it can be dragged. */
const GRIP = 5;

type Drag =
  | { kind: 'new'; from: number; x: number; moved: boolean }
  | { kind: 'edge'; other: number };

export function Timeline(props: PanelProps) {
  const { model } = props;
  if (model.timed || model.profile.threads.count > 1) return <Tracks {...props} />;
  return <section class="timeline bare" aria-label="Timeline"><TimelineBar {...props} /></section>;
}

function Tracks({ model, state, dispatch, dark }: PanelProps) {
  const scroller = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 600, height: 100 });
  const [scroll, setScroll] = useState(0);
  const [cursor, setCursor] = useState('');
  const hover = useRef<HTMLDivElement>(null);

  const isHeap = model.isHeapMetric(state.metric);
  const kinds = useMemo(() => (isHeap ? requesterKinds(model) : stackKinds(model)), [model, isHeap]);
  const samples = useMemo<ThreadSamples>(() => {
    const table = model.profile.samples[model.drawn(state.metric)];
    const count = Math.max(1, model.profile.threads.count);
    if (!table) return byThread({ time: new Float64Array(), thread: new Uint32Array(), stack: new Uint32Array(), value: new Float64Array() }, count, kinds);
    return byThread(table, count, kinds, isHeap ? stretches(table, model.duration) : undefined);
  }, [model, state.metric]);
  const changed = state.panel['timeline-tracks'];
  const tracks = useMemo(() => tracksOf(model, samples.total, parseChanged(changed), state.threads), [samples, changed, state.threads]);
  const values = threadValues(model, state);
  // The track of the keyboard cursor; the busiest thread at first.
  const active = tracks.stops.find(stop => stopId(stop) === cursor) ?? tracks.stops.find(stop => stop.kind !== 'process');
  const range: Range = state.ranges.at(-1) ?? [0, model.duration];
  const [from, to] = range;
  const unit = model.unit(state.metric);
  const cache = useMemo(() => new ActivityCache(samples, unit, range, binsFor(size.width)), [samples, from, to, size.width]);
  const waits = waitsOf(model);
  const times = useMemo(() => waits && new TimeCache(model, waits, range, size.width), [waits, from, to, size.width]);
  const chosen = useMemo(() => {
    if (!state.threads) return undefined;
    const mask = new Uint8Array(model.profile.threads.count);
    for (const thread of state.threads) mask[thread] = 1;
    return mask;
  }, [state.threads]);
  const chosenSpans = useMemo(() => {
    if (!state.spans) return undefined;
    const { span: wanted, kind } = state.spans, name = model.text(model.profile.spans.name[wanted]!);
    return (span: number) => kind === 'one' ? span === wanted : model.text(model.profile.spans.name[span]!) === name;
  }, [state.spans]);

  const isPath = isPathDrawn(model, state), pathKey = isPath && JSON.stringify([timeRange(state), state.threads]);
  const steps = useMemo(() => (isPath ? criticalPath(model, state)?.steps : undefined), [pathKey]);
  const path = useMemo(() => steps && { steps, marks: pathMarks(steps, rowsOfThreads(tracks.list), range, size.width) }, [steps, tracks, from, to, size.width]);

  useLayoutEffect(() => {
    const fit = () => setSize({ width: Math.max(50, scroller.current!.clientWidth - labelWidth()), height: scroller.current!.clientHeight });
    fit();
    const observer = new ResizeObserver(fit);
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = canvas.current!, ratio = devicePixelRatio || 1;
    const [wide, high] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (element.width !== wide || element.height !== high) Object.assign(element, { width: wide, height: high });
    const context = element.getContext('2d')!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const scene: Scene = { model, tracks, samples, unit, range, dark, chosen, chosenSpans, cache, times };
    drawTracks(context, scene, size.width, size.height, scroll);
    if (path) drawPath(context, path.marks, scroll, size.height, dark);
  }, [tracks, cache, times, size, scroll, dark, chosen, chosenSpans, path]);

  useOwnAxis(size.width);
  const xOf = (time: number) => (time - from) * size.width / (to - from);
  const timeAt = (event: PointerEvent | MouseEvent): number => {
    const x = event.clientX - canvas.current!.getBoundingClientRect().left;
    return Math.round(Math.max(from, Math.min(to, from + x / size.width * (to - from))));
  };
  const slack = 2 * (to - from) / size.width;
  const brush = (a: number, b: number) => {
    const next: Range = [Math.min(a, b), Math.max(a, b)];
    if (next[1] > next[0]) dispatch({ brush: next }, 'brush');
  };

  const drag = useRef<Drag | undefined>(undefined);
  const cleared = useRef(-Infinity);
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    canvas.current!.setPointerCapture(event.pointerId);
    const x = event.clientX - canvas.current!.getBoundingClientRect().left;
    const [a, b] = state.brush ?? [NaN, NaN];
    if (Math.abs(x - xOf(a)) <= GRIP) drag.current = { kind: 'edge', other: b };
    else if (Math.abs(x - xOf(b)) <= GRIP) drag.current = { kind: 'edge', other: a };
    else drag.current = { kind: 'new', from: timeAt(event), x: event.clientX, moved: false };
  };
  const onPointerMove = (event: PointerEvent) => {
    placeHover(event);
    const now = drag.current;
    const x = event.clientX - canvas.current!.getBoundingClientRect().left;
    const atEdge = state.brush && state.brush.some(time => Math.abs(x - xOf(time)) <= GRIP);
    canvas.current!.style.cursor = now?.kind === 'edge' || (!now && atEdge) ? 'ew-resize' : 'crosshair';
    if (!now) return;
    if (now.kind === 'edge') brush(now.other, timeAt(event));
    else if (now.moved ||= Math.abs(event.clientX - now.x) > 3) brush(now.from, timeAt(event));
  };
  const onPointerUp = (event: PointerEvent) => {
    const now = drag.current;
    drag.current = undefined;
    if (!now || now.kind !== 'new' || now.moved) return;
    // A click outside the time selection clears it, or selects the thread under it. Inside, it may become a
    // double-click.
    if (state.brush && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      if (now.from >= state.brush[0] && now.from <= state.brush[1]) return;
      cleared.current = performance.now();
      dispatch({ brush: undefined });
      return;
    }
    if (performance.now() - cleared.current < 500) return; // the second half of a double-click
    const y = event.clientY - scroller.current!.getBoundingClientRect().top + scroll;
    const track = tracksBetween(tracks.list, y, y + 1)[0];
    const stretch = !event.ctrlKey && !event.metaKey && !event.shiftKey ? stretchUnder(times, track, now.from, y) : undefined;
    if (stretch) {
      // As for a span: selects its time and its thread.
      dispatch({ brush: [Math.max(from, stretch.begin), Math.min(Math.max(to, stretch.begin + 1), stretch.end)], threads: model.profile.threads.count > 1 ? [stretch.thread] : undefined });
      return;
    }
    if (track?.kind === 'thread' || track?.kind === 'group') select(track, event);
    const span = track?.kind === 'spans' ? spanAt(model, tracks, track, y, now.from, slack) : undefined;
    if (span !== undefined) {
      const { start, end } = model.profile.spans;
      brush(Math.max(from, start[span]!), Math.min(to, Number.isNaN(end[span]!) ? to : end[span]!));
    }
  };
  const placeHover = (event: PointerEvent | undefined) => {
    const style = hover.current?.style;
    if (!style) return;
    style.display = event ? 'block' : 'none';
    if (!event) return;
    const time = timeAt(event), y = event.clientY - scroller.current!.getBoundingClientRect().top + scroll, x = xOf(time);
    const track = tracksBetween(tracks.list, y, y + 1)[0];
    const onPath = path && track && (track.kind === 'thread' || track.kind === 'group') ? pathWords(path.steps, track.kind === 'thread' ? [track.thread] : track.threads, time) : '';
    const about = [readout(model, tracks, cache, times, unit, range, track, time, y, slack), onPath].filter(Boolean).join(' · ');
    style.transform = `translateX(${x}px)`;
    const text = hover.current!.firstElementChild as HTMLElement;
    text.textContent = `${clock(time, (to - from) / size.width)}${about && ` · ${about}`}`;
    const isLeft = x > size.width * .6;
    text.className = isLeft ? 'left' : '';
    text.style.maxWidth = `${Math.max(120, (isLeft ? x : size.width - x) - 10)}px`;
  };

  const wheel = useRef<(event: WheelEvent) => void>(() => undefined);
  const turned = useRef(-Infinity);
  wheel.current = event => {
    // Without Ctrl the wheel scrolls, where there is something to scroll.
    const element = scroller.current!, isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && (isSideways || element.scrollHeight > element.clientHeight + 1)) return;
    event.preventDefault();
    const fresh = performance.now() - turned.current > 1000;
    turned.current = performance.now();
    dispatch({ ranges: wheelRanges(state.ranges, [0, model.duration], timeAt(event), Math.exp(event.deltaY / 300), fresh || !state.ranges.length), brush: undefined }, 'wheel');
  };
  useEffect(() => {
    const onWheel = (event: WheelEvent) => wheel.current(event);
    const element = canvas.current!;
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, []);

  const select = (stop: Stop, how: { ctrlKey: boolean; metaKey: boolean; shiftKey: boolean }) => {
    if (stop.kind !== 'thread') dispatch({ threads: isChosen(stop, state.threads) ? undefined : [...stop.threads].sort((a, b) => a - b) });
    else {
      const anchor = how.shiftKey && active ? tracks.threads.indexOf(active.kind === 'thread' ? active.thread : active.threads[0]!) : undefined;
      dispatch({ threads: chooseThread(tracks.threads, model.profile.threads.count, state.threads, stop.thread, anchor, how.ctrlKey || how.metaKey) });
    }
    if (!how.shiftKey) setCursor(stopId(stop));
  };

  const reveal = (at: number) => {
    const track = tracks.stops[at], element = scroller.current!;
    if (!track) return;
    setCursor(stopId(track));
    if (track.y < element.scrollTop) element.scrollTop = track.y;
    else if (track.y + track.height > element.scrollTop + element.clientHeight) element.scrollTop = track.y + track.height - element.clientHeight;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const last = tracks.stops.length - 1, at = active ? tracks.stops.indexOf(active) : 0;
    const acts: Record<string, () => void> = {
      ArrowDown: () => reveal(Math.min(last, at + 1)),
      ArrowUp: () => reveal(Math.max(0, at - 1)),
      Home: () => reveal(0),
      End: () => reveal(last),
      ' ': () => { if (active) select(active, event); },
      Enter: () => dispatch(zoomIntoBrush(state)),
      a: () => dispatch({ threads: undefined }),
      x: () => { if (active?.kind === 'process') fold(`p${active.process}`); else if (active?.kind === 'group') fold(groupName(active.threads)); },
    };
    const moved = brushKey(event, range, state.brush);
    if (moved) dispatch({ brush: moved }, 'brush');
    else if (acts[event.key] && (event.key === ' ' || (!event.ctrlKey && !event.metaKey))) acts[event.key]!();
    else return;
    event.preventDefault();
  };

  const fold = (name: string): void => dispatch({ panel: { ...state.panel, 'timeline-tracks': toggled(parseChanged(changed), name) } });

  const shown = tracksBetween(tracks.list, scroll, scroll + size.height);
  const selected = timeRange(state);
  const chosenHeight = Number(state.panel['timeline-height']) || 0;
  const wanted = chosenHeight ? `${Math.min(tracks.height, chosenHeight)}px`
    : `min(${tracks.height}px, ${waits ? MOST_HEIGHT.withWaits : MOST_HEIGHT.plain}px, max(80px, ${waits && innerWidth > 900 ? 42 : 32}vh))`;
  return (
    <section class={`timeline${chosenHeight ? ' sized' : ''}`} aria-label="Timeline">
      <TimelineBar model={model} state={state} dispatch={dispatch} dark={dark} times={times} />
      {model.timed && <Ruler range={range} width={size.width} left={labelWidth()} />}
      <div class="timeline-tracks" ref={scroller} style={{ height: wanted }} tabIndex={0} role="listbox" aria-multiselectable="true" aria-label="Threads"
        aria-activedescendant={active && stopId(active)} onScroll={event => setScroll(event.currentTarget.scrollTop)} onKeyDown={onKeyDown}>
        <div class="timeline-window" style={{ marginLeft: `${labelWidth()}px`, width: `${size.width}px`, height: `${size.height}px` }}>
          <canvas ref={canvas} style={{ width: `${size.width}px`, height: `${size.height}px` }} onPointerDown={onPointerDown} onPointerMove={onPointerMove}
            onPointerUp={onPointerUp} onPointerLeave={() => placeHover(undefined)} onDblClick={() => dispatch(zoomIntoBrush(state))} />
          <div class="timeline-hover" ref={hover}><span /></div>
          {state.brush && selected && <div class="timeline-brush" style={{ left: `${xOf(selected[0])}px`, width: `${Math.max(1, xOf(selected[1]) - xOf(selected[0]))}px` }} />}
        </div>
        <Labels model={model} tracks={shown} state={state} stops={tracks.stops} active={active} select={select} values={values} times={times} fold={fold} />
        <div style={{ height: `${Math.max(0, tracks.height - size.height)}px` }} />
      </div>
      {times && <TimeTable model={model} shown={times} order={tracks.threads} />}
      <Resizer height={size.height} most={tracks.height} set={height => dispatch({ panel: { ...state.panel, 'timeline-height': String(Math.round(height)) } })} />
    </section>
  );
}

/** Publishes where the time axis is: elements of the class `on-axis` in panels have the same edges. */
function useOwnAxis(width: number): void {
  const { style } = document.documentElement, left = labelWidth();
  useLayoutEffect(() => {
    style.setProperty('--axis-left', `${left}px`);
    style.setProperty('--axis-width', `${width}px`);
  }, [left, width]);
  useEffect(() => () => { for (const name of ['--axis-left', '--axis-width']) style.removeProperty(name); }, []);
}

/** The edge below the timeline: drag it, or move it with the arrow keys. */
function Resizer({ height, most, set }: { height: number; most: number; set: (height: number) => void }) {
  const from = useRef<{ y: number; height: number } | undefined>(undefined);
  const change = (next: number) => set(Math.max(40, Math.min(most, innerHeight * .7, next)));
  useEffect(() => () => { from.current = undefined; }, []);
  return (
    <div class="timeline-resizer" role="separator" aria-orientation="horizontal" aria-label="Height of the timeline" aria-valuenow={Math.round(height)} tabIndex={0}
      onPointerDown={event => { event.currentTarget.setPointerCapture(event.pointerId); from.current = { y: event.clientY, height }; }}
      onPointerMove={event => { if (from.current) change(from.current.height + event.clientY - from.current.y); }}
      onPointerUp={() => { from.current = undefined; }}
      onKeyDown={event => {
        const step = { ArrowDown: 24, ArrowUp: -24 }[event.key];
        if (step) { change(height + step); event.preventDefault(); }
      }} />
  );
}
