// The rows of the table of changes: which, and in which order.

import { search } from '../derive.ts';
import type { Model } from '../model.ts';
import type { State } from '../state.ts';
import type { Changes, ChangeTable } from './changes.ts';

export const SORTS = ['before', 'after', 'change', 'ratio', 'verdict', 'name', 'place'] as const;
export type SortColumn = (typeof SORTS)[number];
export interface ChangeSort { column: SortColumn; descending: boolean }

/** The function itself, or with everything it calls. Lines only have the former. */
export type Of = 'own' | 'total';
export const ofState = (changes: Changes, state: State): Of => (changes.rows.total && state.panel['diff-of'] === 'total' ? 'total' : 'own');
export const tableOf = ({ rows }: Changes, of: Of): ChangeTable => (of === 'total' && rows.total ? rows.total : rows.own);

const isText = (column: SortColumn): boolean => column === 'name' || column === 'place' || column === 'verdict';

/**
 * `change`, or `-name` for the reverse of a column's default direction; undefined for the order of `whyslow
 * diff`.
 */
export function parseSort(text: string | undefined): ChangeSort | undefined {
  const plain = text?.replace(/^-/, '');
  const column = SORTS.find(known => known === plain);
  return column && { column, descending: isText(column) === text!.startsWith('-') };
}

export const sortText = ({ column, descending }: ChangeSort): string => (descending === !isText(column) ? column : `-${column}`);

/** Rows that match the search, and only decided ones if the user wants that. Unsorted, decided rows come first, by the largest difference. */
export function changeRows(model: Model, changes: Changes, state: State, of: Of, sort: ChangeSort | undefined): number[] {
  const { rows, verdicts } = changes, { before, after, verdict } = tableOf(changes, of);
  const found = search(model, state), chosen: number[] = [];
  const isShown = (row: number): boolean => !state.panel['diff-decided'] || verdicts[verdict[row]!] !== 'undecided';
  for (let row = 0; row < rows.count; row++) if (isShown(row) && (found.kind !== 'found' || found.matched[rows.fn[row]!] === 1)) chosen.push(row);
  const size = (row: number): number => Math.abs(after[row]! - before[row]!);
  const isClaim = (row: number): number => (/^(more|less)$/.test(verdicts[verdict[row]!] ?? '') ? 1 : 0);
  const usual = (a: number, b: number): number => isClaim(b) - isClaim(a) || size(b) - size(a) || a - b;
  if (!sort) return chosen.sort(usual);
  const sign = sort.descending ? -1 : 1;
  if (isText(sort.column)) {
    const value = (row: number): string => (sort.column === 'name' ? model.name(rows.fn[row]!) : sort.column === 'place' ? rows.place[row]! : verdicts[verdict[row]!] ?? '').slice(0, 1000).toLowerCase();
    const values = new Map(chosen.map(row => [row, value(row)]));
    return chosen.sort((a, b) => {
      const [left, right] = [values.get(a)!, values.get(b)!];
      return left === right ? usual(a, b) : left < right ? -sign : sign;
    });
  }
  const number = { before: (row: number) => before[row]!, after: (row: number) => after[row]!, change: (row: number) => after[row]! - before[row]!, ratio: (row: number) => (before[row] ? after[row]! / before[row]! : after[row] ? Infinity : 1) }[sort.column as 'before'];
  return chosen.sort((a, b) => {
    const [left, right] = [number(a), number(b)];
    return left === right ? usual(a, b) : left < right ? -sign : sign;
  });
}
