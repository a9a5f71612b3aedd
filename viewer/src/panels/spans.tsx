// Spans that the program marked: by name, and one by one. Selecting one limits every panel to the samples
// inside.

import './panels.css';
import { useMemo } from 'preact/hooks';
import { searchSpans } from '../derive.ts';
import { amount, count, duration } from '../format.ts';
import { useMatches } from '../matches.ts';
import { NONE } from '../payload.ts';
import type { PanelProps } from '../panel.ts';
import { spanLength, spanNames, valueInside, type SpanName } from '../spanrows.ts';
import { timeRange, type State } from '../state.ts';
import { limited, Text } from './cells.tsx';
import { Rows, type Column, type Sort } from './rows.tsx';

export function SpansPanel(props: PanelProps) {
  const { model, state, dispatch } = props;
  const key = JSON.stringify([state.metric, state.threads, timeRange(state)]);
  const names = useMemo(() => spanNames(model, state), [model, key]);
  const sort = readSort(state.panel['spans-sort'], 'total');
  const sorted = useMemo(() => sortNames(names, sort), [names, state.panel['spans-sort']]);
  const filtered = state.spans && model.text(model.profile.spans.name[state.spans.span]!);
  const chosen = state.panel['spans-name'] ?? filtered ?? sorted[0]?.name;
  const cursor = sorted.findIndex(row => row.name === chosen);
  const unit = model.unit(state.metric);
  const keep = (changes: Record<string, string>): void => dispatch({ panel: { ...state.panel, ...changes } });
  const found = searchSpans(model, state);
  const matches = useMemo(() => sorted.flatMap((row, at) => (found.kind === 'found' && found.matched[row.spans[0]!] === 1 ? [at] : [])), [sorted, found]);
  useMatches(matches, at => keep({ 'spans-name': sorted[at]!.name }), matches.indexOf(cursor));

  if (model.profile.spans.count === 0) {
    return (
      <div class="spans pane">
        <div class="empty">
          <p>The profile has no spans.</p>
          <p>To add spans to your program, use the crate <code>whyslow-mark</code>, or <code>tracing</code> with its layer.</p>
        </div>
      </div>
    );
  }
  const all = ofAllThreads(state);
  const onlyName = (at: number): void => dispatch({ spans: { kind: 'name', span: sorted[at]!.spans[0]!, all } });
  const setAll = (next: boolean): void => dispatch({
    panel: { ...state.panel, 'spans-threads': next ? 'all' : 'own' }, ...(state.spans ? { spans: { ...state.spans, all: next } } : {}),
  });
  return (
    <div class="spans pane">
      <div class="tools">
        <strong>Spans</strong>
        <span class="quiet hint">Enter limits every panel to the samples inside</span>
        <span class="quiet" id="spans-threads-label">Samples of</span>
        <div class="segments" role="group" aria-labelledby="spans-threads-label">
          <button type="button" aria-pressed={!all} onClick={() => setAll(false)} title="Samples of the thread that the span is on">its thread</button>
          <button type="button" aria-pressed={all} onClick={() => setAll(true)} title="Samples of every thread during the span, including a pool that its thread waited for">all threads</button>
        </div>
        <button type="button" disabled={cursor < 0} onClick={() => onlyName(cursor)}>Only inside spans with this name</button>
        <button type="button" disabled={!state.spans} onClick={() => dispatch({ spans: undefined })}>Clear span filter</button>
      </div>
      <div class="halves">
        <section aria-label="Span names">
          <Rows
            label="Spans by name"
            columns={nameColumns(model.metricName(state.metric))}
            count={sorted.length}
            cursor={cursor}
            reveal={chosen}
            sort={sort}
            onSort={next => keep({ 'spans-sort': sortText(next) })}
            onCursor={at => keep({ 'spans-name': sorted[at]!.name })}
            onOpen={onlyName}
            minWidth="44rem"
            empty="No spans in the selected time and threads."
            row={at => {
              const row = sorted[at]!;
              return {
                key: row.name,
                className: [state.spans?.kind === 'name' && filtered === row.name && 'selected', matches.includes(at) && 'match'].filter(Boolean).join(' '),
                cells: [
                  <Text text={row.name} />, count(row.spans.length), duration(row.total), duration(row.mean), duration(row.p50), duration(row.p95),
                  duration(row.max), amount(row.inside, unit), amount(row.during, unit),
                ],
              };
            }}
          />
        </section>
        <section aria-label="Single spans">
          {sorted[cursor] && <Singles {...props} name={sorted[cursor]} />}
        </section>
      </div>
    </div>
  );
}

/** Whether the samples of all threads count during a span, in the current filter or in the next one. */
const ofAllThreads = (state: State): boolean => state.spans?.all ?? state.panel['spans-threads'] === 'all';

