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
import { ChartCanvas } from './chartcanvas.tsx';

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

  // The same time as the timeline, so that a point in time is at one place in both.
  const range: Range = state.ranges.at(-1) ?? [0, model.duration];
  const [row, setRow] = useState<{ thread: number | undefined; first: number }>();
  const firstRow = row && row.thread === thread ? row.first : 0;
  const found = search(model, state);
  const matches = useMemo(
    () => (samples && found.kind === 'found' ? matchesIn(tree, samples, found.matched, timeRange(state) ?? range) : []),
    [tree, samples, found, String(timeRange(state))],
  );
  const [marked, setMarked] = useState<{ matches: readonly Box[]; box: Box }>();
  useMatches(matches, box => {
    dispatch({ fn: tree.fn[box.node]! });
    setMarked({ matches, box });
    if (box.row < firstRow || box.row >= firstRow + ROWS_IN_SIGHT) setRow({ thread, first: Math.max(0, box.row - 2) });
  });

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
        <span class="figures">{duration(range[0])} – {duration(range[1])} <i /> {duration(range[1] - range[0])}</span>
        <button type="button" disabled={!state.ranges.length} onClick={() => dispatch({ ranges: [], brush: undefined })}>Whole recording</button>
        <span class="quiet hint">On the axis of the timeline: both zoom and move together. Wheel zooms, drag moves · keys: ← → ↑ ↓ + − 0 · gaps under 2 pixels are not drawn</span>
      </div>
      <ChartCanvas
        {...props}
        tree={tree}
        samples={samples}
        rows={rows}
        range={range}
        firstRow={firstRow}
        onRow={first => setRow({ thread, first })}
        marked={marked?.matches === matches ? marked.box : undefined}
      />
    </div>
  );
}

/** Rows that are always in view, however low the window. */
const ROWS_IN_SIGHT = 6;

function threadLabel(model: Model, thread: number): string {
  const { threads } = model.profile;
  if (thread >= threads.count) return model.threadName(thread);
  return `${model.text(threads.name[thread]!) || 'thread'} · ${model.processName(threads.process[thread]!)} ${threads.tid[thread]}`;
}
