// Findings as the panel shows them: their texts, their lines, and the frames of the flame graph that show
// them. whyslow computes them; the viewer only displays them.

import { addUp, type Shape } from './aggregate.ts';
import { share } from './format.ts';
import { codeAt } from './instructions.ts';
import type { Model } from './model.ts';
import { clean } from './names.ts';
import { NONE } from './payload.ts';
import type { State } from './state.ts';

/** A line of code; undefined or NONE where it is not known. */
export interface FindingPlace { fn: number | undefined; file: number; line: number }

export interface FindingEvidence extends FindingPlace { text: string; share: number | undefined }

export interface Finding extends FindingPlace {
  row: number;
  id: string;
  title: string;
  /** The whole that the share refers to: `CPU time`. */
  of: string;
  share: number;
  low: number;
  high: number;
  confidence: string;
  advice: string;
  verify: string;
  /** What a change can gain, in words; undefined where the finding is not about time. */
  gain: string | undefined;
  evidence: FindingEvidence[];
  /** The source line in the profile. */
  source: string | undefined;
  /** Whether stacks show it. */
  hasFrames: boolean;
  /** Whether the profile has machine code for its line. */
  hasCode: boolean;
}

const number = (value: number): number | undefined => (Number.isNaN(value) ? undefined : value);

/** All findings, largest possible gain first. */
export function findingsOf(model: Model): Finding[] {
  const { findings, findingEvidence, findingStacks } = model.profile;
  const place = (table: { function: Uint32Array; file: Uint32Array; line: Uint32Array }, row: number): FindingPlace =>
    ({ fn: table.function[row] === NONE ? undefined : model.sameAs[table.function[row]!]!, file: table.file[row]!, line: table.line[row]! });
  const shown = new Uint8Array(findings.count);
  for (const row of findingStacks.finding) shown[row] = 1;
  const evidence: FindingEvidence[][] = Array.from({ length: findings.count }, () => []);
  for (let row = 0; row < findingEvidence.count; row++) {
    evidence[findingEvidence.finding[row]!]!.push({ text: model.text(findingEvidence.text[row]!), share: number(findingEvidence.share[row]!), ...place(findingEvidence, row) });
  }
  const places = Array.from({ length: findings.count }, (_, row) => place(findings, row));
  const sources = sourceLines(model, places), coded = linesWithCode(model, places);
  return places.map((at, row) => ({
    row, ...at,
    id: model.text(findings.id[row]!), title: model.text(findings.title[row]!), of: model.text(findings.of[row]!), confidence: model.text(findings.confidence[row]!),
    advice: model.text(findings.advice[row]!), verify: model.text(findings.verify[row]!),
    share: findings.share[row]!, low: findings.low[row]!, high: findings.high[row]!, gain: (findings.gain[row] !== NONE && model.text(findings.gain[row]!)) || undefined,
    // Evidence at the finding's own line is already shown above.
    evidence: evidence[row]!.filter(one => one.fn === undefined || keyOf(one) !== keyOf(at)),
    source: sources.get(`${at.file} ${at.line}`), hasFrames: shown[row] === 1, hasCode: coded.has(keyOf(at)),
  }));
}

/** What findings are about, as bits of a column. */
export const TOPIC = { waits: 1, tasks: 2, parallelism: 4, syscalls: 8 } as const;

/** `40.0 % of elapsed time: one thread works while all others wait for it, in app::parse (app.rs:12)`, for each finding about a topic. */
export function findingsAbout(model: Model, topic: number): string[] {
  const { findings } = model.profile, found: string[] = [];
  for (let row = 0; row < findings.count; row++) {
    if ((findings.topics[row]! & topic) === 0) continue;
    const fn = findings.function[row]!, path = findings.file[row] === NONE ? '' : model.text(findings.file[row]!), line = findings.line[row]!;
    const place = path && ` (${path.slice(path.lastIndexOf('/') + 1)}${line ? `:${line}` : ''})`;
    const where = fn === NONE ? '' : `, in ${model.name(model.sameAs[fn]!)}${place}`;
    found.push(`${share(findings.share[row]!, 1)} of ${model.text(findings.of[row]!)}: ${model.text(findings.title[row]!)}${where}`);
  }
  return found;
}

const keyOf = ({ fn, file, line }: FindingPlace): string => `${fn} ${file} ${line}`;

