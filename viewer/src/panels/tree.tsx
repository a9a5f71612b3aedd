// A table of a call tree: rows expand and collapse, and the cursor keeps its path when values change.

import { useMemo, useRef, useState } from 'preact/hooks';
import type { ComponentChildren, JSX } from 'preact';
import type { Transform } from '../transforms.ts';
import type { CallSite } from '../callsites.ts';
import type { MenuAt } from '../flame/menu.tsx';
import type { Model } from '../model.ts';
import type { Outline } from '../outline.ts';
import { heaviestPath, MOST_ROWS, Paths, pathsBelow, rowsOf, type Row } from '../outlinerows.ts';
import { Amount, Name, Place, Share } from './cells.tsx';
import { Rows, type Column } from './rows.tsx';
import { transformsOf } from './transformkeys.ts';

/**
 * Indentation in pixels: of each of the first levels, of each after them, and the last level that is indented.
 * Below the first ones, the level is shown as a number, too.
 */
const INDENT = { first: 14, levels: 16, then: 4, last: 60 };

const indentOf = (depth: number): number =>
  INDENT.first * Math.min(depth, INDENT.levels) + INDENT.then * Math.max(0, Math.min(depth, INDENT.last) - INDENT.levels);

interface Props {
  label: string;
  model: Model;
  dark: boolean;
  outline: Outline;
  /** The whole that shares refer to. */
  whole: number;
  unit: number;
  columns: readonly ('total' | 'self' | 'site' | 'place')[];
  /** Where a row's function and that of its parent row (undefined for a root) call each other. */
  site?: (fn: number, around: number | undefined) => CallSite | undefined;
  /** The menu of a function. */
  onMenu?: (at: MenuAt) => void;
  /** A new value resets the table to the expanded heaviest path. */
  about: string;
  /** 1 for functions that match the search. */
  matched: Uint8Array | undefined;
  /** A path of functions to expand and go to; a new object goes there again. */
  goTo?: readonly number[] | undefined;
  /** The selected function of all panels. */
  selected: number | undefined;
  /** The cursor moved to a function. */
  onCursor?: (fn: number) => void;
  /** A click on a function, or Enter when `walks`. */
  onPick: (fn: number) => void;
  /** Rows are places in the call tree from its root. */
  hasPaths?: boolean;
  /** Transforms the call tree by a function or a place. */
  onTransform: (transform: Transform) => void;
  /** Enter goes to the function instead of expanding the row. */
  walks?: boolean;
  empty: ComponentChildren;
}

interface Opened {
  about: string;
  paths: Paths;
  open: ReadonlySet<number>;
  cursor: number;
}

