// The threads with their share and what they did. Many threads of one name are one row that opens.

import './panels.css';
import { useMemo, useState } from 'preact/hooks';
import { threadValues } from '../derive.ts';
import { amount, count, duration } from '../format.ts';
import type { Model } from '../model.ts';
import type { PanelProps } from '../panel.ts';
import { timeRange } from '../state.ts';
import { groupKey, threadRows, type ThreadRow } from '../threadrows.ts';
import { isChosen } from '../timeline/threads.ts';
import { timesOfThread } from '../waittable.ts';
import { waitsOf } from '../waits.ts';
import { Share, Text } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

const columnsOf = (model: Model, metric: string, kinds: readonly number[]): readonly Column[] => [
  { id: 'share', title: '%', width: '5rem', numeric: true },
  { id: 'value', title: 'Value', help: metric, width: '5.4rem', numeric: true },
  ...kinds.map(kind => ({ kind, word: model.profile.timeKinds[kind]!.word })).map(({ word, kind }) => ({ id: `kind-${kind}`, title: word[0]!.toUpperCase() + word.slice(1), width: `${Math.max(5, word.length * .5 + 1.4)}rem`, numeric: true })),
  { id: 'lived', title: 'Lived', width: '5.4rem', numeric: true, help: 'From its start to its end, or to the end of the recording; of a group, the sum' },
  { id: 'tid', title: 'Thread', width: '5rem', numeric: true },
  { id: 'name', title: 'Name', width: '14rem' },
  { id: 'process', title: 'Process' },
];

export function ThreadsPanel({ model, state, dispatch }: PanelProps) {
  const { threads, processes } = model.profile, values = threadValues(model, state), unit = model.unit(state.metric);
  const range = timeRange(state) ?? ([0, model.duration] as const);
  const times = useMemo(() => Array.from({ length: threads.count }, (_, thread) => timesOfThread(model, thread, range)), [model, range[0], range[1]]);
  // Only kinds of time that some thread has.
  const kinds = useMemo(() => (waitsOf(model) ? [...model.profile.timeKinds.keys()].filter(kind => times.some(of => of![kind]! > 0)) : []), [times]);
  const columns = useMemo(() => columnsOf(model, model.metricName(state.metric), kinds), [model, state.metric, kinds]);
  const opened = state.panel['threads-open'] ?? '', open = useMemo(() => new Set(opened ? opened.split('.') : []), [opened]);
  const rows = useMemo(() => {
    const lived = (thread: number): number => times[thread]?.reduce((sum, time) => sum + time, 0) ?? 0;
    const shown = Array.from({ length: threads.count }, (_, thread) => thread).filter(thread => values[thread]! !== 0 || lived(thread) > 0);
    return threadRows(model, shown, thread => values[thread]!, lived, open);
  }, [values, times, open]);
  const shown = rows.reduce((sum, { threads, place }) => sum + (place === 'member' ? 0 : threads.length), 0);
  const all = values.reduce((sum, value) => sum + value, 0);
  // A group may have the same threads as the selection while the cursor is on it only.
  const [at, setAt] = useState(-1);
  const cursor = rows[at] && isChosen(rows[at]!, state.threads) ? at : rows.findIndex(row => isChosen(row, state.threads));
  const select = (at: number): void => {
    setAt(at);
    dispatch({ threads: [...rows[at]!.threads].sort((a, b) => a - b) });
  };
  const setOpen = ({ threads }: ThreadRow, isOpen: boolean): void => {
    const next = new Set(open);
    if (isOpen) next.add(groupKey(threads));
    else next.delete(groupKey(threads));
    const { 'threads-open': _, ...rest } = state.panel;
    dispatch({ panel: next.size ? { ...rest, 'threads-open': [...next].join('.') } : rest });
  };
  const onKey = ({ key }: KeyboardEvent, at: number): boolean => {
    const row = rows[at];
    if (row?.place === 'group' && (key === 'ArrowRight' || key === 'ArrowLeft' || key === 'Enter')) {
      const wanted = key === 'Enter' ? !row.isOpen : key === 'ArrowRight';
      if (wanted !== row.isOpen) setOpen(row, wanted);
    } else if (row?.place === 'member' && key === 'ArrowLeft') select(rows.slice(0, at).findLastIndex(({ place }) => place === 'group'));
    else return false;
    return true;
  };
  const processOf = (thread: number): number => threads.process[thread]!;
  const processWords = ({ threads: of }: ThreadRow): string => {
    const process = processOf(of[0]!);
    if (process >= processes.count) return '';
    return of.every(thread => processOf(thread) === process) ? `${model.processName(process)} ${processes.pid[process]}` : `${count(of.length)} processes`;
  };
  const sum = (of: readonly number[], value: (thread: number) => number): number => of.reduce((sum, thread) => sum + value(thread), 0);
  const lifetime = (thread: number): number => (Number.isNaN(threads.end[thread]!) ? model.duration : threads.end[thread]!) - (threads.start[thread] || 0);
  return (
    <div class="pane">
      <Rows label="Threads" role="treegrid" columns={columns} count={rows.length} cursor={cursor} reveal={cursor} onCursor={select} onKey={onKey} minWidth={`${46 + 8 * kinds.length}rem`} empty="No thread has samples in the selected time."
        row={at => {
          const row = rows[at]!, { name, threads: of, place, isOpen } = row, value = sum(of, thread => values[thread]!);
          return {
            key: `${place === 'group' ? 'g' : ''}${of[0]}`,
            cells: [
              <Share value={value} whole={all} />, value ? amount(value, unit) : '',
              ...kinds.map(kind => { const time = sum(of, thread => times[thread]![kind]!); return time > 0 ? duration(time) : ''; }),
              duration(sum(of, lifetime)), place === 'group' ? '' : String(threads.tid[of[0]!]),
              <span class="branch" style={{ paddingLeft: place === 'member' ? '14px' : '0' }}>
                <span class={`twisty${place === 'group' ? '' : ' leaf'}`} aria-hidden="true" onClick={event => { if (place === 'group') { event.stopPropagation(); setOpen(row, !isOpen); } }}>{place === 'group' ? (isOpen ? '▾' : '▸') : ''}</span>
                <Text text={place === 'group' ? `${name} × ${count(of.length)}` : name} />
              </span>,
              <Text text={processWords(row)} />,
            ],
            attributes: { 'aria-level': place === 'member' ? 2 : 1, ...(place === 'group' ? { 'aria-expanded': isOpen } : {}) },
          };
        }} />
      <div class="status quiet" role="status">{count(shown)} of {count(threads.count)} threads. A row selects its threads in every panel{rows.some(({ place }) => place === 'group') && '; → or ▸ shows each of them'}.</div>
    </div>
  );
}
