// Source lines with their cost.

import { useMemo, useState } from 'preact/hooks';
import type { FunctionCosts } from '../lines.ts';
import type { SourceRow } from '../sourcerows.ts';
import { pieces } from '../syntax.ts';
import { Amount, limited, Share } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';

const COLUMNS: readonly Column[] = [
  { id: 'self', title: 'Self', help: 'Samples at this line itself, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'total', title: 'Total', help: 'Samples at this line and in what it calls, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'amount', title: 'Amount', help: 'Total in the unit of the metric', width: '4.5rem', numeric: true },
  { id: 'line', title: 'Line', width: '3.5rem', numeric: true },
  { id: 'text', title: 'Source' },
];

/** The width of a letter in the listing's font. */
export const LETTER = 7.3;

/** A line as displayed. The model escapes tabs like all control characters; in source text they are harmless. */
const shown = (text: string | undefined): string => limited((text ?? '').replaceAll('\\u{9}', '    '), 300);

interface Props {
  /** The file, for its language. */
  path: string;
  costs: FunctionCosts;
  rows: readonly SourceRow[];
  unit: number;
  /** The hottest line: a row of `costs.lines`. */
  hottest: number | undefined;
  /** Rows of `costs.lines` to mark. */
  marks: readonly number[];
  chosen: readonly number[];
  onHover: (lines: readonly number[]) => void;
  onChoose: (lines: readonly number[]) => void;
}

export function SourceListing({ path, costs, rows, unit, hottest, marks, chosen, onHover, onChoose }: Props) {
  const longest = useMemo(() => rows.reduce((most, row) => Math.max(most, shown(row.text).length), 0), [rows]);
  const [cursor, setCursor] = useState(-1);
  // Scrolls a selected line, or that of a selected instruction, into view.
  const wanted = rows.findIndex(row => row.cost >= 0 && row.cost === chosen.at(-1));
  const at = wanted >= 0 ? wanted : cursor;

  const move = (to: number): void => {
    setCursor(to);
    const cost = rows[to]?.cost ?? -1;
    onChoose(cost >= 0 ? [cost] : []);
  };
  return (
    <Rows
      label="Source lines"
      className="listing"
      columns={COLUMNS}
      count={rows.length}
      cursor={at}
      reveal={wanted}
      minWidth={`calc(17rem + 24px + ${longest * LETTER}px)`}
      onCursor={move}
      row={index => {
        const row = rows[index]!;
        const cost = costs.lines[row.cost];
        return {
          key: index,
          className: [row.isGap && 'gap', row.cost >= 0 && marks.includes(row.cost) && 'linked', row.cost === hottest && 'hottest'].filter(Boolean).join(' '),
          attributes: {
            onMouseEnter: () => onHover(row.cost >= 0 ? [row.cost] : []),
            onMouseLeave: () => onHover([]),
          },
          cells: [
            cost && <Share value={cost.self} whole={costs.whole.total} />,
            cost && <Share value={cost.total} whole={costs.whole.total} />,
            cost && <Amount value={cost.total} unit={unit} />,
            <span class="quiet">{row.isGap ? '⋮' : row.line || '?'}</span>,
            <code dir="ltr">{pieces(shown(row.text), path).map(({ token, text }) => (token ? <span class={`token-${token}`}>{text}</span> : text))}</code>,
          ],
        };
      }}
    />
  );
}
