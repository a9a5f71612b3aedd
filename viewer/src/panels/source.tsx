// Source and machine code of the selected function side by side, with the cost of each line and instruction.

import './panels.css';
import './source.css';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { functionTable, ownValues, search, shape, weights, whole } from '../derive.ts';
import { amount, share } from '../format.ts';
import { chosenEditor, copy, openInEditor } from '../editor.ts';
import { wantedLine } from '../findings.ts';
import { functionRows, parseSort } from '../functionrows.ts';
import { codePieces, type CodePiece } from '../instructions.ts';
import { figuresOf, functionCosts, type FileCost, type FunctionCosts } from '../lines.ts';
import { useMatches } from '../matches.ts';
import { KIND, type Model } from '../model.ts';
import { NONE } from '../payload.ts';
import type { PanelProps } from '../panel.ts';
import { shortPath } from '../paths.ts';
import type { State } from '../state.ts';
import { limited, Name } from './cells.tsx';
import { CodeListing } from './codelisting.tsx';
import { HotLines } from './hotlines.tsx';
import { SourceListing } from './sourcelisting.tsx';
import { whyNoCode, whyNoLines, whyNoText, type Why } from './why.ts';
import { hotLines, sourceRows } from '../sourcerows.ts';

const NO_FUNCTIONS = new Uint32Array();

/** The cost of the selected function's lines; stacks that a transform drops do not count. */
function costsOf(model: Model, state: State, fn: number): FunctionCosts {
  const same = state.generics ? model.generic : model.sameAs;
  let values = weights(model, state);
  if (state.transforms.length > 0) {
    const { nodeOfStack } = shape(model, state);
    values = values.map((value, stack) => (nodeOfStack[stack] === NONE ? 0 : value));
  }
  const isWanted = (of: number): boolean => same[of] === fn || model.sameAs[of] === fn;
  return functionCosts(model.profile, values, isWanted, state.own ? of => model.kind(of) === KIND.yours || isWanted(of) : undefined);
}

export function SourcePanel(props: PanelProps) {
  const { model, state, dispatch } = props;
  const found = search(model, state);
  const table = functionTable(model, state);
  const matches = useMemo(() => (found.kind === 'found' ? functionRows(model, state, parseSort('total')) : NO_FUNCTIONS), [found, table]);
  useMatches(matches, fn => dispatch({ fn }), state.fn === undefined ? -1 : matches.indexOf(state.fn));
  // Without a selected function, that of the answer.
  const fn = state.fn === undefined || state.fn === model.root ? hottest(model, state) : state.fn;
  if (fn === undefined) {
    return (
      <div class="source pane">
        <div class="empty"><p>Select a function in the flame graph, the function table or the call tree.</p></div>
      </div>
    );
  }
  // A new function starts without the marks of the previous one.
  return <FunctionSource key={`${fn} ${state.panel['source-line']}`} {...props} fn={fn} />;
}

/** The function with most of the cost that is the user's; undefined without samples. */
const hottest = (model: Model, state: State): number | undefined =>
  functionRows(model, { ...state, search: '' }, parseSort(undefined, ownValues(model, state).own !== undefined))[0];

