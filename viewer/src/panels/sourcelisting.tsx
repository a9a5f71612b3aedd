// Source lines with their cost; the hottest one is shown first, n and p go on to the next.

import { useEffect, useMemo, useState } from 'preact/hooks';
import type { FunctionCosts } from '../lines.ts';
import type { Model } from '../model.ts';
import { hotRows, type SourceRow } from '../sourcerows.ts';
import { Amount, limited, Share } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

const COLUMNS: readonly Column[] = [
  { id: 'self', title: 'Self', help: 'Samples at this line itself, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'total', title: 'Total', help: 'Samples at this line or in something it calls, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'amount', title: '', help: 'Total in the unit of the metric', width: '4.5rem', numeric: true },
  { id: 'line', title: 'Line', width: '3.5rem', numeric: true },
  { id: 'text', title: 'Source' },
];

/** The width of a letter of the listing's font. */
const LETTER = 7.3;

/** A line as it is shown. The model writes tabs out, like all control characters; in source text they are harmless. */
const shown = (text: string | undefined): string => limited((text ?? '').replaceAll('\\u{9}', '    '), 300);

interface Props {
  model: Model;
  costs: FunctionCosts;
  rows: readonly SourceRow[];
  unit: number;
  /** Rows of `costs.lines` to mark. */
  marks: readonly number[];
  chosen: readonly number[];
  onHover: (lines: readonly number[]) => void;
  onChoose: (lines: readonly number[]) => void;
}

export function SourceListing({ costs, rows, unit, marks, chosen, onHover, onChoose }: Props) {
  const hot = useMemo(() => hotRows(costs, rows), [costs, rows]);
  const longest = useMemo(() => rows.reduce((most, row) => Math.max(most, shown(row.text).length), 0), [rows]);
  const [cursor, setCursor] = useState(hot[0] ?? -1);
  const [revealed, reveal] = useState(0);
  // A chosen instruction brings its line into view.
  const wanted = rows.findIndex(row => row.cost >= 0 && row.cost === chosen.at(-1));
  const at = wanted >= 0 ? wanted : cursor;

  const move = (to: number): void => {
    setCursor(to);
    const cost = rows[to]?.cost ?? -1;
    onChoose(cost >= 0 ? [cost] : []);
  };
  const toHot = (step: number): void => {
    if (hot.length === 0) return;
    const now = hot.indexOf(at);
    move(hot[now < 0 ? 0 : (now + step + hot.length) % hot.length]!);
    reveal(count => count + 1);
  };
  // Anywhere on the page but in fields and in the machine code, which has hot lines of its own.
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      const isTaken = event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.closest('.code-listing, dialog');
      if (isTaken || (event.key !== 'n' && event.key !== 'p')) return;
      toHot(event.key === 'n' ? 1 : -1);
      event.preventDefault();
      event.stopPropagation();
    };
    addEventListener('keydown', onKeyDown, true);
    return () => removeEventListener('keydown', onKeyDown, true);
  });
  return (
    <>
      <Rows
        label="Source lines"
        className="listing"
        columns={COLUMNS}
        count={rows.length}
        cursor={at}
        reveal={`${revealed} ${wanted}`}
        minWidth={`calc(17rem + 24px + ${longest * LETTER}px)`}
        onCursor={move}
        row={index => {
          const row = rows[index]!;
          const cost = costs.lines[row.cost];
          const isHot = cost !== undefined && hot[0] === index;
          return {
            key: index,
            className: [row.isGap && 'gap', row.cost >= 0 && marks.includes(row.cost) && 'linked', isHot && 'hottest'].filter(Boolean).join(' '),
            attributes: {
              onMouseEnter: () => onHover(row.cost >= 0 ? [row.cost] : []),
              onMouseLeave: () => onHover([]),
            },
            cells: [
              cost && <Share value={cost.self} whole={costs.whole.total} />,
              cost && <Share value={cost.total} whole={costs.whole.total} />,
              cost && <Amount value={cost.total} unit={unit} />,
              <span class="quiet">{row.isGap ? '⋮' : row.line || '?'}</span>,
              <code dir="ltr">{shown(row.text)}</code>,
            ],
          };
        }}
      />
      <div class="status quiet">
        <button type="button" onClick={() => toHot(-1)} disabled={hot.length < 2}>Previous hot line</button>
        <button type="button" onClick={() => toHot(1)} disabled={hot.length < 2}>Next hot line</button>
        <span role="status">{hot.length ? `${Math.max(0, hot.indexOf(at)) + 1} of ${hot.length} hot lines` : ''}</span>
      </div>
    </>
  );
}
