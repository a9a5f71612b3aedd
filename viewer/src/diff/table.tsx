// Functions, or allocation sites, with their changes.

import '../panels/panels.css';
import { useMemo } from 'preact/hooks';
import { search } from '../derive.ts';
import { amount, count } from '../format.ts';
import { Name, Place } from '../panels/cells.tsx';
import { Rows, type Column, type Sort } from '../panels/rows.tsx';
import { changeColour } from '../palette.ts';
import { changeAt } from './changes.ts';
import type { DiffProps } from './flame.tsx';
import { changeRows, ofState, parseSort, SORTS, sortText, tableOf } from './rows.ts';
import { difference, interval, qValue, ratio } from './words.ts';

const COLUMNS: readonly Column[] = [
  { id: 'name', title: 'Function', sorts: 'up' },
  { id: 'before', title: 'Before', width: '5.2rem', numeric: true, sorts: 'down' },
  { id: 'after', title: 'After', width: '5.2rem', numeric: true, sorts: 'down' },
  { id: 'change', title: 'Change', width: '5.6rem', numeric: true, sorts: 'down' },
  { id: 'ratio', title: 'Ratio', help: 'After over before', width: '4rem', numeric: true, sorts: 'down' },
  { id: 'interval', title: '95 %', help: '95 % confidence interval: of the ratio with several runs, otherwise of the change', width: '7rem', numeric: true },
  { id: 'q', title: 'q', help: 'False discovery rate: the share of false positives among all rows with this q or a smaller one', width: '3.6rem', numeric: true },
  { id: 'verdict', title: 'Verdict', width: '7.4rem', sorts: 'up' },
  { id: 'place', title: 'Defined at', width: '13rem', sorts: 'up' },
];

/** Colours of verdicts in the table. */
const COLOURS: Record<string, number> = { less: 0, more: 4 };

export function DiffTable({ model, changes, state, dispatch, dark }: DiffProps) {
  const { unit, rows: all, verdicts } = changes;
  const of = ofState(changes, state), sortKey = state.panel['diff-sort'], table = tableOf(changes, of);
  const sort = parseSort(sortKey);
  const found = search(model, state);
  const rows = useMemo(() => changeRows(model, changes, state, of, sort), [changes, of, sortKey, found, state.panel['diff-decided']]);
  const isLines = changes.rowsAre === 'lines';
  // Counted values have no interval, and one run per side has no q.
  const columns = useMemo(() => {
    const isKnown = (values: Float64Array): boolean => values.some(value => !Number.isNaN(value));
    const known: Record<string, boolean> = { q: isKnown(all.own.q), interval: isKnown(all.own.margin) || isKnown(all.own.high) };
    return COLUMNS.filter(({ id }) => known[id] ?? true).map(column => (column.id === 'place' && isLines ? { ...column, title: 'Line' } : column));
  }, [all, isLines]);
  const cursor = state.fn === undefined ? -1 : rows.findIndex(row => all.fn[row] === state.fn);
  const set = (changed: Record<string, string>) => dispatch({ panel: { ...state.panel, ...changed } });
  const onSort = ({ column, descending }: Sort): void => {
    const known = SORTS.find(name => name === column);
    if (known) set({ 'diff-sort': sortText({ column: known, descending }) });
  };
  const cells = (row: number) => {
    const change = changeAt(table, row), seen = all.seen[row];
    const verdict = verdicts[change.verdict] ?? '', colour = COLOURS[verdict];
    const shown: Record<string, preact.ComponentChildren> = {
      name: <Name model={model} fn={all.fn[row]!} dark={dark} />,
      before: seen === 2 ? '' : amount(change.before, unit),
      after: seen === 1 ? '' : amount(change.after, unit),
      change: difference(change, unit),
      ratio: ratio(change),
      interval: interval(change, unit),
      q: qValue(change),
      verdict: <span class="verdict"><i style={{ background: changeColour(colour ?? 2, dark) }} />{verdict}</span>,
      place: <Place path={all.place[row]!} />,
    };
    return columns.map(({ id }) => shown[id]);
  };
  return (
    <section class="diff-table pane" aria-label={isLines ? 'Allocation sites' : 'Functions'}>
      <div class="tools">
        <h2>{isLines ? 'Allocation sites' : 'Functions'}</h2>
        {all.total && (
          <div class="segments" role="group" aria-label="Self or with callees">
            <button type="button" aria-pressed={of === 'own'} title="The function itself" onClick={() => set({ 'diff-of': 'own' })}>Self</button>
            <button type="button" aria-pressed={of === 'total'} title="The function and everything it calls" onClick={() => set({ 'diff-of': 'total' })}>With callees</button>
          </div>
        )}
        <button type="button" aria-pressed={!!state.panel['diff-decided']} title="Leave out rows within the noise" onClick={() => set({ 'diff-decided': state.panel['diff-decided'] ? '' : '1' })}>Decided only</button>
        <span class="figures grow">{count(rows.length)}{found.kind === 'found' || state.panel['diff-decided'] ? ` of ${count(all.count)}` : ''}</span>
        {state.fn !== undefined && <button type="button" onClick={() => dispatch({ fn: undefined })}>Show all frames</button>}
      </div>
      <Rows
        label="Changes"
        minWidth="67rem"
        columns={columns}
        count={rows.length}
        cursor={cursor}
        reveal={`${sortKey} ${of} ${state.search} ${state.fn}`}
        onCursor={at => dispatch({ fn: all.fn[rows[at]!]! })}
        onOpen={at => dispatch({ search: model.name(all.fn[rows[at]!]!).slice(0, 500), regex: false })}
        sort={sort ?? { column: '', descending: true }}
        onSort={onSort}
        empty={found.kind === 'found' ? 'No row matches the search.' : state.panel['diff-decided'] ? 'No change is decided.' : 'Nothing to compare.'}
        row={at => ({ key: rows[at]!, cells: cells(rows[at]!) })}
      />
    </section>
  );
}
