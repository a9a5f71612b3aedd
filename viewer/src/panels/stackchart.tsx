// The stack chart: the stacks of one thread over time.

import './panels.css';
import './stackchart.css';
import { useMemo, useState } from 'preact/hooks';
import { search, selection, shape } from '../derive.ts';
import { duration } from '../format.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import type { PanelProps } from '../panel.ts';
import { deepest, matchesIn, threadSamples, type Box } from '../stackchart.ts';
import { timeRange, type Range, type State } from '../state.ts';
import { limited } from './cells.tsx';
import { ChartCanvas, type ChartView } from './chartcanvas.tsx';

/** Threads with samples of the metric, most samples first. */
function busyThreads(model: Model, metric: number): number[] {
  const counts = new Map<number, number>();
  for (const thread of model.profile.samples[metric]?.thread ?? []) counts.set(thread, (counts.get(thread) ?? 0) + 1);
  return [...counts.keys()].sort((a, b) => counts.get(b)! - counts.get(a)!);
}

function threadOf(state: State, busy: readonly number[]): number | undefined {
  const wanted = Number(state.panel['chart-thread'] ?? -1);
  if (busy.includes(wanted)) return wanted;
  return busy.find(thread => state.threads?.includes(thread)) ?? busy[0];
}

export function StackChartPanel(props: PanelProps) {
  const { model, state, dispatch } = props;
  const busy = useMemo(() => busyThreads(model, model.drawn(state.metric)), [model, state.metric]);
  const thread = threadOf(state, busy);
  const tree = shape(model, state);
  const { mask } = selection(model, state);
  const samples = useMemo(() => {
    const table = model.profile.samples[model.drawn(state.metric)];
    if (!table || thread === undefined) return undefined;
    return threadSamples(table, thread, stack => tree.nodeOfStack[stack]!, mask && (sample => mask[sample] === 1));
  }, [model, state.metric, thread, tree, mask]);
  const rows = useMemo(() => (samples ? deepest(tree, samples) : 0), [tree, samples]);

  // The chart can be zoomed further; a new selected range resets it.
  const range: Range = timeRange(state) ?? [0, model.duration];
  const about = `${range} ${thread}`;
  const [zoomed, setZoomed] = useState<{ about: string; view: ChartView }>();
  const view = zoomed?.about === about ? zoomed.view : { from: range[0], to: range[1], firstRow: 0 };
  const found = search(model, state);
  const matches = useMemo(
    () => (samples && found.kind === 'found' ? matchesIn(tree, samples, found.matched, range) : []),
    [tree, samples, found, about],
  );
  useMatches(matches, box => {
    dispatch({ fn: tree.fn[box.node]! });
    setZoomed({ about, view: around(box, view, range) });
  });
  const isZoomed = view.from > range[0] || view.to < range[1];

  if (thread === undefined || !samples) {
    return <div class="chart pane"><p class="empty">This metric has no samples.</p></div>;
  }
  return (
    <div class="chart pane">
      <div class="tools">
        <label>Thread{' '}
          <select value={String(thread)} onChange={event => dispatch({ panel: { ...state.panel, 'chart-thread': event.currentTarget.value } })}>
            {busy.slice(0, 1000).map(of => <option key={of} value={String(of)}>{limited(threadLabel(model, of), 80)}</option>)}
          </select>
        </label>
        <span class="figures">{duration(view.from)} – {duration(view.to)} <i /> {duration(view.to - view.from)}</span>
        <button type="button" disabled={!isZoomed} onClick={() => dispatch({ brush: [view.from, view.to] })}>Select this time</button>
        <button type="button" disabled={!isZoomed} onClick={() => setZoomed(undefined)}>Whole range</button>
        <span class="quiet hint">Wheel zooms, drag pans · keys: ← → ↑ ↓ + − 0, Enter selects the visible time · gaps under 2 pixels are not drawn</span>
      </div>
      <ChartCanvas
        {...props}
        tree={tree}
        samples={samples}
        rows={rows}
        bounds={range}
        view={view}
        onView={next => setZoomed({ about, view: next })}
      />
    </div>
  );
}

/** Rows that are always in view, however low the window. */
const ROWS_IN_SIGHT = 6;

/** Moves the view to a box: its time, at a width that shows it, and its row. */
function around(box: Box, view: ChartView, [first, last]: Range): ChartView {
  const wide = Math.min(view.to - view.from, Math.max(1000, (box.end - box.start) * 50));
  const isIn = box.start >= view.from && box.end <= view.to && wide === view.to - view.from;
  const from = isIn ? view.from : Math.max(first, Math.min(last - wide, (box.start + box.end - wide) / 2));
  const isInRows = box.row >= view.firstRow && box.row < view.firstRow + ROWS_IN_SIGHT;
  return { from, to: from + wide, firstRow: isInRows ? view.firstRow : Math.max(0, box.row - 2) };
}

function threadLabel(model: Model, thread: number): string {
  const { threads } = model.profile;
  if (thread >= threads.count) return model.threadName(thread);
  return `${model.text(threads.name[thread]!) || 'thread'} · ${model.processName(threads.process[thread]!)} ${threads.tid[thread]}`;
}
