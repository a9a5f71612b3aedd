// How many threads were busy at the same time, and which functions ran with a given number of busy threads
// (one by default).

import './panels.css';
import './heap.css';
import './parallelism.css';
import { useMemo } from 'preact/hooks';
import { search } from '../derive.ts';
import { findingsAbout, TOPIC } from '../findings.ts';
import { duration } from '../format.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import { chargeLine } from '../places.ts';
import { parallelism, type Parallelism } from '../parallelism.ts';
import type { PanelProps } from '../panel.ts';
import { timeRange } from '../state.ts';
import { limited, Name, Place, Share } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

const LEVELS: readonly Column[] = [
  { id: 'threads', title: 'Threads', width: '5rem', numeric: true, help: 'Number of threads busy at the same time' },
  { id: 'share', title: 'Share of time', width: '11rem', numeric: true },
  { id: 'time', title: 'Time', numeric: true },
];

const FUNCTIONS: readonly Column[] = [
  { id: 'share', title: 'Share', width: '5rem', numeric: true, help: 'Of everything that ran with this many busy threads' },
  { id: 'elapsed', title: 'Elapsed', width: '5.4rem', numeric: true, help: 'elapsed-time: CPU time divided by the number of threads that ran at that time' },
  { id: 'name', title: 'Function' },
  { id: 'place', title: 'Where', width: '34%' },
];

export function ParallelismPanel({ model, state, dispatch, dark }: PanelProps) {
  const key = JSON.stringify([timeRange(state), state.threads, state.spans]);
  const found = useMemo(() => parallelism(model, state), [model, key]);
  const levels = useMemo(() => (found?.levels ?? []).flatMap(({ ns }, threads) => (ns > 0 ? [threads] : [])), [found]);
  const chosen = Number(state.panel['parallelism-level'] ?? 1), level = levels.includes(chosen) ? chosen : levels.includes(1) ? 1 : levels[0] ?? 0;
  const rows = level === 0 ? [] : found?.levels[level]?.functions ?? [];
  const searched = search(model, state);
  const matches = useMemo(() => rows.flatMap(({ fn }) => (searched.kind === 'found' && searched.matched[fn] === 1 ? [fn] : [])), [rows, searched]);
  useMatches(matches, fn => dispatch({ fn }), state.fn === undefined ? -1 : matches.indexOf(state.fn));
  const open = (at: number): void => dispatch({ tab: 'flame', fn: rows[at]!.fn, metric: model.elapsed ?? state.metric });
  return (
    <div class="parallelism pane">
      <p class="status" role="status">{found ? summary(model, found, timeRange(state) !== undefined || state.threads !== undefined) : 'Nothing selected.'}</p>
      <div class="heap-body">
        <Rows
          label="Concurrent threads"
          className="parallelism-levels"
          columns={LEVELS}
          count={levels.length}
          cursor={levels.indexOf(level)}
          onCursor={at => dispatch({ panel: { ...state.panel, 'parallelism-level': String(levels[at]!) } }, 'parallelism-level')}
          minWidth="270px"
          empty="No time selected."
          row={at => {
            const threads = levels[at]!, { ns } = found!.levels[threads]!;
            return { key: threads, cells: [threads, <Share value={ns} whole={found!.duration} />, duration(ns)] };
          }}
        />
        <section class="parallelism-ran pane" aria-label="Functions that ran then">
          <h2>{level === 0 ? 'No thread was busy' : level === 1 ? 'Functions that ran alone, by elapsed time' : `Functions that ran while ${level} threads were busy, by elapsed time`}</h2>
          <Rows
            label="Functions by elapsed time"
            columns={FUNCTIONS}
            count={rows.length}
            cursor={state.fn === undefined ? -1 : rows.findIndex(({ fn }) => fn === state.fn)}
            reveal={`${level} ${state.fn}`}
            onCursor={at => dispatch({ fn: rows[at]!.fn })}
            onOpen={open}
            minWidth="480px"
            empty={level === 0 ? 'Select a number of threads.' : 'No samples.'}
            row={at => {
              const { fn, charge, elapsed, share: part } = rows[at]!;
              return {
                key: fn,
                cells: [<Share value={part} whole={1} />, duration(elapsed), <Name model={model} fn={fn} dark={dark} />, <Place path={chargeLine(model, charge)} />],
              };
            }}
          />
        </section>
      </div>
    </div>
  );
}

/** What is found about the whole recording, and how the numbers are made. */
function summary(model: Model, { exact }: Parallelism, isPart: boolean): string {
  const what = exact ? 'Busy threads are running or queued for a CPU.'
    : 'Estimated from CPU samples. Record waits for exact numbers: whyslow record --off-cpu.';
  return [...findingsAbout(model, TOPIC.parallelism).map(words => `${isPart ? 'In the whole recording, ' : ''}${limited(words, 400)}.`), what].join(' ');
}
