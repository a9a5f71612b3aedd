// The tables of causal profiling in a payload: progress points, targets with their verdicts, and their curves.

import { ascending, isCount, isRecord, NONE, within, type Columns } from './container.ts';

/** Facts about all experiments. */
export interface CausalFacts {
  experiments: number;
  /** Why there are no estimates. */
  refused: string | undefined;
}

/** What progress is, and what is sped up, by their codes. */
export const POINT_KINDS = ['throughput', 'latency', 'whole run'] as const;
export const TARGET_KINDS = ['line', 'function', 'placebo', 'with-callees'] as const;
export const VERDICTS = ['effect', 'none', 'undecided'] as const;

export interface CausalTables {
  causalPoints: { count: number; name: Uint32Array; kind: Uint8Array; file: Uint32Array; line: Uint32Array; visits: Float64Array; baselines: Uint32Array; dropped: Uint32Array };
  /** The targets of each point, best first, the placebo last; sorted by point. */
  causal: {
    count: number; point: Uint32Array; kind: Uint8Array; name: Uint32Array; function: Uint32Array; file: Uint32Array; line: Uint32Array; share: Float64Array;
    verdict: Uint8Array; words: Uint32Array; experiments: Uint32Array;
  };
  /** The effect of each speed-up; sorted by row, then speed-up. */
  causalCurve: { count: number; row: Uint32Array; speedup: Float64Array; effect: Float64Array; low: Float64Array; high: Float64Array; experiments: Uint32Array };
}

export function readCausal(columns: Columns): CausalTables {
  const points = columns.length('causal_points.name'), rows = columns.length('causal.point'), curve = columns.length('causal_curve.row');
  const of = (name: string) => columns.u32(`causal.${name}`, rows, NONE), number = (name: string) => columns.f64(`causal_curve.${name}`, curve, NaN);
  const point = (name: string, missing = NONE) => columns.u32(`causal_points.${name}`, points, missing);
  return {
    causalPoints: {
      count: points, name: point('name'), kind: columns.u8('causal_points.kind', points), file: point('file'), line: point('line', 0),
      visits: columns.f64('causal_points.visits', points, 0), baselines: point('baselines', 0), dropped: point('dropped', 0),
    },
    causal: {
      count: rows, point: of('point'), kind: columns.u8('causal.kind', rows), name: of('name'), function: of('function'), file: of('file'),
      line: columns.u32('causal.line', rows, 0), share: columns.f64('causal.share', rows, 0), verdict: columns.u8('causal.verdict', rows),
      words: of('words'), experiments: columns.u32('causal.experiments', rows, 0),
    },
    causalCurve: {
      count: curve, row: columns.u32('causal_curve.row', curve, NONE), speedup: number('speedup'), effect: number('effect'), low: number('low'), high: number('high'),
      experiments: columns.u32('causal_curve.experiments', curve, 0),
    },
  };
}

/** After this check, nothing can index out of bounds. */
export function checkCausal({ causalPoints, causal, causalCurve }: CausalTables, bounds: { texts: number; functions: number }): void {
  for (const column of ['name', 'file'] as const) within(`causal_points.${column}`, causalPoints[column], bounds.texts, true);
  for (const column of ['name', 'file', 'words'] as const) within(`causal.${column}`, causal[column], bounds.texts, true);
  within('causal.function', causal.function, bounds.functions, true);
  within('causal.point', causal.point, causalPoints.count, false);
  ascending('causal.point', causal.point, causalPoints.count);
  within('causal_curve.row', causalCurve.row, causal.count, false);
  ascending('causal_curve.row', causalCurve.row, causal.count);
}

export function readCausalFacts(given: unknown): CausalFacts | undefined {
  if (!isRecord(given)) return undefined;
  return { experiments: isCount(given.experiments) ? given.experiments : 0, refused: typeof given.refused === 'string' ? given.refused : undefined };
}
