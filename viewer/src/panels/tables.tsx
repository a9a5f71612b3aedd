// Two tables that follow the selected time: waits and modules.

import './panels.css';
import { useMemo, useState } from 'preact/hooks';
import { search, shape, weights, whole } from '../derive.ts';
import { amount, count, duration } from '../format.ts';
import { useMatches } from '../matches.ts';
import { NONE } from '../payload.ts';
import type { PanelProps } from '../panel.ts';
import { chargeWords } from '../places.ts';
import { timeRange, type State } from '../state.ts';
import { timeColour } from '../timekinds.ts';
import { waitMetric } from '../waits.ts';
import { moduleValues, waitRows } from '../waittable.ts';
import { Share, Text } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

/** Changes when other rows are selected. */
export const selected = (state: State): string => JSON.stringify([timeRange(state), state.threads, state.spans, state.metric, state.transforms]);

const WAITS: readonly Column[] = [
  { id: 'share', title: 'Share', width: '4.6rem', numeric: true, help: 'Of all waits that are not idle' },
  { id: 'total', title: 'Waited', width: '4.8rem', numeric: true },
  { id: 'count', title: 'Waits', width: '4.2rem', numeric: true },
  { id: 'p50', title: 'p50', width: '4.6rem', numeric: true, help: 'Half of the waits are at most this long' },
  { id: 'p99', title: 'p99', width: '4.6rem', numeric: true, help: '99 % of the waits are at most this long' },
  { id: 'longest', title: 'Longest', width: '4.6rem', numeric: true },
  { id: 'threads', title: 'Threads', width: '4.4rem', numeric: true },
  { id: 'for', title: 'For', width: '9rem', help: 'What the threads waited for; cpu: queued for a CPU' },
  { id: 'at', title: 'At', help: 'The line of your code that led to the wait' },
];

/** What threads waited for, and where. */
export function WaitsPanel({ model, state, dispatch, dark }: PanelProps) {
  const rows = useMemo(() => waitRows(model, state), [model, selected(state)]);
  const [cursor, setCursor] = useState(-1);
  const all = rows.reduce((sum, { total, isIdle }) => sum + (isIdle ? 0 : total), 0), idle = rows.reduce((sum, { total, isIdle }) => sum + (isIdle ? total : 0), 0);
  const found = search(model, state);
  const matches = useMemo(() => rows.flatMap(({ fn }, at) => (found.kind === 'found' && fn !== NONE && found.matched[fn] === 1 ? [at] : [])), [rows, found]);
  useMatches(matches, setCursor, matches.indexOf(cursor));
  const show = (at: number): void => dispatch({ tab: 'flame', metric: waitMetric(model), ...(rows[at]!.fn === NONE ? {} : { fn: rows[at]!.fn }) });
  return (
    <div class="pane">
      <div class="status quiet" role="status">{rows.length ? `Threads waited ${duration(all)}${idle ? `, and were idle for ${duration(idle)}` : ''}. Enter shows the stacks.` : 'No thread waited in the selected time.'}</div>
      <Rows label="Waits" columns={WAITS} count={rows.length} cursor={cursor} reveal={cursor} onCursor={setCursor} onOpen={show} minWidth="56rem" empty="No thread waited in the selected time."
        row={at => {
          const { reason, charge, count: waits, total, p50, p99, longest, threads, isIdle } = rows[at]!, { word, kind } = model.profile.reasons[reason]!;
          return {
            key: at, className: isIdle ? 'quiet' : '',
            cells: [
              isIdle ? null : <Share value={total} whole={all} />, duration(total), count(waits), duration(p50), duration(p99), duration(longest), count(threads),
              <span class="name"><i class="kind" style={{ background: timeColour(kind, dark) }} /><span class="text">{word}</span></span>, <Text text={chargeWords(model, charge)} />,
            ],
          };
        }} />
    </div>
  );
}

const MODULES: readonly Column[] = [
  { id: 'share', title: '%', width: '5rem', numeric: true },
  { id: 'self', title: 'Self', width: '5.4rem', numeric: true, help: 'Samples in code of the module itself' },
  { id: 'name', title: 'Module', width: '18rem' },
  { id: 'path', title: 'Path' },
];

/** The program, its libraries and the kernel. */
export function ModulesPanel({ model, state }: PanelProps) {
  const unit = model.unit(state.metric), all = whole(model, state);
  const rows = useMemo(() => {
    const { nodeOfStack } = shape(model, state);
    return [...moduleValues(model, weights(model, state), stack => nodeOfStack[stack] !== NONE)].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  }, [model, selected(state)]);
  const [cursor, setCursor] = useState(-1);
  return (
    <div class="pane">
      <Rows label="Modules" columns={MODULES} count={rows.length} cursor={cursor} reveal={cursor} onCursor={setCursor} minWidth="44rem" empty="No samples are selected."
        row={at => {
          const [module, value] = rows[at]!;
          return { key: module, cells: [<Share value={value} whole={all} />, amount(value, unit), <Text text={module === NONE ? '[unknown]' : model.moduleName(module)} />, <Text text={module === NONE ? '' : model.text(model.profile.modules.path[module]!)} className="quiet" />] };
        }} />
    </div>
  );
}
