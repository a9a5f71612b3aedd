// The locks that threads waited for in the selected time. For the selected lock, or all: where threads
// waited, and which threads held it.

import './panels.css';
import './heap.css';
import './locks.css';
import { useMemo } from 'preact/hooks';
import { search } from '../derive.ts';
import { count, duration } from '../format.ts';
import { lockName, lockRows, lockSite, lockSites, waitGraph, type LockRow, type LockSite, type WaitEdge } from '../locks.ts';
import { useMatches } from '../matches.ts';
import type { Model } from '../model.ts';
import type { PanelProps } from '../panel.ts';
import { NONE } from '../payload.ts';
import { chargeWords } from '../places.ts';
import { timeRange, type State } from '../state.ts';
import { waitMetric } from '../waits.ts';
import { limited, Share, Text } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

/** The maximum number of listed lines, threads or pairs of threads. */
const MOST = 30;

const COLUMNS: readonly Column[] = [
  { id: 'share', title: 'Share', width: '4.4rem', numeric: true, help: 'Of all time spent waiting for locks' },
  { id: 'total', title: 'Waited', width: '4.4rem', numeric: true, help: 'Total time that threads waited for it' },
  { id: 'waits', title: 'Waits', width: '3.8rem', numeric: true },
  { id: 'mean', title: 'Mean', width: '4.4rem', numeric: true },
  { id: 'p99', title: 'p99', width: '4.4rem', numeric: true, help: '99 % of the waits are at most this long' },
  { id: 'longest', title: 'Longest', width: '4.4rem', numeric: true },
  { id: 'lock', title: 'Lock', width: '14.8rem', help: 'Type, variable and address, where known' },
  { id: 'site', title: 'First wait at' },
  { id: 'holder', title: 'Held by', width: '6.2rem', help: 'The thread that kept others waiting longest' },
];

const threadOr = (model: Model, thread: number): string => (thread === NONE ? '' : model.threadName(thread));

export function LocksPanel({ model, state, dispatch }: PanelProps) {
  const key = JSON.stringify([timeRange(state), state.threads, state.spans]);
  const rows = useMemo(() => lockRows(model, state), [model, key]);
  const whole = rows.reduce((sum, { total }) => sum + total, 0);
  const chosen = Number(state.panel['locks-lock'] ?? -1);
  const cursor = rows.findIndex(({ lock }) => lock === chosen);
  const { function: fn } = model.profile.locks;
  const choose = (at: number): void => dispatch({ fn: fn[rows[at]!.lock]!, panel: { ...state.panel, 'locks-lock': String(rows[at]!.lock) } }, 'locks-lock');
  const show = (at: number): void => dispatch({ tab: 'flame', metric: waitMetric(model), fn: fn[rows[at]!.lock]!, panel: { ...state.panel, 'locks-lock': String(rows[at]!.lock) } });
  const found = search(model, state);
  const matches = useMemo(() => rows.flatMap(({ lock }, at) => (found.kind === 'found' && found.matched[fn[lock]!] === 1 ? [at] : [])), [rows, found]);
  useMatches(matches, choose, matches.indexOf(cursor));
  return (
    <div class="locks pane">
      <p class="status quiet" role="status">{rows.length ? `Threads waited ${duration(whole)} for ${count(rows.length)} lock${rows.length === 1 ? '' : 's'}. Idle threads, condition variables and channels do not count.` : 'No thread waited for a lock in the selected time.'}</p>
      <div class="heap-body">
        <Rows
          label="Locks"
          columns={COLUMNS}
          count={rows.length}
          cursor={cursor}
          reveal={chosen}
          onCursor={choose}
          onOpen={show}
          minWidth="900px"
          empty="No thread waited for a lock."
          row={at => {
            const { lock, count: waits, total, p99, longest, holder } = rows[at]!;
            return {
              key: lock,
              cells: [
                <Share value={total} whole={whole} />, duration(total), count(waits), duration(total / waits), duration(p99), duration(longest),
                <Text text={lockName(model, lock)} />, <Text text={lockSite(model, lock)} />, <Text text={threadOr(model, holder)} />,
              ],
            };
          }}
        />
        <About model={model} state={state} row={rows[cursor]} changes={key} />
      </div>
    </div>
  );
}

/** Which threads waited for the selected lock, or for all, and which threads held it. */
function About({ model, state, row, changes }: { model: Model; state: State; row: LockRow | undefined; changes: string }) {
  const sites = useMemo(() => row && lockSites(model, state, row.lock), [model, row?.lock, changes]);
  const edges = useMemo(() => waitGraph(model, state, row?.lock), [model, row?.lock, changes]);
  const name = row ? lockName(model, row.lock) : 'All locks';
  return (
    <section class="heap-about locks-about" aria-label="Details of the selected lock" tabIndex={0}>
      <h2 dir="ltr">{limited(name, 160)}</h2>
      {!row && <p class="quiet">Select a lock to see where threads wait for it and which threads hold it.</p>}
      {sites && <Sites title="Waits at" sites={sites.waiters} model={model} />}
      {sites && <Sites title="Released at, by thread" sites={sites.holders} model={model} />}
      {sites && !sites.holders.length && <p class="quiet">The holder is not known. <code>whyslow record --wakers</code> records it where the kernel allows that.</p>}
      <Graph model={model} edges={edges} />
    </section>
  );
}

function Sites({ title, sites, model }: { title: string; sites: readonly LockSite[]; model: Model }) {
  if (!sites.length) return null;
  return (
    <table class="lock-table">
      <caption>{title}</caption>
      <tbody>{sites.slice(0, MOST).map(({ charge, thread, count: times, total }) => (
        <tr key={`${thread} ${charge}`}>
          <th scope="row"><bdi>{limited(chargeWords(model, charge) || '[unknown]', 160)}</bdi>{thread !== NONE && <span class="quiet"> {limited(model.threadName(thread), 60)}</span>}</th>
          <td>{duration(total)}</td><td class="quiet">{count(times)}×</td>
        </tr>
      ))}</tbody>
    </table>
  );
}

/** Which thread waited for which: an arrow from the waiter to the holder, with a width that shows the time. */
function Graph({ model, edges }: { model: Model; edges: readonly WaitEdge[] }) {
  const most = edges[0]?.total ?? 0;
  if (!most) return null;
  return (
    <table class="lock-table lock-graph">
      <caption>Waiting threads and lock holders</caption>
      <thead><tr><th scope="col">Waiter</th><th scope="col"><span class="hidden">waits for</span></th><th scope="col">Holder</th><th scope="col">Time</th></tr></thead>
      <tbody>{edges.slice(0, MOST).map(({ waiter, holder, count: times, total }) => (
        <tr key={`${waiter} ${holder}`}>
          <th scope="row"><bdi>{limited(model.threadName(waiter), 60)}</bdi></th>
          <td aria-hidden="true"><i class="lock-arrow" style={{ height: `${Math.max(1, Math.round(9 * total / most))}px` }} />▸</td>
          <td><bdi>{limited(model.threadName(holder), 60)}</bdi></td>
          <td>{duration(total)} <span class="quiet">{count(times)}×</span></td>
        </tr>
      ))}</tbody>
    </table>
  );
}