export function TreeTable(props: Props): JSX.Element {
  const { model, outline, whole, unit } = props;
  const opened = useRef<Opened | undefined>(undefined);
  const [, redraw] = useState(0);
  if (opened.current?.about !== props.about) {
    const paths = new Paths();
    opened.current = { about: props.about, paths, open: new Set(heaviestPath(outline, paths)), cursor: 0 };
  }
  // Goes to each requested path once, before the rows are built.
  const visited = useRef<readonly number[] | undefined>(undefined);
  if (props.goTo && visited.current !== props.goTo) {
    visited.current = props.goTo;
    const { paths, open } = opened.current;
    const steps: number[] = [];
    for (const fn of props.goTo) steps.push(paths.below(steps.at(-1) ?? 0, fn));
    opened.current = { ...opened.current, open: new Set([...open, ...steps.slice(0, -1)]), cursor: steps.at(-1) ?? 0 };
  }
  const { paths, open, cursor: cursorPath } = opened.current;
  const rows = useMemo(() => rowsOf(outline, paths, open), [outline, paths, open]);
  const cursor = cursorPath ? rows.findIndex(row => row.path === cursorPath) : -1;

  const change = (changes: Partial<Opened>): void => {
    opened.current = { ...opened.current!, ...changes };
    redraw(count => count + 1);
  };
  const setOpen = (row: Row, isOpen: boolean): void => {
    const next = new Set(open);
    if (isOpen) next.add(row.path);
    else next.delete(row.path);
    change({ open: next, cursor: row.path });
  };
  const moveTo = (row: Row | undefined): void => {
    if (!row) return;
    change({ cursor: row.path });
    props.onCursor?.(row.branch.fn);
  };

  /** Where the row is in the call tree; only its function in trees of callers. */
  const placeOf = (row: Row): { fn: number; path?: number[] } => {
    const { fn } = row.branch, path: number[] = [];
    if (!props.hasPaths) return { fn };
    for (let at: Row | undefined = row; at; at = rows[at.parent]) path.unshift(at.branch.fn);
    return { fn, path };
  };

  const siteOf = (row: Row): CallSite | undefined => props.site?.(row.branch.fn, rows[row.parent]?.branch.fn);

  const onKey = (event: KeyboardEvent, at: number): boolean => {
    const row = rows[at];
    if (!row) return false;
    const transform = transformsOf(model, placeOf(row))[event.key];
    if (transform) {
      props.onTransform(transform);
      return true;
    }
    switch (event.key) {
      case 'ArrowRight':
        if (row.open) moveTo(rows[at + 1]);
        else if (row.branch.mayOpen) setOpen(row, true);
        return true;
      case 'ArrowLeft':
        if (row.open) setOpen(row, false);
        else moveTo(rows[row.parent]);
        return true;
      case '*': {
        const below = pathsBelow(outline, paths, row.branch, row.path, MOST_ROWS);
        change({ open: new Set([...open, ...below]) });
        return true;
      }
      case 'Enter':
        if (props.walks) props.onPick(row.branch.fn);
        else if (row.branch.mayOpen) setOpen(row, !row.open);
        return true;
      default:
        return false;
    }
  };

  return (
    <Rows
      label={props.label}
      role="treegrid"
      className="tree"
      minWidth="32rem"
      columns={headings(props.columns)}
      count={rows.length}
      cursor={cursor}
      onCursor={at => moveTo(rows[at])}
      onPick={at => { moveTo(rows[at]); props.onPick(rows[at]!.branch.fn); }}
      onKey={onKey}
      {...(props.onMenu ? { onMenu: (at: number, x: number, y: number) => props.onMenu!({ ...placeOf(rows[at]!), place: siteOf(rows[at]!)?.place, x, y }) } : {})}
      reveal={props.goTo}
      empty={props.empty}
      row={at => {
        const row = rows[at]!;
        const { branch } = row;
        const name = (
          <span class="branch" style={{ paddingLeft: `${indentOf(row.depth)}px`, '--guides': `${INDENT.first * Math.min(row.depth, INDENT.levels)}px` }}>
            {row.depth > INDENT.levels && <span class="level" title={`Level ${row.depth + 1}`}>{row.depth + 1}</span>}
            <span
              class={`twisty${branch.mayOpen ? '' : ' leaf'}`}
              aria-hidden="true"
              onClick={event => {
                if (!branch.mayOpen) return;
                event.stopPropagation();
                setOpen(row, !row.open);
              }}
            >
              {branch.mayOpen ? (row.open ? '▾' : '▸') : ''}
            </span>
            <Name model={model} fn={branch.fn} dark={props.dark} inlined={branch.inlined} times={branch.times} frames={branch.frames} more={branch.more} hidden={branch.hidden} families={branch.families} />
          </span>
        );
        const cells = props.columns.flatMap(column => {
          if (column === 'place' || column === 'site') return [];
          const value = branch[column];
          return [<Amount key="amount" value={value} unit={unit} />, <Share key="share" value={value} whole={whole} />];
        });
        cells.push(name);
        if (props.columns.includes('site')) cells.push(<Place path={siteOf(row)?.place ?? ''} {...(siteOf(row)?.more ? { more: siteOf(row)!.more } : {})} />);
        if (props.columns.includes('place')) cells.push(<Place path={model.place(branch.fn)} />);
        const marks = [branch.fn === props.selected && 'selected', props.matched && model.isAmong(props.matched, branch.fn, branch.families) && 'match'].filter(Boolean).join(' ');
        return {
          key: row.path,
          cells,
          className: marks,
          attributes: {
            'aria-level': row.depth + 1,
            'aria-setsize': row.setSize,
            'aria-posinset': row.place,
            ...(branch.mayOpen ? { 'aria-expanded': row.open } : {}),
          },
        };
      }}
    />
  );
}

function headings(shown: Props['columns']): Column[] {
  const columns: Column[] = [];
  for (const id of shown) {
    if (id === 'place' || id === 'site') continue;
    const title = id === 'self' ? 'Self' : 'Total';
    const help = id === 'self' ? 'Samples in the function itself' : 'Samples in this row and everything below it';
    columns.push({ id, title, help, width: '5rem', numeric: true }, { id: `${id}-share`, title: '%', help, width: '5rem', numeric: true });
  }
  columns.push({ id: 'name', title: 'Function' });
  if (shown.includes('site')) columns.push({ id: 'site', title: 'Call site', help: 'The line of the caller with most of the samples', width: '24%' });
  if (shown.includes('place')) columns.push({ id: 'place', title: 'Defined at', width: '24%' });
  return columns;
}
