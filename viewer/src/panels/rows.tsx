// A table that only has the rows in view in the page, with one keyboard cursor: 100,000 rows stay fast.
//
// It is a real table with the roles of a grid, so screen readers read rows and columns; `aria-rowcount` and `aria-rowindex` tell
// them about the rows that are not in the page.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { usePrinting } from '../printing.ts';

export const ROW_HEIGHT = 22;
/** Rows outside the view that are in the page all the same, so that scrolling shows no gaps. */
const SPARE = 12;
/** Most rows on paper: some forty pages. */
const PRINTED = 2000;

export interface Column {
  id: string;
  title: string;
  /** What the column means, as a tooltip of its heading. */
  help?: string;
  /** A CSS width; the column without one takes what is left. */
  width?: string;
  numeric?: boolean;
  /** Whether a click on the heading sorts; and whether large values come first. */
  sorts?: 'up' | 'down';
}

export interface Sort {
  column: string;
  descending: boolean;
}

export interface RowContent {
  key: string | number;
  cells: readonly ComponentChildren[];
  className?: string;
  /** Further attributes: `aria-level`, `aria-expanded`, … */
  attributes?: Record<string, string | number | boolean | ((event: MouseEvent) => void) | undefined>;
}

interface Props {
  label: string;
  role?: 'grid' | 'treegrid';
  className?: string;
  columns: readonly Column[];
  count: number;
  row: (index: number) => RowContent;
  /** The row of the keyboard cursor; -1 for none. */
  cursor: number;
  onCursor: (index: number) => void;
  /** A click, where that is more than moving the cursor. */
  onPick?: (index: number) => void;
  /** Enter or a double click. */
  onOpen?: (index: number) => void;
  /** A key that the table does not know; true when it was used. */
  onKey?: (event: KeyboardEvent, index: number) => boolean;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** Shown instead of rows when there are none. */
  empty?: ComponentChildren;
  /** The least width of the table; beyond it the table scrolls sideways. */
  minWidth?: string;
  /** Scrolls the cursor's row to the middle when this changes. */
  reveal?: unknown;
}

export function Rows(props: Props): JSX.Element {
  const { columns, count, cursor, sort, onSort, role = 'grid' } = props;
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);

  useLayoutEffect(() => {
    const element = box.current!;
    const measure = (): void => setHeight(element.clientHeight);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);

  const show = (index: number, middle: boolean): void => {
    const element = box.current;
    if (!element || index < 0) return;
    const inner = element.clientHeight - ROW_HEIGHT; // the heading stays on top
    const at = index * ROW_HEIGHT;
    if (at >= element.scrollTop && at + ROW_HEIGHT <= element.scrollTop + inner) return;
    const isNear = at > element.scrollTop - 3 * ROW_HEIGHT && at < element.scrollTop + inner + 2 * ROW_HEIGHT;
    if (middle && !isNear) element.scrollTop = Math.max(0, at - inner / 2);
    else if (at < element.scrollTop) element.scrollTop = at;
    else element.scrollTop = at + ROW_HEIGHT - inner;
  };
  useEffect(() => show(cursor, true), [props.reveal]);

  const move = (to: number): void => {
    if (count === 0) return;
    const index = Math.min(count - 1, Math.max(0, to));
    props.onCursor(index);
    show(index, false);
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (props.onKey?.(event, cursor)) return used(event);
    const page = Math.max(1, Math.floor(height / ROW_HEIGHT) - 2);
    const steps: Record<string, number> = { ArrowDown: cursor + 1, ArrowUp: cursor - 1, PageDown: cursor + page, PageUp: cursor - page, Home: 0, End: count - 1 };
    const to = steps[event.key];
    if (to !== undefined) {
      move(to);
      used(event);
    } else if (event.key === 'Enter' && cursor >= 0 && props.onOpen) {
      props.onOpen(cursor);
      used(event);
    }
  };

  const printing = usePrinting();
  const first = printing ? 0 : Math.max(0, Math.min(count, Math.floor(top / ROW_HEIGHT) - SPARE));
  const last = Math.min(count, printing ? PRINTED : Math.ceil((top + height) / ROW_HEIGHT) + SPARE);
  const rows: JSX.Element[] = [];
  for (let index = first; index < last; index++) {
    const { key, cells, className = '', attributes } = props.row(index);
    rows.push(
      <tr
        key={key}
        id={`${id}-${index}`}
        class={`${className}${index === cursor ? ' cursor' : ''}`}
        aria-rowindex={index + 2}
        aria-selected={index === cursor}
        onClick={() => (props.onPick ?? props.onCursor)(index)}
        onDblClick={() => props.onOpen?.(index)}
        {...attributes}
      >
        {cells.map((cell, at) => (
          <td role="gridcell" key={columns[at]!.id} class={columns[at]!.numeric ? 'numeric' : undefined}>{cell}</td>
        ))}
      </tr>,
    );
  }

  return (
    <div class={`rows ${props.className ?? ''}`} ref={box} onScroll={event => setTop(event.currentTarget.scrollTop)}>
      <table
        role={role}
        aria-label={props.label}
        aria-rowcount={count + 1}
        aria-activedescendant={cursor >= first && cursor < last ? `${id}-${cursor}` : undefined}
        tabIndex={0}
        style={props.minWidth ? { minWidth: props.minWidth } : undefined}
        onKeyDown={onKeyDown}
      >
        <colgroup>
          {columns.map(column => <col key={column.id} style={column.width ? { width: column.width } : undefined} />)}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(column => <Heading key={column.id} column={column} sort={sort} onSort={onSort} />)}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" class="space" style={{ height: `${first * ROW_HEIGHT}px` }} />}
          {rows}
          {last < count && !printing && <tr aria-hidden="true" class="space" style={{ height: `${(count - last) * ROW_HEIGHT}px` }} />}
        </tbody>
      </table>
      {last < count && printing && <div class="empty">The first {last.toLocaleString('en-US')} of {count.toLocaleString('en-US')} rows.</div>}
      {count === 0 && <div class="empty">{props.empty ?? 'Nothing to show.'}</div>}
    </div>
  );
}

function used(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}

interface HeadingProps {
  column: Column;
  sort: Sort | undefined;
  onSort: ((sort: Sort) => void) | undefined;
}

function Heading({ column, sort, onSort }: HeadingProps): JSX.Element {
  const isSorted = sort?.column === column.id;
  const direction = isSorted ? (sort.descending ? 'descending' : 'ascending') : undefined;
  const className = column.numeric ? 'numeric' : undefined;
  if (!column.sorts || !onSort) {
    return <th scope="col" class={className} title={column.help}>{column.title}</th>;
  }
  const descending = isSorted ? !sort.descending : column.sorts === 'down';
  return (
    <th scope="col" class={className} title={column.help} aria-sort={direction}>
      <button type="button" onClick={() => onSort({ column: column.id, descending })}>
        {column.title}
        <span class="sorted" aria-hidden="true">{isSorted ? (sort.descending ? '▾' : '▴') : ''}</span>
      </button>
    </th>
  );
}
