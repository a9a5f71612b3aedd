// Decoded results of `whyslow bench`. whyslow computes all verdicts; the viewer only displays them.

import { isCount, isRecord, PayloadError, type Container } from '../container.ts';
import { recordsOf, textOf, textsOf } from '../headervalues.ts';
import { readRemarks, type Remark } from '../remarks.tsx';

export interface Answer { verdict: string; sentence: string; basis: string }
export interface Command { name: string; command: string }

export interface Comparison {
  baseline: number;
  candidate: number;
  /** Candidate over baseline, and the ends of its interval; undefined where they are not known. */
  ratio: number | undefined;
  low: number | undefined;
  high: number | undefined;
  /** The same as text. */
  words: string;
  pairs: number;
  verdict: string;
  /** The ratio of each pair. */
  dots: readonly number[];
}

export interface Summary { median: number; mean: number; deviation: number; least: number; most: number }

export interface Metric {
  name: string;
  unit: number;
  /** Whether this is the metric that decides. */
  decides: boolean;
  /** Per command its runs by round; undefined where a run has no value. */
  runs: readonly (readonly (number | undefined)[])[];
  summaries: readonly (Summary | undefined)[];
  comparisons: readonly Comparison[];
}

export interface Results {
  file: string;
  answers: readonly Answer[];
  /** Further sentences. */
  more: readonly string[];
  commands: readonly Command[];
  margin: number;
  /** Seconds since 1970; 0 unknown. */
  began: number;
  cpu: string;
  machine: string;
  remarks: readonly Remark[];
  metrics: readonly Metric[];
}

export function decodeResults({ header }: Container): Results {
  const head = isRecord(header.bench) ? header.bench : {};
  const commands = recordsOf(head.commands).map(({ name, command }) => ({ name: textOf(name), command: textOf(command) }));
  return {
    file: textOf(head.file), margin: number(head.margin) ?? 0, began: number(head.began_unix_s) ?? 0, cpu: textOf(head.cpu), machine: textOf(head.machine), commands,
    answers: recordsOf(head.answers).map(({ verdict, sentence, basis }) => ({ verdict: textOf(verdict), sentence: textOf(sentence), basis: textOf(basis) })),
    more: textsOf(head.more),
    remarks: readRemarks(head.remarks),
    metrics: recordsOf(head.metrics).map(metric => readMetric(metric, commands.length)),
  };
}

function readMetric(of: Record<string, unknown>, commands: number): Metric {
  const rows = (value: unknown): unknown[] => Array.from({ length: commands }, (_, command) => (Array.isArray(value) ? value[command] : undefined));
  return {
    name: textOf(of.name), unit: number(of.unit) ?? 0, decides: of.decides === true,
    runs: rows(of.runs).map(runs => (Array.isArray(runs) ? runs.map(number) : [])),
    summaries: rows(of.summaries).map(readSummary),
    comparisons: recordsOf(of.comparisons).map(comparison => readComparison(comparison, commands)),
  };
}

function readSummary(of: unknown): Summary | undefined {
  if (!Array.isArray(of)) return undefined;
  const [median, mean, deviation, least, most] = of.map(number);
  return median === undefined || least === undefined || most === undefined ? undefined : { median, mean: mean ?? median, deviation: deviation ?? 0, least, most };
}

function readComparison(of: Record<string, unknown>, commands: number): Comparison {
  const { baseline, candidate } = of;
  if (!isCount(baseline) || !isCount(candidate) || baseline >= commands || candidate >= commands) throw new PayloadError('The results in this page are damaged: a comparison names a command that does not exist.');
  return {
    baseline, candidate, ratio: number(of.ratio), low: number(of.low), high: number(of.high), words: textOf(of.words), pairs: number(of.pairs) ?? 0, verdict: textOf(of.verdict),
    dots: Array.isArray(of.dots) ? of.dots.map(number).filter(dot => dot !== undefined) : [],
  };
}

const number = (value: unknown): number | undefined => (typeof value === 'number' && Number.isFinite(value) ? value : undefined);
