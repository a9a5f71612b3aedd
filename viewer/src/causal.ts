// Causal profiling as the panel shows it: the targets of each progress point with their curves. whyslow computes them;
// the viewer only displays them.

import { POINT_KINDS, TARGET_KINDS, VERDICTS } from './causaltables.ts';
import { wantLine } from './findings.ts';
import type { Model } from './model.ts';
import { clean } from './names.ts';
import { NONE } from './payload.ts';
import type { State } from './state.ts';

/** The effect of one speed-up, as shares of 1. */
export interface CurvePoint { speedup: number; effect: number; low: number; high: number; experiments: number }

export interface CausalRow {
  row: number;
  /** The function, or what it is where that is not known. */
  name: string;
  /** `src/main.rs:12`; empty where it is not known. */
  place: string;
  fn: number | undefined;
  file: number;
  line: number;
  kind: (typeof TARGET_KINDS)[number];
  share: number;
  verdict: (typeof VERDICTS)[number];
  /** The answer in words. */
  words: string;
  experiments: number;
  curve: CurvePoint[];
}

export interface CausalPoint { point: number; name: string; kind: (typeof POINT_KINDS)[number]; visits: number; baselines: number; dropped: number; rows: CausalRow[] }

/** All progress points with their targets, best first. */
export function causalPoints(model: Model): CausalPoint[] {
  const { causalPoints: points, causal, causalCurve: curve } = model.profile;
  const curves: CurvePoint[][] = Array.from({ length: causal.count }, () => []);
  for (let at = 0; at < curve.count; at++) {
    curves[curve.row[at]!]!.push({ speedup: curve.speedup[at]!, effect: curve.effect[at]!, low: curve.low[at]!, high: curve.high[at]!, experiments: curve.experiments[at]! });
  }
  const rows: CausalRow[][] = Array.from({ length: points.count }, () => []);
  for (let row = 0; row < causal.count; row++) {
    const kind = TARGET_KINDS[causal.kind[row]!] ?? 'line', place = placeOf(model, causal.file[row]!, causal.line[row]!);
    rows[causal.point[row]!]!.push({
      row, kind, place, name: kind === 'placebo' ? 'placebo' : textOf(model, causal.name[row]!), fn: causal.function[row] === NONE ? undefined : model.sameAs[causal.function[row]!]!,
      file: causal.file[row]!, line: causal.line[row]!, share: causal.share[row]!, verdict: VERDICTS[causal.verdict[row]!] ?? 'undecided',
      words: textOf(model, causal.words[row]!), experiments: causal.experiments[row]!, curve: curves[row]!,
    });
  }
  return rows.map((rows, point) => ({
    point, rows, name: textOf(model, points.name[point]!), kind: POINT_KINDS[points.kind[point]!] ?? 'throughput',
    visits: points.visits[point]!, baselines: points.baselines[point]!, dropped: points.dropped[point]!,
  }));
}

const textOf = (model: Model, text: number): string => (text === NONE ? '' : model.text(text));

const placeOf = (model: Model, file: number, line: number): string => (file === NONE ? '' : model.text(file) + (line ? `:${line}` : ''));

/** Why there are no estimates, safe to show; undefined where there are. */
export const refusal = (model: Model): string | undefined => model.profile.causalFacts?.refused && clean(model.profile.causalFacts.refused);

/** The view that shows the source line of a target; undefined where the line is not known. */
export function toSource(model: Model, state: State, { fn, file, line }: CausalRow): Partial<State> | undefined {
  if (fn === undefined || fn >= model.profile.functions.count || file === NONE || line === 0) return undefined;
  return { tab: 'source', fn, panel: wantLine(state, fn, file, line) };
}

/** The view that shows the function of a target in the flame graph; undefined where it has no samples. */
export const toFlame = ({ fn }: CausalRow): Partial<State> | undefined => (fn === undefined ? undefined : { tab: 'flame', fn, search: '', inverted: false, zoom: [] });
