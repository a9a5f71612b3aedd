// A table that renders only the rows in view, with one keyboard cursor: 100,000 rows are still fast.
//
// It is a real table with grid roles, so screen readers read rows and columns. `aria-rowcount` and
// `aria-rowindex` describe the rows that are not rendered.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { copyText } from './cells.tsx';
import { usePrinting } from '../printing.ts';

export const ROW_HEIGHT = 22;
/** Rows rendered outside the view, so that scrolling shows no gaps. */
const SPARE = 12;
/** The maximum number of printed rows: about forty pages. */
const PRINTED = 2000;

export interface Column {
  id: string;
  title: string;
  /** The meaning of the column, as a tooltip of its heading. */
  help?: string;
  /** A CSS width; the column without one takes the remaining width. */
  width?: string;
  numeric?: boolean;
  /** Whether a click on the heading sorts, and whether large values come first. */
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
  /** Additional attributes: `aria-level`, `aria-expanded`, … */
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
  /** A click, if it does more than move the cursor. */
  onPick?: (index: number) => void;
  /** Enter or a double click. */
  onOpen?: (index: number) => void;
  /** Opens the context menu of a row, at a position in the window. */
  onMenu?: (index: number, x: number, y: number) => void;
  /** A key that the table does not handle; returns true when it was used. */
  onKey?: (event: KeyboardEvent, index: number) => boolean;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** Shown instead of rows when there are none. */
  empty?: ComponentChildren;
  /** The minimum width of the table; in a narrower window the table scrolls sideways. */
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
    const inner = element.clientHeight - ROW_HEIGHT; // the heading remains on top
    const at = index * ROW_HEIGHT;
    if (at >= element.scrollTop && at + ROW_HEIGHT <= element.scrollTop + inner) return;
    const isNear = at > element.scrollTop - 3 * ROW_HEIGHT && at < element.scrollTop + inner + 2 * ROW_HEIGHT;
    if (middle && !isNear) element.scrollTop = Math.max(0, at - inner / 2);
    else if (at < element.scrollTop) element.scrollTop = at;
    else element.scrollTop = at + ROW_HEIGHT - inner;
  };
  useEffect(() => show(cursor, true), [props.reveal]);

  // Selected rows go from here to the cursor; without it only the cursor's row is selected.
  const [anchor, setAnchor] = useState<number | 'all'>();
  const isSelected = (index: number): boolean => anchor === 'all'
    || (anchor === undefined || cursor < 0 ? index === cursor : index >= Math.min(anchor, cursor) && index <= Math.max(anchor, cursor));
  const extend = (isExtended: boolean): void => setAnchor(isExtended ? (typeof anchor === 'number' ? anchor : Math.max(0, cursor)) : undefined);
  const onCopy = (event: ClipboardEvent): void => {
    // Text selected with the mouse is copied as it is.
    if (anchor === undefined && getSelection()?.isCollapsed === false) return;
    const all = Array.from({ length: count }, (_, index) => index), chosen = all.filter(isSelected);
    event.clipboardData?.setData('text/plain', tabSeparated(columns, chosen.length ? chosen : all, props.row));
    used(event);
  };
  const menuByKey = (): void => {
    const at = box.current?.querySelector('tr.cursor')?.getBoundingClientRect();
    if (at) props.onMenu?.(cursor, at.left + 40, at.bottom);
  };

  const move = (to: number): void => {
    if (count === 0) return;
    const index = Math.min(count - 1, Math.max(0, to));
    props.onCursor(index);
    show(index, false);
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if ((event.ctrlKey || event.metaKey) && event.key === 'a') {
      setAnchor('all');
      return used(event);
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (props.onMenu && (event.key === 'ContextMenu' || (event.key === 'F10' && event.shiftKey))) {
      menuByKey();
      return used(event);
    }
    if (props.onKey?.(event, cursor)) return used(event);
    const page = Math.max(1, Math.floor(height / ROW_HEIGHT) - 2);
    const steps: Record<string, number> = { ArrowDown: cursor + 1, ArrowUp: cursor - 1, PageDown: cursor + page, PageUp: cursor - page, Home: 0, End: count - 1 };
    const to = steps[event.key];
    if (to !== undefined) {
      extend(event.shiftKey);
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
        class={`${className}${index === cursor ? ' cursor' : isSelected(index) ? ' marked' : ''}`}
        aria-rowindex={index + 2}
        aria-selected={isSelected(index)}
        onClick={event => {
          extend(event.shiftKey);
          (event.shiftKey ? props.onCursor : props.onPick ?? props.onCursor)(index);
        }}
        onContextMenu={event => {
          if (!props.onMenu) return;
          event.preventDefault();
          event.currentTarget.closest('table')?.focus();
          props.onCursor(index);
          props.onMenu(index, event.clientX, event.clientY);
        }}
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
        aria-multiselectable="true"
        onKeyDown={onKeyDown}
        onCopy={onCopy}
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

/** Rows as text for a spreadsheet: headings, then one line per row; rows of a tree are indented. */
function tabSeparated(columns: readonly Column[], chosen: readonly number[], row: Props['row']): string {
  const plain = (text: string): string => text.replace(/\s+/g, ' ').trim();
  const lines = chosen.map(index => {
    const { cells, attributes } = row(index), level = Number(attributes?.['aria-level'] ?? 1);
    return cells.map((cell, at) => (columns[at]!.id === 'name' ? '  '.repeat(level - 1) : '') + plain(copyText(cell))).join('\t');
  });
  return [columns.map(column => column.title).join('\t'), ...lines].join('\n');
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
