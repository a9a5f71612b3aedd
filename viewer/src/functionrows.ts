// The rows of the function table: which functions, in which order.

import { functionTable, ownValues, search } from './derive.ts';
import type { Model } from './model.ts';
import { kindWord } from './palette.ts';
import type { State } from './state.ts';

export const SORTS = ['own', 'self', 'total', 'name', 'crate', 'kind', 'place'] as const;
export type SortColumn = (typeof SORTS)[number];

export interface FunctionSort {
  column: SortColumn;
  descending: boolean;
}

/** `self`, or `-name` for the reverse of a column's default direction. Without one, that of the answer. */
export function parseSort(text: string | undefined, hasOwn = false): FunctionSort {
  const plain = text?.replace(/^-/, '');
  const wanted = SORTS.find(known => known === plain), column = wanted === undefined || (wanted === 'own' && !hasOwn) ? (hasOwn ? 'own' : 'self') : wanted;
  const isUsual = !text?.startsWith('-');
  return { column, descending: isNumeric(column) === isUsual };
}

export function sortText({ column, descending }: FunctionSort): string {
  return descending === isNumeric(column) ? column : `-${column}`;
}

const isNumeric = (column: SortColumn): boolean => column === 'own' || column === 'self' || column === 'total';

/** Functions with selected samples that match the search, sorted. */
export function functionRows(model: Model, state: State, sort: FunctionSort): Uint32Array {
  const { self, total } = functionTable(model, state), { own } = ownValues(model, state);
  const found = search(model, state);
  const rows: number[] = [];
  for (let fn = 0; fn < total.length; fn++) {
    if (total[fn]! !== 0 && fn !== model.root && (found.kind !== 'found' || found.matched[fn] === 1)) rows.push(fn);
  }
  const usual = (a: number, b: number): number => self[b]! - self[a]! || total[b]! - total[a]! || a - b;
  return Uint32Array.from(rows.sort(order(model, sort, { own: own ?? self, self, total }, usual)));
}

type Order = (a: number, b: number) => number;

function order(model: Model, { column, descending }: FunctionSort, values: Record<'own' | 'self' | 'total', Float64Array>, usual: Order): Order {
  const sign = descending ? -1 : 1;
  if (column === 'own' || column === 'self' || column === 'total') {
    const value = values[column];
    return (a, b) => sign * (value[a]! - value[b]!) || usual(a, b);
  }
  const texts = new Map<number, string>();
  const make = { name: (fn: number) => model.name(fn), crate: (fn: number) => model.crate(fn), kind: (fn: number) => kindWord(model.kind(fn)), place: (fn: number) => model.place(fn) }[column];
  const text = (fn: number): string => {
    let known = texts.get(fn);
    if (known === undefined) texts.set(fn, known = make(fn).slice(0, 1000).toLowerCase());
    return known;
  };
  return (a, b) => {
    const left = text(a), right = text(b);
    // Unknown values come last in both directions.
    if (!left !== !right) return left ? -1 : 1;
    return left === right ? usual(a, b) : left < right ? -sign : sign;
  };
}
