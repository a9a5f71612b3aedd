// A decoded profile with what all panels need: texts, and one numbered list of everything that can be a
// frame.

import { ELAPSED_TIME, withElapsed } from './elapsed.ts';
import { LIVE_COUNTER, OF_HEAP, RESIDENT_COUNTER, withLive } from './live.ts';
import { clean } from './names.ts';
import { NONE, type Profile } from './payload.ts';

/** Kinds of code: the codes of PAYLOAD.md. */
export const KIND = { unknown: 0, yours: 1, dependency: 2, std: 3, allocator: 4, kernel: 5, runtime: 6 } as const;

/** The code of `ModuleKind` for time without samples. */
const NOT_SAMPLED = 6;
/** The code of `ModuleKind` for recursive calls that are left out of deep stacks. */
const LEFT_OUT = 9;

const saysNothing = (role: string): boolean => role === 'panic-catching' || role === 'plumbing';
const starts = (role: string): boolean => role === 'start-up' || role === 'thread-start';

/**
 * Functions as panels see them, numbered from 0. After the functions of the profile come: one per module
 * (its code without symbols), `[unknown]`, `[truncated stack]`, the root "all", one per group of generic
 * instances (used only when instances are merged), one per family of carriers (stands for its folded
 * frames), and `[not in your code]`.
 */
export class Model {
  readonly profile: Profile;
  /** The number of functions, including all of the above. */
  readonly functionCount: number;
  readonly unknown: number;
  readonly truncated: number;
  readonly root: number;
  /** Stands for stacks without the user's code, when only that is shown. */
  readonly others: number;
  /** Functions that look the same to the user (same name, file and line) are one: the first of them. */
  readonly sameAs: Uint32Array;
  /** Function → the function of all its generic instances; itself when it has none. */
  readonly generic: Uint32Array;
  /** The end of the recording, in nanoseconds. */
  readonly duration: number;
  /** Whether the profile has timestamps: imported stacks often have none. */
  readonly timed: boolean;
  /**
   * The metric of live bytes, when the profile has a heap timeline, and the metric with the samples to show
   * instead.
   */
  readonly live: number | undefined;
  private readonly allocated: number | undefined;
  /** The metric of elapsed time, where the number of running threads is known for each sample. */
  readonly elapsed: number | undefined;
  /** 1 for each stack that stands for time without samples; undefined when there is none. */
  readonly notSampled: Uint8Array | undefined;
  /** Names that several threads share. */
  private readonly sharedNames: ReadonlySet<number>;
  private readonly decoder = new TextDecoder();
  private readonly texts: (string | undefined)[];
  private readonly names: (string | undefined)[];
  private ranks: Uint32Array | undefined;
  private readonly groupNames: string[] = [];
  private readonly groupMember: number[] = [];

  constructor(read: Profile) {
    this.texts = new Array<string | undefined>(read.strings.ends.length);
    this.profile = read;
    const { profile: withHeap, live, allocated } = withLive(read, metric => this.text(read.metrics.name[metric]!));
    const { profile, elapsed } = withElapsed(withHeap);
    this.profile = profile;
    this.elapsed = elapsed;
    this.live = live;
    this.allocated = allocated;
    const { functions, modules } = profile;
    this.unknown = functions.count + modules.count;
    this.truncated = this.unknown + 1;
    this.root = this.unknown + 2;
    this.sameAs = Uint32Array.from({ length: this.root + 1 }, (_, at) => functions.same[at] ?? at);
    this.generic = this.findGenerics();
    this.others = this.root + 1 + this.groupNames.length + profile.carriers.length;
    this.functionCount = this.others + 1;
    this.names = new Array<string | undefined>(this.functionCount);
    this.duration = this.findDuration();
    this.notSampled = this.findNotSampled();
    this.sharedNames = twice(profile.threads.name);
    this.timed = profile.samples.some(({ time }) => time.length > 0 && time[time.length - 1]! > 0) || profile.spans.count > 0 || profile.counterValues.count > 0;
  }

  /** A text of the profile, safe to show; empty for NONE. */
  text(id: number): string {
    if (id === NONE) return '';
    return this.texts[id] ??= clean(this.rawText(id));
  }

  /** The full name of a function. */
  name(fn: number): string {
    return this.names[fn] ??= this.findName(fn);
  }

  /** The most specific part of the name, for where the full name does not fit. */
  short(fn: number): string {
    const of = this.member(fn), { functions } = this.profile;
    return of < functions.count ? this.text(functions.short[of]!) || this.name(fn) : this.name(fn);
  }

