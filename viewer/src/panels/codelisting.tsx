// Instructions with their cost, and the line that each was compiled from where a sample tells.

import { useMemo, useState } from 'preact/hooks';
import type { CodePiece } from '../instructions.ts';
import type { FunctionCosts } from '../lines.ts';
import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import { Amount, limited, Share } from './cells.tsx';
import { hotStep } from './hotlines.tsx';
import { Rows, type Column } from './rows.tsx';
import { LETTER } from './sourcelisting.tsx';

const COLUMNS: readonly Column[] = [
  { id: 'self', title: 'Self', help: 'Samples at this instruction, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'total', title: 'Total', help: 'With what it calls, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'amount', title: 'Amount', help: 'Total in the unit of the metric', width: '4.5rem', numeric: true },
  { id: 'address', title: 'Address', width: '5rem', numeric: true },
  { id: 'text', title: 'Instruction' },
  { id: 'line', title: 'Written at', help: 'The innermost line; known where samples are', width: '8.5rem' },
];

interface Props {
  model: Model;
  costs: FunctionCosts;
  piece: CodePiece;
  /** The line whose hottest instruction is shown first: a row of `costs.lines`; -1 for the hottest of all. */
  start: number;
  unit: number;
  marks: readonly number[];
  onHover: (lines: readonly number[]) => void;
  onChoose: (lines: readonly number[]) => void;
}

export function CodeListing({ model, costs, piece, start, unit, marks, onHover, onChoose }: Props) {
  const { instructions } = model.profile;
  const rows = piece.instructions;
  const hot = useMemo(() => {
    const least = costs.whole.total / 200;
    return rows.map((_, at) => at).filter(at => rows[at]!.total >= least).sort((a, b) => rows[b]!.self - rows[a]!.self || rows[b]!.total - rows[a]!.total || a - b);
  }, [rows]);
  const longest = useMemo(() => rows.reduce((most, row) => Math.max(most, Math.min(80, model.text(instructions.text[row.instruction]!).length)), 0), [rows]);
  const [cursor, setCursor] = useState(() => hot.find(at => rows[at]!.lines.includes(start)) ?? hot[0] ?? 0);
  const [revealed, reveal] = useState(0);
  const move = (to: number): void => {
    setCursor(to);
    onChoose(rows[to]?.lines ?? []);
  };
  const onKey = (event: KeyboardEvent): boolean => {
    const step = hotStep(event);
    if (!step || hot.length === 0) return false;
    const now = hot.indexOf(cursor);
    move(hot[now < 0 ? 0 : (now + step + hot.length) % hot.length]!);
    reveal(count => count + 1);
    return true;
  };
  const writtenAt = (lines: readonly number[]): string => {
    const inner = costs.lines[lines.at(-1) ?? -1];
    if (!inner || inner.file === NONE) return '';
    return `${model.text(inner.file).split('/').at(-1)}:${inner.line || '?'}`;
  };
  return (
    <Rows
      label="Instructions"
      className="listing code-listing"
      columns={COLUMNS}
      count={rows.length}
      cursor={cursor}
      reveal={revealed}
      minWidth={`calc(27rem + 24px + ${longest * LETTER}px)`}
      onCursor={move}
      onKey={onKey}
      row={index => {
        const row = rows[index]!;
        return {
          key: row.instruction,
          className: [row.lines.some(line => marks.includes(line)) && 'linked', hot[0] === index && 'hottest'].filter(Boolean).join(' '),
          attributes: { onMouseEnter: () => onHover(row.lines), onMouseLeave: () => onHover([]) },
          cells: [
            <Share value={row.self} whole={costs.whole.total} />,
            <Share value={row.total} whole={costs.whole.total} />,
            <Amount value={row.total} unit={unit} />,
            <span class="quiet address">{instructions.address[row.instruction]!.toString(16)}</span>,
            <code dir="ltr" title={limited(model.text(instructions.text[row.instruction]!), 1000)}>{limited(model.text(instructions.text[row.instruction]!), 300)}</code>,
            <span class="quiet">{limited(writtenAt(row.lines), 80)}</span>,
          ],
        };
      }}
    />
  );
}
