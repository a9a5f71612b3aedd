// Tasks of async Rust in the selected time, the await chains of the selected one, and the calls that block
// worker threads.

import './panels.css';
import './heap.css';
import './locks.css';
import { useMemo } from 'preact/hooks';
import { search } from '../derive.ts';
import { count, duration, share } from '../format.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import { chargeLine } from '../places.ts';
import type { Dispatch, PanelProps } from '../panel.ts';
import { timeRange, transformed, type State } from '../state.ts';
import { tasksOf, type BlockedWorker, type TaskRow, type Tasks } from '../tasks.ts';
import { Amount, limited, Name, Share, Text } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

/** The maximum number of listed chains or calls. */
const MOST = 30;

const COLUMNS: readonly Column[] = [
  { id: 'share', title: 'Share', width: '4.6rem', numeric: true, help: 'Of all CPU time' },
  { id: 'cpu', title: 'CPU', width: '4.8rem', numeric: true },
  { id: 'blocked', title: 'Blocked', width: '4.8rem', numeric: true, help: 'Time in waits that block the thread: it cannot poll other tasks. Known only if waits were recorded' },
  { id: 'task', title: 'Task', help: 'The outermost function of your code that the executor polls' },
  { id: 'executor', title: 'Polled by', width: '9rem' },
];

/** Shows only one function in the flame graph. */
const only = (state: State, fn: number): Partial<State> => ({ ...transformed(state, { kind: 'focus', fn }), fn, tab: 'flame' });

export function TasksPanel({ model, state, dispatch, dark }: PanelProps) {
  const key = JSON.stringify([timeRange(state), state.threads, state.spans]);
  const found = useMemo(() => tasksOf(model, state), [model, key]);
  const { rows } = found, chosen = Number(state.panel['tasks-task'] ?? -1), cursor = rows.findIndex(({ task }) => task === chosen);
  const choose = (at: number): void => dispatch({ fn: rows[at]!.fn, panel: { ...state.panel, 'tasks-task': String(rows[at]!.task) } }, 'tasks-task');
  const searched = search(model, state);
  const matches = useMemo(() => rows.flatMap(({ fn }, at) => (searched.kind === 'found' && searched.matched[fn] === 1 ? [at] : [])), [rows, searched]);
  useMatches(matches, choose, matches.indexOf(cursor));
  return (
    <div class="locks pane">
      <p class="status quiet" role="status">{summary(found)}</p>
      <div class="heap-body">
        <Rows
          label="Tasks"
          columns={COLUMNS}
          count={rows.length}
          cursor={cursor}
          reveal={chosen}
          onCursor={choose}
          onOpen={at => dispatch(only(state, rows[at]!.fn))}
          minWidth="620px"
          empty="No tasks in the selected samples."
          row={at => {
            const { task, fn, executor, cpu, blocked } = rows[at]!;
            return {
              key: task,
              cells: [<Share value={cpu} whole={found.total} />, <Amount value={cpu} unit={1} />, <Amount value={blocked} unit={1} />, <Name model={model} fn={fn} dark={dark} />, <Text text={executor} className="quiet" />],
            };
          }}
        />
        <About model={model} state={state} dispatch={dispatch} row={rows[cursor]} blocked={found.blocked} />
      </div>
    </div>
  );
}

function summary({ rows, cpu, total, executor, blocking, hasWaits }: Tasks): string {
  if (!rows.length) return 'No tasks in the selected samples.';
  return `Tasks used ${duration(cpu)} of ${duration(total)} CPU time; ${duration(executor)} ran on executor threads outside tasks`
    + (blocking ? `, ${duration(blocking)} on threads for blocking calls` : '')
    + (hasWaits ? '.' : '; record waits to see calls that block a worker thread: whyslow record --off-cpu.');
}

interface AboutProps { model: Model; state: State; dispatch: Dispatch; row: TaskRow | undefined; blocked: readonly BlockedWorker[] }

/** The await chains of the selected task, and the calls that block worker threads, of it or of all tasks. */
function About({ model, state, dispatch, row, blocked }: AboutProps) {
  return (
    <section class="heap-about locks-about" aria-label="Details of the selected task" tabIndex={0}>
      <h2 dir="ltr">{row ? limited(model.name(row.fn), 160) : 'All tasks'}</h2>
      {row ? <p><button type="button" onClick={() => dispatch(only(state, row.fn))}>Show only this task in the flame graph</button></p>
        : <p class="quiet">Select a task to see what it awaits.</p>}
      {row && <Chains model={model} state={state} dispatch={dispatch} row={row} />}
      <Blocked model={model} blocked={row ? blocked.filter(({ task }) => task === row.task) : blocked} />
    </section>
  );
}

function Chains({ model, state, dispatch, row }: { model: Model; state: State; dispatch: Dispatch; row: TaskRow }) {
  const whole = row.cpu + row.blocked;
  return (
    <table class="lock-table">
      <caption>Await chains</caption>
      <tbody>{row.chains.slice(0, MOST).map(({ functions, awaited, cpu, blocked }) => (
        <tr key={functions.join()}>
          <th scope="row">{awaited.length > 0
            ? <button title="Show only the innermost function in the flame graph" onClick={() => dispatch(only(state, functions.at(-1)!))}><bdi>{limited(awaited.map(fn => `→ ${model.name(fn)}`).join(' '), 400)}</bdi></button>
            : <span class="quiet">the task itself</span>}</th>
          <td>{share(cpu + blocked, whole)}</td><td class="quiet">{duration(cpu + blocked)}</td>
        </tr>
      ))}</tbody>
    </table>
  );
}

function Blocked({ model, blocked }: { model: Model; blocked: readonly BlockedWorker[] }) {
  if (!blocked.length) return null;
  const { charges } = model.profile;
  return (
    <table class="lock-table">
      <caption>Calls that block a worker thread: it polls no other task during the call</caption>
      <tbody>{blocked.slice(0, MOST).map(({ executor, reason, call, charge, count: times, total, longest }) => {
        const fn = charges.function[charge]!, place = chargeLine(model, charge), file = place.slice(place.lastIndexOf('/') + 1);
        return (
          <tr key={`${call} ${charge} ${reason}`}>
            <th scope="row"><bdi>{limited(call === fn ? `waits for ${reason}` : model.name(call), 160)}</bdi>
              <span class="quiet"> from <bdi>{limited(model.name(fn), 160)}{file && ` (${limited(file, 60)})`}</bdi>, on {executor}</span></th>
            <td title={`longest: ${duration(longest)}`}>{duration(total)}</td><td class="quiet">{count(times)}×</td>
          </tr>
        );
      })}</tbody>
    </table>
  );
}