  /** The position of each function in alphabetical order. */
  nameRanks(): Uint32Array {
    return this.ranks ??= this.findRanks();
  }

  kind(fn: number): number {
    const { functions, modules } = this.profile;
    const of = this.member(fn);
    if (of < functions.count) return functions.kind[of]!;
    if (of < this.unknown) {
      const kind = modules.kind[of - functions.count]!;
      return kind === 3 ? KIND.kernel : kind === 4 ? KIND.runtime : KIND.unknown;
    }
    return of > this.root && of < this.others ? KIND.runtime : KIND.unknown;
  }

  /** Whether a function is one, or a family of carriers: code without a symbol may be several functions. */
  isFunction(fn: number): boolean {
    return fn < this.profile.functions.count || fn > this.root;
  }

  /** Whether a function stands for recursive calls that are left out of deep stacks. */
  isLeftOut(fn: number): boolean {
    const { functions, modules } = this.profile;
    return fn >= functions.count && fn < this.unknown && modules.kind[fn - functions.count] === LEFT_OUT;
  }

  /** The crate's name; empty when unknown. */
  crate(fn: number): string {
    const of = this.member(fn);
    return of < this.profile.functions.count ? this.text(this.profile.functions.crate[of]!) : '';
  }

  /** The module (row of `modules`) or NONE. */
  moduleOf(fn: number): number {
    const { functions } = this.profile;
    const of = this.member(fn);
    if (of < functions.count) return functions.module[of]!;
    return of < this.unknown ? of - functions.count : NONE;
  }

  /** The last part of a module's path. */
  moduleName(module: number): string {
    const path = module === NONE ? '' : this.text(this.profile.modules.path[module]!);
    return path.startsWith('[') ? path : path.slice(path.lastIndexOf('/') + 1);
  }

  /** `src/main.rs:12`; empty when unknown. */
  place(fn: number): string {
    const { functions } = this.profile;
    const of = this.member(fn);
    if (of >= functions.count || functions.file[of] === NONE) return '';
    const line = functions.line[of]!;
    return this.text(functions.file[of]!) + (line ? `:${line}` : '');
  }

  /** The code of the unit of a metric: 0 count, 1 nanoseconds, 2 bytes. */
  unit(metric: number): number {
    return this.profile.metrics.unit[metric] ?? 0;
  }

  metricName(metric: number): string {
    if (metric === this.live) return 'live';
    if (metric === this.elapsed) return ELAPSED_TIME;
    return this.text(this.profile.metrics.name[metric] ?? NONE) || `metric ${metric + 1}`;
  }

  /** Whether a metric is about the heap: its samples are sums of many allocations. */
  isHeapMetric(metric: number): boolean {
    return this.profile.metrics.of[metric] === OF_HEAP;
  }

  /**
   * Whether each row of a metric is one sample; otherwise its values were counted. A profile without a
   * metric has no samples.
   */
  isSampled(metric: number): boolean {
    return this.profile.metrics.sampled[metric] !== 0;
  }

  /** The metric whose samples are drawn over time: live bytes are a sum over all the time before. */
  drawn(metric: number): number {
    return metric === this.live ? this.allocated ?? metric : metric;
  }

  /** The name of a counter, with its process if several processes have one of that name. */
  counterName(counter: number): string {
    const { counters } = this.profile;
    const name = this.text(counters.name[counter]!), process = counters.process[counter]!;
    const shown = { [LIVE_COUNTER]: 'live heap', [RESIDENT_COUNTER]: 'resident set' }[name] ?? name;
    const isOne = counters.name.filter(other => other === counters.name[counter]).length === 1;
    return isOne || process === NONE ? shown : `${shown} · ${this.processName(process)}`;
  }

  /** The time of the heap's peak, for its counter; undefined for other counters. */
  peakOf(counter: number): number | undefined {
    return this.text(this.profile.counters.name[counter]!) === LIVE_COUNTER ? this.profile.heapFacts?.peakTime : undefined;
  }

  /** The name of a thread, with its number if several threads share the name. */
  threadName(thread: number): string {
    const { threads } = this.profile;
    if (thread >= threads.count) return 'all threads';
    const name = this.text(threads.name[thread]!);
    if (!name) return `thread ${threads.tid[thread]}`;
    return this.sharedNames.has(threads.name[thread]!) ? `${name} ${threads.tid[thread]}` : name;
  }

  processName(process: number): string {
    const { processes } = this.profile;
    return process < processes.count ? this.text(processes.name[process]!) || `process ${processes.pid[process]}` : 'unknown process';
  }

