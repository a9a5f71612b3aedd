// Instructions with their cost, loops and jumps, hints about avoidable cost, and the source line of each
// instruction with samples.

import './code.css';
import { useMemo, useState } from 'preact/hooks';
import { share } from '../format.ts';
import type { CodePiece } from '../instructions.ts';
import type { FunctionCosts } from '../lines.ts';
import { hintsOf, lanesOf, loopsOf, type CodeHint, type Lane } from '../loops.ts';
import type { Model } from '../model.ts';
import { NONE } from '../payload.ts';
import { Amount, limited, Share } from './cells.tsx';
import { hotStep } from './hotlines.tsx';
import { Rows, type Column } from './rows.tsx';
import { LETTER } from './sourcelisting.tsx';

const LANE = 9;

const columnsFor = (lanes: number): readonly Column[] => [
  { id: 'self', title: 'Self', help: 'Samples at this instruction, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'total', title: 'Total', help: 'Including what it calls, as a share of the function', width: '4.5rem', numeric: true },
  { id: 'amount', title: 'Amount', help: 'Total in the unit of the metric', width: '4.5rem', numeric: true },
  { id: 'address', title: 'Address', width: '5rem', numeric: true },
  { id: 'lanes', title: '', help: 'Loops and jumps', width: `${lanes * LANE + 24}px` },
  { id: 'text', title: 'Instruction' },
  { id: 'line', title: 'Source line', help: 'Innermost source line; known only where there are samples', width: '8.5rem' },
];

interface Props {
  model: Model;
  costs: FunctionCosts;
  piece: CodePiece;
  /** Shows the hottest instruction of this line first: a row of `costs.lines`; -1 for the hottest of all. */
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
  const loops = useMemo(() => loopsOf(model.profile, piece), [piece]);
  const lanes = useMemo(() => lanesOf(model.profile, piece, loops), [piece, loops]);
  const hints = useMemo(() => hintsOf(model.profile, piece, loops), [piece, loops]);
  const targets = useMemo(() => new Set(rows.map(row => instructions.target[row.instruction]!)), [rows]);
  const begin = rows[0]?.instruction ?? 0;
  const [hint, setHint] = useState<CodeHint>();
  const [cursor, setCursor] = useState(() => hot.find(at => rows[at]!.lines.includes(start)) ?? hot[0] ?? 0);
  const [revealed, reveal] = useState(0);
  const move = (to: number): void => {
    setCursor(to);
    onChoose(rows[to]?.lines ?? []);
  };
  const show = (to: number): void => {
    setCursor(to);
    reveal(count => count + 1);
  };
  const go = (to: number): void => {
    show(to);
    onChoose(rows[to]?.lines ?? []);
  };
  const onKey = (event: KeyboardEvent): boolean => {
    const step = hotStep(event);
    if (!step || hot.length === 0) return false;
    const now = hot.indexOf(cursor);
    go(hot[now < 0 ? 0 : (now + step + hot.length) % hot.length]!);
    return true;
  };
  const isInside = (to: number): boolean => to >= 0 && to < rows.length;
  const targetOf = (at: number): number => instructions.target[rows[at]!.instruction]! - begin;
  const writtenAt = (lines: readonly number[]): string => {
    const inner = costs.lines[lines.at(-1) ?? -1];
    if (!inner || inner.file === NONE) return '';
    return `${model.text(inner.file).split('/').at(-1)}:${inner.line || '?'}`;
  };
  const loopTitle = (index: number): string => {
    const titles: string[] = [];
    const inside = loops.filter(({ loop }) => model.profile.loops.first[loop]! <= begin + index && begin + index <= model.profile.loops.last[loop]!);
    for (const loop of inside) titles.push(`${loop.name}: self ${share(loop.self, costs.whole.total)}, total ${share(loop.total, costs.whole.total)} of the function`);
    return titles.join('\n');
  };
  return (
    <>
    <Hints model={model} costs={costs} hints={hints} chosen={hint} onChoose={picked => { setHint(picked); if (picked?.at.length) show(picked.at[0]!); }} />
    <Rows
      label="Instructions"
      className="listing code-listing"
      columns={columnsFor(lanes[0]?.length ?? 0)}
      count={rows.length}
      cursor={cursor}
      reveal={revealed}
      minWidth={`calc(27rem + ${(lanes[0]?.length ?? 0) * LANE + 48}px + ${longest * LETTER}px)`}
      onCursor={move}
      onKey={onKey}
      onOpen={at => { if (isInside(targetOf(at))) go(targetOf(at)); }}
      row={index => {
        const row = rows[index]!;
        return {
          key: row.instruction,
          className: [row.lines.some(line => marks.includes(line)) && 'linked', hot[0] === index && 'hottest', hint?.at.includes(index) && 'shows-hint'].filter(Boolean).join(' '),
          attributes: { onMouseEnter: () => onHover(row.lines), onMouseLeave: () => onHover([]) },
          cells: [
            <Share value={row.self} whole={costs.whole.total} />,
            <Share value={row.total} whole={costs.whole.total} />,
            <Amount value={row.total} unit={unit} />,
            <span class="quiet address">{instructions.address[row.instruction]!.toString(16)}</span>,
            <Lanes lanes={lanes[index]!} title={loopTitle(index)} from={index} to={isInside(targetOf(index)) ? targetOf(index) : undefined} isTarget={targets.has(row.instruction)} onGo={go} />,
            <code dir="ltr" title={limited(model.text(instructions.text[row.instruction]!), 1000)}>{limited(model.text(instructions.text[row.instruction]!), 300)}</code>,
            <span class="quiet">{limited(writtenAt(row.lines), 80)}</span>,
          ],
        };
      }}
    />
    </>
  );
}

interface LanesProps { lanes: readonly Lane[]; title: string; from: number; to: number | undefined; isTarget: boolean; onGo: (to: number) => void }

/** The loops around an instruction, and its jump target. */
function Lanes({ lanes, title, from, to, isTarget, onGo }: LanesProps) {
  return (
    <span class="lanes" title={title} aria-hidden="true">
      {lanes.map((lane, column) => <i key={column} class={lane} />)}
      {to !== undefined ? <button type="button" tabIndex={-1} title="Go to the jump target (Enter)" onClick={event => { event.stopPropagation(); onGo(to); }}>{to <= from ? '↑' : '↓'}</button> : <b>{isTarget ? '•' : ''}</b>}
    </span>
  );
}

interface HintsProps { model: Model; costs: FunctionCosts; hints: readonly CodeHint[]; chosen: CodeHint | undefined; onChoose: (hint: CodeHint | undefined) => void }

/** Hints about avoidable cost. A click highlights the instructions behind a hint. */
function Hints({ model, costs, hints, chosen, onChoose }: HintsProps) {
  const { hints: table, skid } = model.profile;
  if (hints.length === 0 && !skid) return null;
  return (
    <div class="hints" role="group" aria-label="Code hints">
      {hints.map(hint => {
        const { loop } = hint, isChosen = chosen?.hint === hint.hint;
        return (
          <button key={hint.hint} type="button" aria-pressed={isChosen} onClick={() => onChoose(isChosen ? undefined : hint)} title="Highlight the instructions behind this hint">
            <strong>{limited(model.text(table.id[hint.hint]!), 60)}</strong>{loop && ` in ${loop.name}, ${share(loop.total, costs.whole.total)}`}
            <span>{limited(model.text(table.sentence[hint.hint]!), 600)} <em>{limited(model.text(table.advice[hint.hint]!), 600)}</em></span>
          </button>
        );
      })}
      {skid && <p class="quiet">{limited(skid, 400)}</p>}
    </div>
  );
}