const SINGLE: readonly Column[] = [
  { id: 'start', title: 'Start', width: '5rem', numeric: true, sorts: 'up' },
  { id: 'length', title: 'Duration', width: '5rem', numeric: true, sorts: 'down' },
  { id: 'inside', title: 'Inside', help: 'Samples of its thread during the span', width: '5rem', numeric: true, sorts: 'down' },
  { id: 'during', title: 'All threads', help: 'Samples of all threads during the span', width: '5rem', numeric: true, sorts: 'down' },
  { id: 'thread', title: 'Thread', width: '9rem', sorts: 'up' },
  { id: 'detail', title: 'Detail', sorts: 'up' },
];

function Singles({ model, state, dispatch, name }: PanelProps & { name: SpanName }) {
  const { spans } = model.profile;
  const sort = readSort(state.panel['spans-single'], 'length');
  const rows = useMemo(() => {
    const rows = name.spans.map(span => ({
      span,
      start: spans.start[span]!,
      length: spanLength(model, span),
      inside: valueInside(model, state, [span]),
      during: valueInside(model, state, [span], true),
      thread: spans.thread[span] === NONE ? 'all threads' : model.threadName(spans.thread[span]!),
      detail: model.text(spans.detail[span]!),
    }));
    const sign = sort.descending ? -1 : 1;
    const column = sort.column as 'start' | 'length' | 'inside' | 'during' | 'thread' | 'detail';
    const value = (row: (typeof rows)[number]): number | string => row[column] ?? row.length;
    return rows.sort((a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : a.span - b.span));
  }, [name, state.panel['spans-single']]);
  const chosen = state.spans?.kind === 'one' ? state.spans.span : Number(state.panel['spans-one'] ?? -1);
  const cursor = rows.findIndex(row => row.span === chosen);
  const unit = model.unit(state.metric);
  const keep = (changes: Record<string, string>): void => dispatch({ panel: { ...state.panel, ...changes } });
  // While the filter is one span, moving the cursor filters to the next span.
  const move = (at: number): void => {
    const { span } = rows[at]!;
    if (state.spans?.kind === 'one') dispatch({ spans: { kind: 'one', span, all: state.spans.all } }, 'span');
    else keep({ 'spans-one': String(span) });
  };
  return (
    <Rows
      label={`Spans named ${limited(name.name, 80)}`}
      columns={SINGLE}
      count={rows.length}
      cursor={cursor}
      reveal={`${name.name} ${state.panel['spans-single']}`}
      sort={sort}
      onSort={next => keep({ 'spans-single': sortText(next) })}
      onCursor={move}
      onOpen={at => dispatch({ spans: { kind: 'one', span: rows[at]!.span, all: ofAllThreads(state) } })}
      row={at => {
        const row = rows[at]!;
        return {
          key: row.span,
          className: state.spans?.kind === 'one' && state.spans.span === row.span ? 'selected' : '',
          cells: [duration(row.start), duration(row.length), amount(row.inside, unit), amount(row.during, unit), <Text text={row.thread} />, <Text text={row.detail} className="quiet" />],
        };
      }}
    />
  );
}

function nameColumns(metric: string): Column[] {
  const time = (id: string, title: string, help: string): Column => ({ id, title, help, width: '4.5rem', numeric: true, sorts: 'down' });
  return [
    { id: 'name', title: 'Name', sorts: 'up' },
    { id: 'count', title: 'Count', width: '3.8rem', numeric: true, sorts: 'down' },
    time('total', 'Total', 'Total duration of all spans with this name'),
    time('mean', 'Mean', 'Average duration'),
    time('p50', 'Median', 'Half of the spans are at most this long'),
    time('p95', '95 %', '95 % of the spans are at most this long'),
    time('max', 'Longest', 'The longest span'),
    time('inside', 'Inside', `${metric || 'Samples'} of the spans’ own threads; a sample inside two of the spans counts once`),
    time('during', 'All threads', `${metric || 'Samples'} of all threads during the spans`),
  ];
}

function sortNames(names: readonly SpanName[], { column, descending }: Sort): SpanName[] {
  const sign = descending ? -1 : 1;
  const value = (row: SpanName): number | string => {
    switch (column) {
      case 'name': return row.name;
      case 'count': return row.spans.length;
      case 'mean': case 'p50': case 'p95': case 'max': case 'inside': case 'during': return row[column];
      default: return row.total;
    }
  };
  return [...names].sort((a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : 0));
}

/** `total` from large to small, `-total` from small to large. */
const readSort = (text: string | undefined, usual: string): Sort => ({
  column: text?.replace(/^-/, '') || usual,
  descending: !(text ?? usual).startsWith('-'),
});
const sortText = ({ column, descending }: Sort): string => (descending ? column : `-${column}`);
