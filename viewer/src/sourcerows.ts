// The rows of a source listing: the lines in the profile, with gaps marked, and the cost of each line of the
// function.

import type { FunctionCosts } from './lines.ts';
import type { Model } from './model.ts';
import { NONE } from './payload.ts';

export interface SourceRow {
  /** The line; 0 for a gap or an unknown line. */
  line: number;
  text: string | undefined;
  /** Row of `FunctionCosts.lines`, or -1 when no sample is at this line. */
  cost: number;
  isGap: boolean;
}

const files = new WeakMap<Model, Map<number, number[]>>();

/** Rows of the source table per file. */
function rowsOfFile(model: Model, file: number): readonly number[] {
  let known = files.get(model);
  if (!known) {
    files.set(model, known = new Map());
    const { sources } = model.profile;
    for (let row = 0; row < sources.count; row++) {
      const rows = known.get(sources.file[row]!);
      if (rows) rows.push(row);
      else known.set(sources.file[row]!, [row]);
    }
  }
  return known.get(file) ?? [];
}

/** When the profile has much of the file, lines further than this from one with samples become a gap. */
const AROUND = 400;

export function sourceRows(model: Model, costs: FunctionCosts, file: number): SourceRow[] {
  const { sources } = model.profile;
  const costOf = new Map<number, number>();
  costs.lines.forEach((line, at) => { if (line.file === file && line.total > 0) costOf.set(line.line, at); });
  const lines = new Map<number, string | undefined>();
  for (const line of costOf.keys()) lines.set(line, undefined);
  if (file !== NONE && costOf.size > 0) {
    const known = [...costOf.keys()].filter(line => line > 0);
    const first = Math.min(...known) - AROUND, last = Math.max(...known) + AROUND;
    for (const row of rowsOfFile(model, file)) {
      const line = sources.line[row]!;
      if (line >= first && line <= last) lines.set(line, model.text(sources.text[row]!));
    }
  }
  const rows: SourceRow[] = [];
  let before = 0;
  for (const line of [...lines.keys()].sort((a, b) => a - b)) {
    if (before > 0 && line > before + 1) rows.push({ line: 0, text: undefined, cost: -1, isGap: true });
    rows.push({ line, text: lines.get(line), cost: costOf.get(line) ?? -1, isGap: false });
    before = line;
  }
  return rows;
}

/**
 * Rows of `costs.lines` by total cost, most first, in all files. Ties go to the function's own file, then to
 * the higher self cost. Lines below 1/200 of the function are left out.
 */
export function hotLines(costs: FunctionCosts, ownFile: number): number[] {
  const least = costs.whole.total / 200;
  const line = (row: number) => costs.lines[row]!;
  return costs.lines.map((_, row) => row)
    .filter(row => line(row).file !== NONE && line(row).total > 0 && line(row).total >= least)
    .sort((a, b) => line(b).total - line(a).total || Number(line(b).file === ownFile) - Number(line(a).file === ownFile) || line(b).self - line(a).self || a - b);
}
