// Decoded changes between two sides: the call paths of both, and the functions (or lines). whyslow computes
// all verdicts; the viewer only displays them.

import { childLists, depths, type CallTree } from '../aggregate.ts';
import { isRecord, NONE, PayloadError, within, damaged, type Columns, type Container } from '../container.ts';
import { recordsOf, textOf, textsOf } from '../headervalues.ts';
import type { Model } from '../model.ts';
import { readRemarks, type Remark } from '../remarks.tsx';
import { without } from './fold.ts';

/** Both values of each row, and the statistics of their difference. NaN where something is not known. */
export interface ChangeTable {
  before: Float64Array;
  after: Float64Array;
  /** Half of the 95 % confidence interval of the difference. */
  margin: Float64Array;
  /** After over before, from several runs, with the ends of its 95 % confidence interval and the q-value. */
  ratio: Float64Array;
  low: Float64Array;
  high: Float64Array;
  q: Float64Array;
  /** Rows of `verdicts`. */
  verdict: Uint8Array;
}

/** One row of such a table. */
export type Change = Record<keyof ChangeTable, number>;

export interface Side { files: readonly string[]; command: string }
export interface Total extends Change { what: string; unit: number }

export const SIDES = ['both', 'before', 'after'] as const;
/** The width of frames: the larger of both sides, or one side alone. */
export type Width = (typeof SIDES)[number];

export interface Changes {
  /** The answer in one paragraph, and what the numbers are based on. */
  answer: string;
  worth: string;
  metric: string;
  unit: number;
  runs: number;
  rowsAre: 'functions' | 'lines';
  before: Side;
  after: Side;
  remarks: readonly Remark[];
  totals: readonly Total[];
  verdicts: readonly string[];
  /** What the colours mean, from much less to much more. */
  colours: readonly string[];
  /** Call paths; each is as wide as the larger of both sides. The children of each come widest first. */
  tree: CallTree;
  /** For each path: its colour, the change at its end, and the change including everything below. */
  colour: Uint8Array;
  pathOwn: ChangeTable;
  pathTotal: ChangeTable;
  rows: {
    count: number;
    /** Functions of the model. */
    fn: Uint32Array;
    /** 0 in both, 1 only before, 2 only after. */
    seen: Uint8Array;
    place: readonly string[];
    own: ChangeTable;
    /** Including what a function calls; lines have none. */
    total: ChangeTable | undefined;
  };
}

const NAMES = ['before', 'after', 'margin', 'ratio', 'low', 'high', 'q'] as const;

export function changeAt(table: ChangeTable, row: number): Change {
  const of = (name: keyof ChangeTable): number => table[name][row]!;
  return { before: of('before'), after: of('after'), margin: of('margin'), ratio: of('ratio'), low: of('low'), high: of('high'), q: of('q'), verdict: of('verdict') };
}

/** Reads the part of a container that describes changes; `model` has its functions and texts. */
export function decodeChanges({ header, columns }: Container, model: Model): Changes {
  const head = isRecord(header.diff) ? header.diff : {};
  const nodes = columns.length('paths.parent'), rows = columns.length('rows.function');
  const verdicts = textsOf(head.verdicts), colours = textsOf(head.colours);
  const file = columns.u32('rows.file', rows, NONE), line = columns.u32('rows.line', rows, 0), fn = columns.u32('rows.function', rows, NONE);
  within('rows.function', fn, model.profile.functions.count, true);
  within('rows.file', file, model.profile.strings.ends.length, true);
  return {
    answer: textOf(head.answer), worth: textOf(head.worth), metric: textOf(head.metric), unit: number(head.unit) || 0, runs: number(head.runs) || 1,
    rowsAre: head.rows_are === 'lines' ? 'lines' : 'functions',
    before: side(head.before), after: side(head.after),
    remarks: readRemarks(head.remarks),
    totals: recordsOf(head.totals).map(total),
    verdicts, colours,
    tree: readTree(columns, nodes, model),
    colour: columns.u8('paths.colour', nodes),
    pathOwn: readTable(columns, 'paths_own', nodes), pathTotal: readTable(columns, 'paths_total', nodes),
    rows: {
      count: rows, fn: fn.map(of => (of === NONE ? model.unknown : of)), seen: columns.u8('rows.seen', rows),
      place: Array.from(file, (of, row) => (of === NONE ? '' : model.text(of) + (line[row] ? `:${line[row]}` : ''))),
      own: readTable(columns, 'rows_own', rows),
      total: columns.has('rows_total.before') ? readTable(columns, 'rows_total', rows) : undefined,
    },
  };
}

/** A tree of the paths, folded or whole, with the values of one side. Frames missing on that side have none. */
export function treeOf(tree: CallTree & { inside?: Uint8Array }, { pathOwn, pathTotal }: Changes, width: Width): CallTree {
  if (width === 'both') return tree;
  const values = (of: Float64Array): Float64Array => (tree.inside ? without(of, tree.inside) : of);
  return { ...tree, self: values(pathOwn[width]), total: values(pathTotal[width]) };
}

function readTree(columns: Columns, nodes: number, model: Model): CallTree {
  if (!nodes) throw new PayloadError('The comparison in this page is damaged: it has no call paths.');
  const parent = columns.u32('paths.parent', nodes, 0), fn = columns.u32('paths.function', nodes, NONE);
  within('paths.function', fn, model.profile.functions.count, true);
  for (let node = 0; node < nodes; node++) if (parent[node]! >= Math.max(1, node)) throw damaged('paths.parent', node);
  const total = columns.f64('paths.total', nodes, 0), { firstChild, children } = childLists(parent);
  for (let node = 0; node < nodes; node++) children.subarray(firstChild[node]!, firstChild[node + 1]!).sort((a, b) => total[b]! - total[a]! || a - b);
  return {
    parent, fn: fn.map((of, node) => (node === 0 ? model.root : of === NONE ? model.unknown : of)), inlined: columns.u8('paths.inlined', nodes), depth: depths(parent),
    firstChild, children, self: columns.f64('paths.self', nodes, 0), total,
  };
}

function readTable(columns: Columns, table: string, count: number): ChangeTable {
  const [before, after, margin, ratio, low, high, q] = NAMES.map(name => columns.f64(`${table}.${name}`, count, NaN));
  return { before: before!, after: after!, margin: margin!, ratio: ratio!, low: low!, high: high!, q: q!, verdict: columns.u8(`${table}.verdict`, count) };
}

function total(of: Record<string, unknown>): Total {
  const [ratio = NaN, low = NaN, high = NaN] = Array.isArray(of.ratio) ? of.ratio.map(number) : [];
  return { what: textOf(of.what), unit: number(of.unit) || 0, before: number(of.before), after: number(of.after), margin: number(of.margin), ratio, low, high, q: NaN, verdict: number(of.verdict) || 0 };
}

function side(of: unknown): Side {
  const { files, command } = isRecord(of) ? of : {};
  return { files: textsOf(files), command: textsOf(command).join(' ') };
}

const number = (value: unknown): number => (typeof value === 'number' ? value : NaN);
