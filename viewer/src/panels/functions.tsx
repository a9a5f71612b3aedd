// All functions with their cost, and below them the selected one between its callers and callees.

import './panels.css';
import { useMemo } from 'preact/hooks';
import { functionTable, ownValues, search, whole } from '../derive.ts';
import { count } from '../format.ts';
import { functionRows, parseSort, SORTS, sortText } from '../functionrows.ts';
import { useMatches } from '../matches.ts';
import { kindWord } from '../palette.ts';
import type { PanelProps } from '../panel.ts';
import { ratioColumns, ratiosOf, type RatioColumn } from '../ratios.ts';
import { transformed } from '../state.ts';
import { Amount, Name, Place, Share, Text } from './cells.tsx';
import { Nothing } from './nothing.tsx';
import { useRowMenu } from './rowmenu.tsx';
import { Rows, type Column, type Sort } from './rows.tsx';
import { SandwichPanel } from './sandwich.tsx';
import { transformsOf } from './transformkeys.ts';

const OWN: readonly Column[] = [
  { id: 'own', title: 'Own', help: 'The function and the code of others that it calls, such as std: the order of whyslow’s answer', width: '5rem', numeric: true, sorts: 'down' },
  { id: 'own-share', title: '%', width: '5rem', numeric: true },
];

const COLUMNS: readonly Column[] = [
  { id: 'self', title: 'Self', help: 'Samples in the function itself', width: '5rem', numeric: true, sorts: 'down' },
  { id: 'self-share', title: '%', width: '5rem', numeric: true },
  { id: 'total', title: 'Total', help: 'Samples in the function and everything it calls; recursion counts once', width: '5rem', numeric: true, sorts: 'down' },
  { id: 'total-share', title: '%', width: '5rem', numeric: true },
  { id: 'name', title: 'Function', sorts: 'up' },
  { id: 'crate', title: 'Crate', width: '9rem', sorts: 'up' },
  { id: 'kind', title: 'Kind', width: '6.6rem', sorts: 'up' },
  { id: 'place', title: 'Defined at', width: '20%', sorts: 'up' },
];

/** The counter columns come before the function's name. */
const withRatios = (ratios: readonly RatioColumn[], of: string, hasOwn: boolean): readonly Column[] => {
  const before = COLUMNS.findIndex(({ id }) => id === 'name');
  const added = ratios.map(({ title, help }) => ({ id: `ratio-${title}`, title, help: `${help}, of ${of}. ?: too few samples`, width: `${Math.max(4, title.length * .55 + 1.4)}rem`, numeric: true }));
  return [...(hasOwn ? OWN : []), ...COLUMNS.slice(0, before), ...added, ...COLUMNS.slice(before)];
};

const NO_ROWS = new Uint32Array();

export function FunctionsPanel(props: PanelProps) {
  const { model, state, dispatch, dark } = props;
  const sortKey = state.panel['functions-sort'];
  const values = functionTable(model, state), { own } = ownValues(model, state), hasOwn = own !== undefined;
  const sort = parseSort(sortKey, hasOwn);
  const found = search(model, state);
  const rows = useMemo(() => functionRows(model, state, sort), [values, own, found, sortKey]);
  const cursor = state.fn === undefined ? -1 : rows.indexOf(state.fn);
  useMatches(found.kind === 'found' ? rows : NO_ROWS, fn => dispatch({ fn }), cursor);
  const menu = useRowMenu(props);
  const unit = model.unit(state.metric);
  const all = whole(model, state);

  const counters = useMemo(() => ratioColumns(model), [model]), of = sort.column === 'total' ? 'total' : 'self';
  const columns = useMemo(() => withRatios(counters, of === 'self' ? 'the function itself' : 'the function and everything it calls', hasOwn), [counters, of, hasOwn]);
  const ratios = useMemo(() => ratiosOf(model, state, counters, of), [model, values, of]);

  const onSort = ({ column, descending }: Sort): void => {
    const known = SORTS.find(name => name === column);
    if (known) dispatch({ panel: { ...state.panel, 'functions-sort': sortText({ column: known, descending }) } });
  };
  const status = found.kind === 'found' ? `${rows.length === 1 ? '1 function matches' : `${count(rows.length)} functions match`} “${state.search.slice(0, 60)}”`
    : found.kind === 'invalid' ? found.message : `${count(rows.length)} functions`;

  return (
    <div class="functions pane">
      <div class="upper">
        <Rows
          label="Functions"
          minWidth={`${64 + (hasOwn ? 10 : 0) + 5 * counters.length}rem`}
          columns={columns}
          count={rows.length}
          cursor={cursor}
          reveal={`${sortKey} ${state.search} ${state.fn}`}
          onCursor={at => dispatch({ fn: rows[at]! })}
          onOpen={at => dispatch({ fn: rows[at]!, tab: 'source' })}
          onMenu={(at, x, y) => menu.open({ fn: rows[at]!, x, y })}
          onKey={(event, at) => {
            const transform = rows[at] === undefined ? undefined : transformsOf(model, { fn: rows[at]! })[event.key];
            if (transform) dispatch(transformed(state, transform));
            return transform !== undefined;
          }}
          sort={sort}
          onSort={onSort}
          empty={found.kind === 'found' ? 'No function with selected samples matches the search.' : <Nothing model={model} state={state} dispatch={dispatch} />}
          row={at => {
            const fn = rows[at]!;
            return {
              key: fn,
              cells: [
                ...(own ? [<Amount value={own[fn]!} unit={unit} />, <Share value={own[fn]!} whole={all} />] : []),
                <Amount value={values.self[fn]!} unit={unit} />,
                <Share value={values.self[fn]!} whole={all} />,
                <Amount value={values.total[fn]!} unit={unit} />,
                <Share value={values.total[fn]!} whole={all} />,
                ...ratios(fn),
                <Name model={model} fn={fn} dark={dark} />,
                <Text text={model.crate(fn)} className="quiet" />,
                <span class="quiet">{kindWord(model.kind(fn))}</span>,
                <Place path={model.place(fn)} />,
              ],
            };
          }}
        />
        <div class="status quiet" role="status">{status}</div>
      </div>
      <SandwichPanel {...props} />
      {menu.menu}
    </div>
  );
}