  /** A function of the profile that represents a group of generic instances; any other function itself. */
  member(fn: number): number {
    return this.groupMember[fn - this.root - 1] ?? fn;
  }

  /**
   * The family of a carrier (a function that only carries other code): a row of `carriers`; -1 for other
   * functions.
   */
  carrier(fn: number): number {
    const of = this.member(fn);
    return of < this.profile.functions.count ? this.profile.functions.carrier[of]! - 1 : -1;
  }

  /** The function that stands for a family of carriers. */
  carrierFunction(family: number): number {
    return this.root + 1 + this.groupNames.length + family;
  }

  /** `[thread start, rayon: 31 frames]`, for folded frames of these families. */
  foldName(families: number, frames: number): string {
    const present = this.profile.carriers.filter((_, family) => families >> family & 1);
    const saying = present.filter(({ role }) => !saysNothing(role));
    const words = (saying.length ? saying : present).map(({ word }) => clean(word)).join(', ');
    return `[${words}: ${frames} frame${frames === 1 ? '' : 's'}]`;
  }

  /** Whether a function, or the folded frames of these families, is one of the given ones. */
  isAmong(wanted: Uint8Array, fn: number, families: number): boolean {
    if (wanted[fn] === 1) return true;
    const first = this.carrierFunction(0);
    for (let family = 0; families >> family > 0; family++) if (families >> family & 1 && wanted[first + family] === 1) return true;
    return false;
  }

  /** Whether code of one family counts as part of the other family around it. */
  joins(family: number, around: number): boolean {
    const role = (of: number): string => this.profile.carriers[of]?.role ?? '';
    return family === around || saysNothing(role(family)) || (starts(role(family)) && starts(role(around)));
  }

  private rawText(id: number): string {
    const { bytes, ends } = this.profile.strings;
    return this.decoder.decode(bytes.subarray(id ? ends[id - 1]! : 0, ends[id]!));
  }

  private findName(fn: number): string {
    const { functions } = this.profile;
    if (fn < functions.count) return this.text(functions.name[fn]!) || '[unnamed]';
    if (fn < this.unknown) {
      const name = this.moduleName(fn - functions.count);
      return name.startsWith('[') ? name : `[${name}]`;
    }
    if (fn === this.unknown) return '[unknown]';
    if (fn === this.truncated) return '[truncated stack]';
    if (fn === this.root) return 'all';
    if (fn === this.others) return '[not in your code]';
    const group = this.groupNames[fn - this.root - 1];
    return group ?? `[${clean(this.profile.carriers[fn - this.carrierFunction(0)]?.word ?? '')}]`;
  }

  private findRanks(): Uint32Array {
    const names = Array.from({ length: this.functionCount }, (_, fn) => this.name(fn).slice(0, 1000));
    const order = [...names.keys()].sort((a, b) => (names[a]! < names[b]! ? -1 : names[a]! > names[b]! ? 1 : a - b));
    const ranks = new Uint32Array(order.length);
    order.forEach((fn, rank) => { ranks[fn] = rank; });
    return ranks;
  }

  private findGenerics(): Uint32Array {
    const { functions } = this.profile;
    const generic = this.sameAs.slice();
    const groups = new Map<string, number>();
    for (let fn = 0; fn < functions.count; fn++) {
      const plain = functions.generic[fn]!;
      if (plain === NONE) continue;
      const key = `${functions.crate[fn]} ${plain}`;
      let group = groups.get(key);
      if (group === undefined) {
        group = this.root + 1 + this.groupNames.length;
        groups.set(key, group);
        this.groupNames.push(this.text(plain));
        this.groupMember.push(fn);
      }
      generic[fn] = group;
    }
    return generic;
  }

  private findNotSampled(): Uint8Array | undefined {
    const { modules, locations, stacks } = this.profile;
    if (!modules.kind.includes(NOT_SAMPLED)) return undefined;
    return Uint8Array.from(stacks.location, location => (modules.kind[locations.module[location]!] === NOT_SAMPLED ? 1 : 0));
  }

  private findDuration(): number {
    let last = Number(this.profile.context.duration_ns) || 0;
    for (const { time } of this.profile.samples) if (time.length) last = Math.max(last, time[time.length - 1]!);
    for (const end of this.profile.spans.end) if (end > last) last = end;
    return Math.max(last, 1);
  }
}

/** The values that occur more than once in a list. */
function twice(list: Iterable<number>): Set<number> {
  const once = new Set<number>(), more = new Set<number>();
  for (const one of list) (once.has(one) ? more : once).add(one);
  return more;
}
