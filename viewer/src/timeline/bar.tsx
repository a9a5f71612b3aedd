// The line above the timeline: the nested time ranges, the time selection, the selected threads, the filters.

import { duration, UNIT_NANOSECONDS } from '../format.ts';
import type { PanelProps } from '../panel.ts';
import { timeRange, zoomIntoBrush, type Range } from '../state.ts';
import { Chips } from '../chips.tsx';
import { waitsOf } from '../waits.ts';
import { TrackChooser } from './chooser.tsx';
import { TimeLegend } from './legend.tsx';
import { clock } from './ruler.ts';
import type { TimeCache } from './states.ts';

export function TimelineBar({ model, state, dispatch, dark, times }: Pick<PanelProps, 'model' | 'state' | 'dispatch' | 'dark'> & { times?: TimeCache | undefined }) {
  const { threads } = model.profile;
  const waits = waitsOf(model);
  return (
    <div class="timeline-bar">
      {!model.timed ? <span class="quiet">This profile has no timestamps.</span> : <nav class="ranges" aria-label="Time range">
        <button type="button" onClick={() => dispatch({ ranges: [], brush: undefined })} aria-current={state.ranges.length ? undefined : 'location'}>All {duration(model.duration)}</button>
        {state.ranges.map((range, at) => (
          <span key={at}><span class="quiet" aria-hidden="true">›</span>
            <button type="button" aria-current={at === state.ranges.length - 1 ? 'location' : undefined}
              onClick={() => dispatch({ ranges: state.ranges.slice(0, at + 1), brush: undefined })}>{between(range)}</button></span>
        ))}
      </nav>}
      {state.brush && <span class="brushed" role="status">
        <b>{between(state.brush)}</b> <span class="quiet">{duration(state.brush[1] - state.brush[0])}</span>
        <button type="button" onClick={() => dispatch(zoomIntoBrush(state))} title="Zoom into the selected time (Enter in the timeline, or double-click)">Zoom in</button>
        <button type="button" onClick={() => dispatch({ brush: undefined })} title="Clear the time selection (Escape)">Clear</button>
      </span>}
      <Chips model={model} state={state} dispatch={dispatch} />
      {waits && <TimeLegend model={model} waits={waits} times={times} range={timeRange(state) ?? [0, model.duration]} threads={state.threads} dark={dark} />}
      <span class="thread-count quiet">{state.threads
        ? <>{state.threads.length} of {threads.count} threads <button type="button" onClick={() => dispatch({ threads: undefined })} title="All threads (a in the timeline)">All threads</button></>
        : `${threads.count} ${threads.count === 1 ? 'thread' : 'threads'}`}{model.unit(state.metric) === UNIT_NANOSECONDS ? '' : ' · common scale'}</span>
      {(model.timed || threads.count > 1) && <TrackChooser model={model} state={state} dispatch={dispatch} />}
    </div>
  );
}

/** `2.10 – 4.30 s`, with enough digits to distinguish both ends. */
function between([from, to]: Range): string {
  const step = 10 ** Math.floor(Math.log10(Math.max(1, (to - from) / 50)));
  return `${clock(from, step)} – ${clock(to, step)}`;
}
