// The finding tables of a payload: findings, their evidence, and the stacks that show them.

import { isCount, isRecord, NONE, within, type Columns } from './container.ts';

/** The summary of the whole profile. */
export interface ExplainedFacts {
  /** A sentence that describes the profile and the next step. */
  shape: string;
  /** How many findings are not shown because the user allowed them. */
  allowed: number;
}

export interface FindingTables {
  findings: {
    count: number; id: Uint32Array; title: Uint32Array; of: Uint32Array; confidence: Uint32Array; advice: Uint32Array; verify: Uint32Array; gain: Uint32Array;
    share: Float64Array; low: Float64Array; high: Float64Array;
    /** The metric that shows it, or NONE. */
    metric: Uint32Array;
    /** A bit for each topic that it is about. */
    topics: Uint32Array;
    function: Uint32Array; file: Uint32Array; line: Uint32Array;
  };
  findingEvidence: { count: number; finding: Uint32Array; text: Uint32Array; share: Float64Array; function: Uint32Array; file: Uint32Array; line: Uint32Array };
  findingStacks: { count: number; finding: Uint32Array; stack: Uint32Array };
}

export function readFindings(columns: Columns): FindingTables {
  const count = columns.length('findings.id'), evidence = columns.length('finding_evidence.finding'), stacks = columns.length('finding_stacks.finding');
  const u32 = (name: string, rows: number, missing = NONE) => columns.u32(name, rows, missing);
  const of = (name: string) => u32(`findings.${name}`, count), number = (name: string) => columns.f64(`findings.${name}`, count, NaN);
  const place = (table: string, rows: number) => ({
    function: u32(`${table}.function`, rows), file: u32(`${table}.file`, rows), line: u32(`${table}.line`, rows, 0),
  });
  return {
    findings: {
      count, id: of('id'), title: of('title'), of: of('of'), confidence: of('confidence'), advice: of('advice'), verify: of('verify'), gain: of('gain'),
      share: number('share'), low: number('low'), high: number('high'), metric: of('metric'), topics: u32('findings.topics', count, 0), ...place('findings', count),
    },
    findingEvidence: {
      count: evidence, finding: u32('finding_evidence.finding', evidence), text: u32('finding_evidence.text', evidence),
      share: columns.f64('finding_evidence.share', evidence, NaN), ...place('finding_evidence', evidence),
    },
    findingStacks: { count: stacks, finding: u32('finding_stacks.finding', stacks), stack: u32('finding_stacks.stack', stacks) },
  };
}

/**
 * After this check, nothing can index out of bounds. `named` counts the functions plus the stand-ins for
 * code without symbols.
 */
export function checkFindings({ findings, findingEvidence, findingStacks }: FindingTables, bounds: { texts: number; named: number; metrics: number; stacks: number }): void {
  for (const column of ['id', 'title', 'of', 'confidence', 'advice', 'verify', 'gain', 'file'] as const) within(`findings.${column}`, findings[column], bounds.texts, true);
  within('findings.function', findings.function, bounds.named, true);
  within('findings.metric', findings.metric, bounds.metrics, true);
  within('finding_evidence.finding', findingEvidence.finding, findings.count, false);
  within('finding_evidence.text', findingEvidence.text, bounds.texts, true);
  within('finding_evidence.function', findingEvidence.function, bounds.named, true);
  within('finding_evidence.file', findingEvidence.file, bounds.texts, true);
  within('finding_stacks.finding', findingStacks.finding, findings.count, false);
  within('finding_stacks.stack', findingStacks.stack, bounds.stacks, false);
}

export function readExplained(explained: unknown): ExplainedFacts | undefined {
  if (!isRecord(explained)) return undefined;
  return { shape: typeof explained.shape === 'string' ? explained.shape : '', allowed: isCount(explained.allowed) ? explained.allowed : 0 };
}