/** Source lines in the profile, by file and line. */
function sourceLines(model: Model, places: readonly FindingPlace[]): Map<string, string> {
  const { sources } = model.profile, found = new Map<string, string>();
  const wanted = new Set(places.filter(({ file, line }) => file !== NONE && line > 0).map(({ file, line }) => `${file} ${line}`));
  const files = new Set(places.map(({ file }) => file));
  for (let row = 0; row < sources.count; row++) {
    const key = files.has(sources.file[row]!) ? `${sources.file[row]} ${sources.line[row]}` : '';
    if (wanted.has(key)) found.set(key, model.text(sources.text[row]!).replaceAll('\\u{9}', ' ').trim());
  }
  return found;
}

/** The lines that have a sampled address in recorded machine code. */
function linesWithCode(model: Model, places: readonly FindingPlace[]): Set<string> {
  const { locations, frames } = model.profile, found = new Set<string>();
  const wanted = new Set(places.filter(({ fn, file }) => fn !== undefined && file !== NONE).map(keyOf));
  const functions = new Set(places.map(({ fn }) => fn));
  for (let location = 0; location < locations.count; location++) {
    for (let frame = locations.frames[location]!; frame < locations.frames[location + 1]!; frame++) {
      const fn = model.sameAs[frames.function[frame]!]!;
      if (!functions.has(fn)) continue;
      const key = keyOf({ fn, file: frames.file[frame]!, line: frames.line[frame]! });
      if (wanted.has(key) && !found.has(key) && codeAt(model.profile, locations.module[location]!, locations.address[location]!) >= 0) found.add(key);
    }
  }
  return found;
}

/** The summary of the whole profile, safe to show. */
export const shapeWords = (model: Model): string => clean(model.profile.explained?.shape ?? '');

/** 1 for each frame that only has samples of a finding. `weights` is the weight of each stack. */
export function framesOf(model: Model, shape: Shape, weights: Float64Array, finding: number): Uint8Array {
  const { findingStacks } = model.profile;
  const own = new Float64Array(weights.length);
  for (let row = 0; row < findingStacks.count; row++) {
    const stack = findingStacks.stack[row]!;
    if (findingStacks.finding[row] === finding) own[stack] = weights[stack]!;
  }
  const all = addUp(shape, weights).total, part = addUp(shape, own).total;
  // Sums in a different order differ in their last digits.
  return Uint8Array.from(all, (total, node) => (node > 0 && total > 0 && part[node]! >= total * (1 - 1e-9) ? 1 : 0));
}

/** The outermost of the highlighted frames, heaviest first. */
export function outermostFrames(parent: Uint32Array, total: Float64Array, marked: Uint8Array): number[] {
  const found: number[] = [];
  for (let node = 1; node < marked.length; node++) if (marked[node] && !marked[parent[node]!] && total[node]! > 0) found.push(node);
  return found.sort((a, b) => total[b]! - total[a]! || a - b);
}

/** The view that shows the frames of a finding: the flame graph of callees, in the finding's metric. */
export function toFrames(model: Model, finding: Finding): Partial<State> {
  const metric = model.profile.findings.metric[finding.row]!;
  return { tab: 'flame', finding: finding.row, search: '', inverted: false, zoom: [], ...(metric === NONE ? {} : { metric }), ...(finding.fn === undefined ? {} : { fn: finding.fn }) };
}

const KEY = 'source-line';

/** The view that shows the source line of a finding; undefined where the line is not known. */
export function toLine(model: Model, state: State, { row, fn, file, line }: Finding): Partial<State> | undefined {
  if (fn === undefined || fn >= model.profile.functions.count || file === NONE || line === 0) return undefined;
  const metric = model.profile.findings.metric[row]!;
  return { tab: 'source', fn, ...(metric === NONE ? {} : { metric }), panel: wantLine(state, fn, file, line) };
}

/** The panel settings that make the source panel show a line of a function. */
export const wantLine = (state: State, fn: number, file: number, line: number): State['panel'] => ({ ...state.panel, [KEY]: [fn, file, line].join('.') });

/** The line that the source panel was asked to show, if it belongs to the selected function. */
export function wantedLine({ fn, panel }: State): { file: number; line: number } | undefined {
  const [of, file, line] = (panel[KEY] ?? '').split('.').map(Number);
  return of === fn && file !== undefined && line !== undefined && file >= 0 && line > 0 ? { file, line } : undefined;
}