function FunctionSource(props: PanelProps & { fn: number }) {
  const { model, state, dark, fn } = props;
  const costs = useMemo(() => costsOf(model, state, fn), [weights(model, state), shape(model, state), fn]);
  const pieces = useMemo(() => codePieces(model.profile, costs), [costs]);
  const ownFile = model.profile.functions.file[model.member(fn)] ?? NONE;
  const sent = wantedLine(state);
  const [pickedFile, setFile] = useState<number | undefined>(sent?.file);
  const [pickedPiece, setPiece] = useState<number>();
  /** Rows of `costs.lines` marked on both sides: under the pointer, and selected. */
  const [hovered, setHovered] = useState<readonly number[]>([]);
  const hot = useMemo(() => hotLines(costs, ownFile), [costs]);
  const [picked, setChosen] = useState<readonly number[]>();
  const sentTo = sent ? costs.lines.findIndex(({ file, line }) => file === sent.file && line === sent.line) : -1;
  const chosen = picked ?? (sentTo >= 0 ? [sentTo] : hot.slice(0, 1));

  const files = useMemo(() => filesOf(costs, ownFile), [costs]);
  const file = files.find(known => known.file === (pickedFile ?? costs.lines[hot[0] ?? -1]?.file)) ?? files[0];
  const piece = pieces.find(known => known.code === pickedPiece) ?? pieces.find(({ instructions }) => instructions.some(({ lines }) => lines.includes(sentTo))) ?? pieces[0];
  const rows = useMemo(() => (file ? sourceRows(model, costs, file.file) : []), [costs, file?.file]);
  const unit = model.unit(state.metric), figures = figuresOf(functionTable(model, state), fn, costs);
  const marks = hovered.length ? hovered : chosen;

  /** Goes to the innermost line of an instruction, in whichever file it is. */
  const toLines = (lines: readonly number[]): void => {
    setChosen(lines);
    const inner = costs.lines[lines.at(-1) ?? -1];
    if (inner && inner.file !== NONE) setFile(inner.file);
  };
  const line = costs.lines[chosen.at(-1) ?? -1];
  const linePlace = line && line.file !== NONE ? `${model.text(line.file)}:${line.line || 1}` : model.place(fn);
  const hasText = rows.some(row => row.text !== undefined);
  return (
    <div class="source pane">
      <div class="tools">
        <strong class="grow"><Name model={model} fn={fn} dark={dark} /></strong>
        <span class="figures" title={state.inline ? 'As in the function table: code inlined into it is in its total' : 'As in the function table: includes code inlined into it'}>
          self <b>{amount(figures.self, unit)}</b> {share(figures.self, whole(model, state))}
          <i /> total <b>{amount(figures.total, unit)}</b> {share(figures.total, whole(model, state))}
        </span>
        {linePlace && <button type="button" onClick={() => { if (!openInEditor(linePlace)) { copy(linePlace); if (!chosenEditor().address) props.chooseEditor(); } }} title={`Open ${limited(linePlace, 300)} in the editor, or copy it if no editor is set`}>Open in editor</button>}
        <span class="quiet hint">Percentages below are of the function · . and , go to the next and previous hot line</span>
      </div>
      <div class="halves">
        <section aria-label="Source">
          {file ? (
            <>
              <Files model={model} costs={costs} files={files} file={file.file} own={ownFile} onPick={setFile} />
              {!hasText && <Explain why={whyNoText(model.text(file.file))} />}
              <SourceListing key={file.file} path={model.text(file.file)} costs={costs} rows={rows} unit={unit} hottest={hot[0]} marks={marks} chosen={chosen} onHover={setHovered} onChoose={setChosen} />
              <HotLines hot={hot} at={chosen.at(-1)} onGo={line => toLines([line])} />
            </>
          ) : <Explain why={whyNoLines(model, fn, costs.whole.total > 0)} />}
        </section>
        <section aria-label="Machine code">
          {piece ? (
            <>
              <Pieces model={model} pieces={pieces} piece={piece} onPick={setPiece} />
              <CodeListing key={piece.code} model={model} costs={costs} piece={piece} start={sentTo} unit={unit} marks={marks} onHover={setHovered} onChoose={toLines} />
            </>
          ) : <Explain why={costs.whole.total > 0 ? whyNoCode(model, fn) : whyNoLines(model, fn, false)} />}
        </section>
      </div>
    </div>
  );
}

function Explain({ why }: { why: Why }) {
  return (
    <div class="why">
      <p>{why.reason}</p>
      <p class="quiet">{why.fix}</p>
    </div>
  );
}

/** The function's own file, then the others by cost. */
function filesOf(costs: FunctionCosts, own: number): FileCost[] {
  const known = costs.files.filter(file => file.file !== NONE);
  return [...known.filter(file => file.file === own), ...known.filter(file => file.file !== own)];
}

interface FilesProps { model: Model; costs: FunctionCosts; files: readonly FileCost[]; file: number; own: number; onPick: (file: number) => void }

/** The files with the function's code: its own, and those of inlined functions. */
function Files({ model, costs, files, file, own, onPick }: FilesProps) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => list.current?.querySelector('[aria-pressed=true]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [file]);
  return (
    <div class="files" role="group" aria-label="Files with code of this function" ref={list}>
      {files.slice(0, 40).map(known => {
        const path = model.text(known.file);
        return (
          <button key={known.file} type="button" aria-pressed={known.file === file} onClick={() => onPick(known.file)}
            title={`${limited(path, 600)}\n${known.file === own ? 'Defines the function' : 'Inlined into the function'}\nself ${share(known.self, costs.whole.total)}, total ${share(known.total, costs.whole.total)} of the function`}>
            {limited(shortPath(path), 60)} <span class="quiet">{share(known.total, costs.whole.total)}</span>
          </button>
        );
      })}
      {files.length > 40 && <span class="quiet">and {files.length - 40} more</span>}
    </div>
  );
}

interface PiecesProps { model: Model; pieces: readonly CodePiece[]; piece: CodePiece; onPick: (code: number) => void }

/** Selects a piece of machine code: an inlined or a generic function is in several. */
function Pieces({ model, pieces, piece, onPick }: PiecesProps) {
  const { code } = model.profile;
  const name = (of: CodePiece): string =>
    `${model.moduleName(code.module[of.code]!)} ${hex(code.start[of.code]!)} – ${hex(code.end[of.code]!)}`;
  return (
    <div class="files">
      {pieces.length === 1 ? <span class="quiet one">{limited(name(piece), 120)}</span> : (
        <label>
          <span class="quiet">Compiled into {pieces.length} places:</span>{' '}
          <select value={String(piece.code)} onChange={event => onPick(Number(event.currentTarget.value))}>
            {pieces.map(of => <option key={of.code} value={String(of.code)}>{limited(name(of), 80)}</option>)}
          </select>
        </label>
      )}
    </div>
  );
}

const hex = (address: number): string => `0x${address.toString(16)}`;
