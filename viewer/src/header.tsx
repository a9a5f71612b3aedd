// The top line: the profiled command, metric, search, undo, theme, save and help.

import { useEffect } from 'preact/hooks';
import { amount, count, duration } from './format.ts';
import { liveAt, sampleCount, whole } from './derive.ts';
import type { Model } from './model.ts';
import { clean } from './names.ts';
import type { PanelProps } from './panel.ts';
import { readQuality } from './panels/report.ts';
import { when } from './panels/quality.tsx';
import { SaveButton } from './savebutton.tsx';
import { SearchBox } from './search.tsx';
import type { State } from './state.ts';

interface HeaderProps extends PanelProps { undo: (() => void) | undefined; redo: (() => void) | undefined; help: () => void }

export function Header({ model, state, dispatch, dark, undo, redo, help }: HeaderProps) {
  const { context, metrics } = model.profile;
  const command = Array.isArray(context.command) ? clean(context.command.map(String).join(' ')) : '';
  // The program's name says more than its folder.
  const title = command.replace(/^\S*\/(?=[^\s/])/, '') || clean(String(context.file)) || 'profile';
  useEffect(() => { document.title = `${title.slice(0, 80)} · whyslow`; }, [title]);
  return (
    <header class="header">
      <h1 title={command || title}><span class="brand">whyslow</span> <bdi>{title}</bdi></h1>
      <p class="paper">Quality: {readQuality(model.profile.quality).grade} · recorded {when(Number(context.started_unix_ns))}</p>
      <div class="facts">
        {model.timed && `${duration(Number(context.duration_ns) || model.duration)} · `}{about(model, state)}{amount(whole(model, state), model.unit(state.metric))}
      </div>
      <label class="metric">
        <span class="hidden">Metric</span>
        <select value={String(state.metric)} onChange={event => dispatch({ metric: Number(event.currentTarget.value) })} disabled={metrics.count < 2}>
          {Array.from(metrics.name, (_, metric) => <option key={metric} value={String(metric)}>{metricTitle(model, metric)}</option>)}
        </select>
      </label>
      <SearchBox model={model} state={state} dispatch={dispatch} />
      <div class="buttons">
        <button type="button" class="icon" onClick={undo} disabled={!undo} aria-label="Undo" title="Undo (u)">↶</button>
        <button type="button" class="icon" onClick={redo} disabled={!redo} aria-label="Redo" title="Redo (r)">↷</button>
        <button type="button" class="icon" onClick={() => dispatch({ theme: dark ? 'light' : 'dark' })} aria-label={dark ? 'Light theme' : 'Dark theme'}
          title={dark ? 'Light theme (d)' : 'Dark theme (d)'}>{dark ? '☀' : '☾'}</button>
        <SaveButton file={String(context.file ?? '')} state={state} />
        <button type="button" class="icon" onClick={help} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">?</button>
      </div>
    </header>
  );
}

/** What the amount refers to. Heap samples are sums, so their number means nothing. */
function about(model: Model, state: State): string {
  if (state.metric === model.live) return `live at ${duration(liveAt(model, state))}: `;
  return !model.isSampled(state.metric) ? '' : `${count(sampleCount(model, state))} sample${sampleCount(model, state) === 1 ? '' : 's'} · `;
}

/** The name of a metric in the metric selector. */
function metricTitle(model: Model, metric: number): string {
  if (metric === model.live) return 'live at the end of the range';
  const name = model.metricName(metric);
  if (model.profile.metrics.simulated?.[metric]) return `${name} (simulated)`;
  return name === 'live-at-exit' && model.profile.heapFacts?.isSnapshot ? 'live-at-snapshot' : name;
}
