// Decodes the container of a profile into tables of typed arrays, and checks every reference once.

import { ascending, damaged, isCount, isRecord, NONE, PayloadError, readContainer, within, type Columns, type Container } from './container.ts';
import { checkCausal, readCausal, readCausalFacts, type CausalFacts, type CausalTables } from './causaltables.ts';
import { checkCode, readCode, type CodeTables } from './codetables.ts';
import { checkSyscalls, readSyscalls, type SyscallTables } from './syscalltables.ts';
import { checkFindings, readExplained, readFindings, type ExplainedFacts, type FindingTables } from './findingtables.ts';

export { NONE, PayloadError };

export interface Context {
  command: string[];
  file: string;
  duration_ns: number;
  samples: number;
  recorder: string;
  started_unix_ns: number;
}

/** The `quality` object of `whyslow report --format json`, unchanged. */
export type Quality = Record<string, unknown>;

/** The numbers of an allocation site: the columns of `HeapCounts`. */
export const HEAP_COLUMNS = [
  'allocations', 'bytes_allocated', 'frees', 'bytes_freed', 'peak_bytes', 'peak_blocks', 'max_bytes', 'max_blocks', 'live_at_exit_blocks',
  'live_at_exit_bytes', 'temporary', 'lifetime_ns', 'grown', 'growth_chains', 'bytes_copied', 'largest_grown', 'bytes_grown_to', 'freed_elsewhere',
  'unused_bytes', 'examined_bytes', 'definitely_lost_blocks', 'definitely_lost_bytes', 'indirectly_lost_blocks', 'indirectly_lost_bytes',
  'possibly_lost_blocks', 'possibly_lost_bytes', 'reachable_blocks', 'reachable_bytes', 'suppressed_blocks', 'suppressed_bytes',
  'bytes_read', 'bytes_written',
] as const;
export type HeapColumn = (typeof HEAP_COLUMNS)[number];

/** Facts about the whole heap. */
export interface HeapFacts {
  peakBytes: number;
  peakTime: number;
  leaksChecked: boolean;
  /** A word for the trend of live bytes; empty when not judged. */
  growth: string;
  /** Bytes between samples; undefined when every allocation was recorded. */
  sampleBytes: number | undefined;
  /** The program kept running: live at exit then means live at the snapshot. */
  isSnapshot: boolean;
  totals: Record<HeapColumn, number>;
  /** 95 % confidence intervals of estimated totals, by name. */
  intervals: Map<string, [low: number, high: number]>;
}

/** The states of a thread. */
export const STATES = ['running', 'queued', 'blocked', 'idle'] as const;
export type ThreadState = (typeof STATES)[number];

/** A kind of time that has a colour, and the state of the thread in it. */
export interface TimeKind { word: string; state: ThreadState }

/** Why a thread waits; `kind` is a row of the kinds of time. */
export interface Reason { word: string; kind: number }

/** Facts about parallelism that samples and waits do not contain. */
export interface ParallelismFacts {
  /** The recording is complete: threads without an end run until the recording ends. */
  sealed: boolean;
  end: number;
}

/**
 * Where a stack is: outside executors, in an executor outside tasks, on a thread that may block; from
 * `chain` on in a task, by the row of its chain.
 */
export const PLACE = { outside: 0, executor: 1, blocking: 2, chain: 3 } as const;

/** The name of a carrier family, and its role. */
export interface CarrierFamily { word: string; role: string }

export interface SampleTable {
  /** Nanoseconds since the recording began, ascending. */
  time: Float64Array;
  thread: Uint32Array;
  stack: Uint32Array;
  value: Float64Array;
  /** 0 where the thread ran, else 1 + the row of `reasons`; undefined for metrics without waits. */
  reason?: Uint8Array | undefined;
  /** Details of single waits; undefined where none were recorded. */
  details?: WaitDetails | undefined;
  /** How many threads ran at the time of each row, and how many were busy, at least one; only for CPU time. */
  running?: Uint32Array | undefined;
  busy?: Uint32Array | undefined;
  /** The lock that the thread waited for, a row of `locks`, or NONE; undefined without locks. */
  lock?: Uint32Array | undefined;
}

export interface WaitDetails {
  /** The CPU that the thread left, or NONE. */
  cpu: Uint32Array;
  /** The first argument of the system call: the address of a futex; 0 unknown. */
  argument: Float64Array;
  wokenBy: Uint8Array;
  /** The thread that ended the wait, or NONE, and its stack. */
  waker: Uint32Array;
  wakerStack: Uint32Array;
}

export interface Profile extends FindingTables, CausalTables, CodeTables, SyscallTables {
  /** The summary of the whole profile; undefined without `explain`. */
  explained: ExplainedFacts | undefined;
  /** Facts about experiments of causal profiling; undefined without any. */
  causalFacts: CausalFacts | undefined;
  context: Context;
  quality: Quality;
  strings: { bytes: Uint8Array; ends: Uint32Array };
  processes: { count: number; pid: Uint32Array; parent: Uint32Array; name: Uint32Array; start: Float64Array; end: Float64Array };
  /** `starter` stands for the thread that started a thread, or is NONE. */
  threads: { count: number; process: Uint32Array; tid: Uint32Array; name: Uint32Array; start: Float64Array; end: Float64Array; starter: Uint32Array };
  modules: { count: number; path: Uint32Array; kind: Uint8Array };
  functions: {
    count: number; name: Uint32Array; short: Uint32Array; generic: Uint32Array; same: Uint32Array; crate: Uint32Array; kind: Uint8Array; file: Uint32Array; line: Uint32Array; module: Uint32Array;
    /** 0 for code that is not a carrier, else 1 + the row of `carriers`. */
    carrier: Uint8Array;
  };
  /** Families of functions that only carry other code. */
  carriers: readonly CarrierFamily[];
  /** Kinds of time, running first, and the reasons of waits; empty when waits were not recorded. */
  timeKinds: readonly TimeKind[];
  reasons: readonly Reason[];
  /** The frames of location L are the rows `frames[L] .. frames[L + 1]` of the frame table. */
  locations: { count: number; module: Uint32Array; address: Float64Array; frames: Uint32Array };
  frames: { count: number; function: Uint32Array; file: Uint32Array; line: Uint32Array };
  stacks: { count: number; parent: Uint32Array; location: Uint32Array };
  /**
   * Lines of the user's code, or nearest to it. `ofStack` is the line that a stack's CPU time and waits
   * count towards, or NONE.
   */
  charges: { count: number; function: Uint32Array; file: Uint32Array; line: Uint32Array; ofStack: Uint32Array };
  parallelism: ParallelismFacts;
  /** Tasks of async Rust: their executor and their outermost function. */
  tasks: { count: number; executor: Uint32Array; function: Uint32Array };
  /**
   * Await chains of tasks: the functions of chain C are `steps[functions[C] .. functions[C + 1]]`.
   * `ofStack`: see {@link PLACE}.
   */
  chains: { count: number; task: Uint32Array; functions: Uint32Array; steps: Uint32Array; ofStack: Uint32Array };
  /** Stacks of waits that block an executor's worker thread, ascending, and the call there. */
  blocking: { count: number; stack: Uint32Array; call: Uint32Array };
  /** `of` are codes of `Subject`; `sampled` is 1 where each row is one sample, 0 where values were counted or estimated. */
  metrics: { count: number; name: Uint32Array; unit: Uint8Array; of: Uint8Array; sampled: Uint8Array; simulated?: Uint8Array };
  samples: SampleTable[];
  spans: { count: number; name: Uint32Array; thread: Uint32Array; start: Float64Array; end: Float64Array; detail: Uint32Array };
  counters: { count: number; name: Uint32Array; unit: Uint8Array; process: Uint32Array };
  counterValues: { count: number; counter: Uint32Array; time: Float64Array; value: Float64Array };
  sources: { count: number; file: Uint32Array; line: Uint32Array; text: Uint32Array };
  /** A note about where samples fall relative to the instruction that caused them. */
  skid: string | undefined;
  /** Undefined when the heap was not recorded. */
  heapFacts: HeapFacts | undefined;
  heap: {
    count: number; function: Uint32Array; file: Uint32Array; line: Uint32Array; stack: Uint32Array; stacks: Uint32Array; growth: Uint8Array;
    /** The line of the user's own code that it allocates for: NONE, NONE and 0 when there is no other one. */
    ownFunction: Uint32Array; ownFile: Uint32Array; ownLine: Uint32Array;
    /** What to do about growth, in words, or NONE. */
    advice: Uint32Array; counts: Record<HeapColumn, Float64Array>;
  };
  /** The site of every allocating stack. */
  heapStacks: { count: number; stack: Uint32Array; site: Uint32Array };
  heapBars: { count: number; site: Uint32Array; of: Uint8Array; bar: Uint8Array; blocks: Float64Array };
  /** Locks with waits: what, where in memory (or NaN), and the place of the first wait. */
  locks: { count: number; kind: Uint32Array; name: Uint32Array; address: Float64Array; process: Uint32Array; function: Uint32Array; file: Uint32Array; line: Uint32Array };
}

interface Header {
  context: Partial<Context>; quality: Quality; heap: Record<string, unknown> | undefined; carriers: CarrierFamily[];
  timeKinds: TimeKind[]; reasons: Reason[]; parallelism: ParallelismFacts; explained: ExplainedFacts | undefined; causal: CausalFacts | undefined; skid: string | undefined;
}

/** Reads a decompressed container. Columns that an older writer did not have are filled with "unknown". */
export const decode = (bytes: Uint8Array): Profile => decodeProfile(readContainer(bytes));

/** The same for an open container. */
export function decodeProfile({ header: given, columns }: Container): Profile {
  const header = headerOf(given);
  const rows = (table: string, main: string): number => columns.length(`${table}.${main}`);
  const u32 = (name: string, count: number, missing = NONE) => columns.u32(name, count, missing);
  const f64 = (name: string, count: number, missing = NaN) => columns.f64(name, count, missing);
  const u8 = (name: string, count: number) => columns.u8(name, count);

  const strings = {
    bytes: u8('strings.bytes', columns.length('strings.bytes')),
    ends: u32('strings.ends', columns.length('strings.ends')),
  };
  const processCount = rows('processes', 'pid');
  const threadCount = rows('threads', 'tid');
  const moduleCount = rows('modules', 'path');
  const functionCount = rows('functions', 'name');
  const locationCount = Math.max(0, columns.length('locations.frames') - 1);
  const frameCount = rows('frames', 'function');
  const stackCount = rows('stacks', 'location');
  const metricCount = rows('metrics', 'name');
  const spanCount = rows('spans', 'name');
  const counterCount = rows('counters', 'name');
  const valueCount = rows('counter_values', 'counter');
  const sourceCount = rows('sources', 'file');
  const siteCount = rows('heap', 'function');
  const allocatingCount = rows('heap_stacks', 'stack');
  const barCount = rows('heap_bars', 'site');
  const lockCount = rows('locks', 'kind');
  const chargeCount = rows('charges', 'function');
  const taskCount = rows('tasks', 'function'), chainCount = rows('chains', 'task'), blockingCount = rows('blocking', 'stack');

  const profile: Profile = {
    context: {
      command: [], file: '', duration_ns: 0, samples: 0, recorder: '', started_unix_ns: 0,
      ...header.context,
    },
    quality: header.quality,
    explained: header.explained,
    ...readFindings(columns),
    causalFacts: header.causal,
    ...readCausal(columns),
    strings,
    processes: {
      count: processCount, pid: u32('processes.pid', processCount), parent: u32('processes.parent', processCount),
      name: u32('processes.name', processCount), start: f64('processes.start', processCount, 0), end: f64('processes.end', processCount),
    },
    threads: {
      count: threadCount, process: u32('threads.process', threadCount), tid: u32('threads.tid', threadCount),
      name: u32('threads.name', threadCount), start: f64('threads.start', threadCount, 0), end: f64('threads.end', threadCount), starter: u32('threads.starter', threadCount),
    },
    modules: { count: moduleCount, path: u32('modules.path', moduleCount), kind: u8('modules.kind', moduleCount) },
    functions: {
      count: functionCount, name: u32('functions.name', functionCount), short: u32('functions.short', functionCount), generic: u32('functions.generic', functionCount), same: columns.has('functions.same') ? u32('functions.same', functionCount) : Uint32Array.from({ length: functionCount }, (_, fn) => fn), crate: u32('functions.crate', functionCount),
      kind: u8('functions.kind', functionCount), file: u32('functions.file', functionCount),
      line: u32('functions.line', functionCount, 0), module: u32('functions.module', functionCount),
      carrier: u8('functions.carrier', functionCount),
    },
    carriers: header.carriers,
    timeKinds: header.timeKinds, reasons: header.reasons,
    locations: {
      count: locationCount, module: u32('locations.module', locationCount), address: f64('locations.address', locationCount),
      frames: u32('locations.frames', locationCount ? locationCount + 1 : columns.length('locations.frames'), 0),
    },
    frames: {
      count: frameCount, function: u32('frames.function', frameCount), file: u32('frames.file', frameCount),
      line: u32('frames.line', frameCount, 0),
    },
    stacks: { count: stackCount, parent: u32('stacks.parent', stackCount), location: u32('stacks.location', stackCount) },
    charges: { count: chargeCount, function: u32('charges.function', chargeCount), file: u32('charges.file', chargeCount), line: u32('charges.line', chargeCount, 0), ofStack: u32('stacks.charge', stackCount) },
    parallelism: header.parallelism,
    tasks: { count: taskCount, executor: u32('tasks.executor', taskCount), function: u32('tasks.function', taskCount) },
    chains: {
      count: chainCount, task: u32('chains.task', chainCount), functions: u32('chains.functions', chainCount ? chainCount + 1 : 0, 0),
      steps: u32('chain_functions.function', rows('chain_functions', 'function')), ofStack: u32('stacks.place', stackCount, PLACE.outside),
    },
    blocking: { count: blockingCount, stack: u32('blocking.stack', blockingCount), call: u32('blocking.call', blockingCount) },
    metrics: {
      count: metricCount, name: u32('metrics.name', metricCount), unit: u8('metrics.unit', metricCount), of: u8('metrics.of', metricCount),
      sampled: u8('metrics.sampled', metricCount), simulated: u8('metrics.simulated', metricCount),
    },
    samples: Array.from({ length: metricCount }, (_, metric) => readSamples(columns, metric)),
    spans: {
      count: spanCount, name: u32('spans.name', spanCount), thread: u32('spans.thread', spanCount),
      start: f64('spans.start', spanCount, 0), end: f64('spans.end', spanCount), detail: u32('spans.detail', spanCount),
    },
    counters: {
      count: counterCount, name: u32('counters.name', counterCount), unit: u8('counters.unit', counterCount),
      process: u32('counters.process', counterCount),
    },
    counterValues: {
      count: valueCount, counter: u32('counter_values.counter', valueCount), time: f64('counter_values.time', valueCount, 0),
      value: f64('counter_values.value', valueCount, 0),
    },
    sources: {
      count: sourceCount, file: u32('sources.file', sourceCount), line: u32('sources.line', sourceCount, 0),
      text: u32('sources.text', sourceCount),
    },
    skid: header.skid,
    ...readCode(columns),
    ...readSyscalls(columns),
    heapFacts: header.heap && readHeapFacts(header.heap),
    heap: {
      count: siteCount, function: u32('heap.function', siteCount), file: u32('heap.file', siteCount), line: u32('heap.line', siteCount, 0),
      stack: u32('heap.stack', siteCount), stacks: u32('heap.stacks', siteCount, 1), growth: u8('heap.growth', siteCount),
      ownFunction: u32('heap.own_function', siteCount), ownFile: u32('heap.own_file', siteCount), ownLine: u32('heap.own_line', siteCount, 0),
      advice: u32('heap.advice', siteCount),
      counts: byColumn(column => f64(`heap.${column}`, siteCount, 0)),
    },
    heapStacks: { count: allocatingCount, stack: u32('heap_stacks.stack', allocatingCount), site: u32('heap_stacks.site', allocatingCount) },
    heapBars: {
      count: barCount, site: u32('heap_bars.site', barCount), of: u8('heap_bars.of', barCount), bar: u8('heap_bars.bar', barCount),
      blocks: f64('heap_bars.blocks', barCount, 0),
    },
    locks: {
      count: lockCount, kind: u32('locks.kind', lockCount), name: u32('locks.name', lockCount), address: f64('locks.address', lockCount), process: u32('locks.process', lockCount),
      function: u32('locks.function', lockCount), file: u32('locks.file', lockCount), line: u32('locks.line', lockCount, 0),
    },
  };
  check(profile);
  return profile;
}

const byColumn = <T>(value: (column: HeapColumn) => T): Record<HeapColumn, T> =>
  Object.fromEntries(HEAP_COLUMNS.map(column => [column, value(column)])) as Record<HeapColumn, T>;

function readHeapFacts(facts: Record<string, unknown>): HeapFacts {
  const number = (value: unknown): number => (typeof value === 'number' && Number.isFinite(value) ? value : 0);
  const totals = isRecord(facts.totals) ? facts.totals : {};
  return {
    peakBytes: number(facts.peak_bytes),
    peakTime: number(facts.peak_ns),
    leaksChecked: facts.leaks_checked === true,
    growth: typeof facts.growth === 'string' && /^[a-z]{1,20}$/.test(facts.growth) ? facts.growth : '',
    sampleBytes: number(facts.sample_bytes) || undefined,
    isSnapshot: isRecord(facts.snapshot),
    totals: byColumn(column => number(totals[column])),
    intervals: new Map(Object.entries(isRecord(facts.intervals) ? facts.intervals : {})
      .flatMap(([name, ends]) => (Array.isArray(ends) && ends.length === 2 ? [[name, [number(ends[0]), number(ends[1])]] as const] : []))),
  };
}

function headerOf(header: Record<string, unknown>): Header {
  const parallelism = isRecord(header.parallelism) ? header.parallelism : {};
  const timeKinds = Array.isArray(header.time_kinds) ? header.time_kinds.slice(0, MOST_KINDS).map(readKind) : [];
  return {
    context: isRecord(header.context) ? header.context : {},
    quality: isRecord(header.quality) ? header.quality : {},
    heap: isRecord(header.heap) ? header.heap : undefined,
    carriers: Array.isArray(header.carriers) ? header.carriers.slice(0, MOST_CARRIERS).map(readCarrier) : [],
    timeKinds,
    explained: readExplained(header.explained),
    causal: readCausalFacts(header.causal),
    skid: typeof header.skid === 'string' ? header.skid : undefined,
    parallelism: { sealed: parallelism.sealed !== false, end: isCount(parallelism.end_ns) ? parallelism.end_ns : 0 },
    reasons: Array.isArray(header.reasons) ? header.reasons.slice(0, 254).map(reason => readReason(reason, timeKinds.length)) : [],
  };
}

/** One bit for each must fit into a number. */
const MOST_CARRIERS = 31;

function readCarrier(family: unknown): CarrierFamily {
  const { word, role } = isRecord(family) ? family : {};
  return { word: typeof word === 'string' ? word.slice(0, 40) : '', role: typeof role === 'string' ? role : '' };
}

/** There are no colours for more. */
const MOST_KINDS = 8;

function readKind(kind: unknown): TimeKind {
  const { word, state } = isRecord(kind) ? kind : {};
  return { word: typeof word === 'string' ? word.slice(0, 40) : '', state: STATES.find(known => known === state) ?? 'blocked' };
}

function readReason(reason: unknown, kinds: number): Reason {
  const { word, kind } = isRecord(reason) ? reason : {};
  if (!isCount(kind) || kind >= kinds) throw new PayloadError('The profile in this page is damaged: a wait reason has no kind of time.');
  return { word: typeof word === 'string' ? word.slice(0, 40) : '', kind };
}

function readSamples(columns: Columns, metric: number): SampleTable {
  const count = columns.length(`samples.${metric}.stack`);
  const of = (name: string): string => `samples.${metric}.${name}`;
  const delta = columns.u32(of('time_delta'), count, 0), rest = columns.u32(of('nanoseconds'), count, 0);
  const time = new Float64Array(count);
  for (let i = 0, now = 0; i < count; i++) time[i] = (now += delta[i]! * 1000) + rest[i]!;
  return {
    time,
    reason: columns.has(of('reason')) ? columns.u8(of('reason'), count) : undefined,
    running: columns.has(of('running')) ? columns.u32(of('running'), count, 1) : undefined,
    busy: columns.has(of('busy')) ? columns.u32(of('busy'), count, 1) : undefined,
    lock: columns.has(of('lock')) ? columns.u32(of('lock'), count, NONE) : undefined,
    details: columns.has(of('cpu')) ? {
      cpu: columns.u32(of('cpu'), count, NONE), argument: columns.f64(of('argument'), count, 0), wokenBy: columns.u8(of('woken_by'), count),
      waker: columns.u32(of('waker'), count, NONE), wakerStack: columns.u32(of('waker_stack'), count, NONE),
    } : undefined,
    thread: columns.u32(`samples.${metric}.thread`, count, 0),
    stack: columns.u32(`samples.${metric}.stack`, count, NONE),
    value: columns.f64(`samples.${metric}.value`, count, 1),
  };
}

/** After this check, nothing can index out of bounds. */
function check(profile: Profile): void {
  const { strings, processes, threads, modules, functions, locations, frames, stacks, metrics, spans, counters, counterValues, sources,
    heap, heapStacks, heapBars, charges } = profile;
  const texts = strings.ends.length;
  ascending('strings.ends', strings.ends, strings.bytes.length);
  within('processes.name', processes.name, texts, true);
  within('processes.parent', processes.parent, processes.count, true);
  within('threads.process', threads.process, processes.count, true);
  within('threads.name', threads.name, texts, true);
  within('threads.starter', threads.starter, threads.count, true);
  within('modules.path', modules.path, texts, true);
  within('functions.name', functions.name, texts, true);
  within('functions.short', functions.short, texts, true);
  within('functions.generic', functions.generic, texts, true);
  within('functions.same', functions.same, functions.count, false);
  within('functions.crate', functions.crate, texts, true);
  within('functions.file', functions.file, texts, true);
  functions.carrier.forEach((code, row) => { if (code > profile.carriers.length) throw damaged('functions.carrier', row); });
  within('functions.module', functions.module, modules.count, true);
  within('locations.module', locations.module, modules.count, true);
  ascending('locations.frames', locations.frames, frames.count);
  within('frames.function', frames.function, functions.count, false);
  within('frames.file', frames.file, texts, true);
  within('stacks.location', stacks.location, locations.count, false);
  for (let i = 0; i < stacks.count; i++) {
    const parent = stacks.parent[i]!;
    if (parent !== NONE && parent >= i) throw damaged('stacks.parent', i);
  }
  const named = functions.count + modules.count + 2, { tasks, chains, blocking } = profile;
  within('tasks.executor', tasks.executor, texts, false);
  within('tasks.function', tasks.function, named, false);
  within('chains.task', chains.task, tasks.count, false);
  ascending('chains.functions', chains.functions, chains.steps.length);
  within('chain_functions.function', chains.steps, named, false);
  within('stacks.place', chains.ofStack, PLACE.chain + chains.count, false);
  within('blocking.stack', blocking.stack, stacks.count, false);
  within('blocking.call', blocking.call, named, false);
  within('stacks.charge', charges.ofStack, charges.count, true);
  within('charges.function', charges.function, functions.count + modules.count + 2, false);
  within('charges.file', charges.file, texts, true);
  within('metrics.name', metrics.name, texts, true);
  checkCausal(profile, { texts, functions: functions.count });
  checkFindings(profile, { texts, named: named + 1, metrics: metrics.count, stacks: stacks.count });
  profile.samples.forEach((samples, metric) => {
    within(`samples.${metric}.thread`, samples.thread, Math.max(1, threads.count), false);
    within(`samples.${metric}.stack`, samples.stack, stacks.count, true);
    samples.reason?.forEach((code, row) => { if (code > profile.reasons.length) throw damaged(`samples.${metric}.reason`, row); });
    if (samples.lock) within(`samples.${metric}.lock`, samples.lock, profile.locks.count, true);
    if (!samples.details) return;
    within(`samples.${metric}.waker`, samples.details.waker, threads.count, true);
    within(`samples.${metric}.waker_stack`, samples.details.wakerStack, stacks.count, true);
  });
  within('spans.name', spans.name, texts, true);
  within('spans.thread', spans.thread, threads.count, true);
  within('spans.detail', spans.detail, texts, true);
  within('counters.name', counters.name, texts, true);
  within('counters.process', counters.process, processes.count, true);
  within('counter_values.counter', counterValues.counter, counters.count, false);
  within('sources.file', sources.file, texts, true);
  within('sources.text', sources.text, texts, true);
  checkCode(profile, { texts, modules: modules.count });
  checkSyscalls(profile, { texts, threads: threads.count, stacks: stacks.count });
  // Code without symbols is numbered after the functions: modules, unknown, truncated.
  within('heap.function', heap.function, functions.count + modules.count + 2, false);
  within('heap.file', heap.file, texts, true);
  within('heap.advice', heap.advice, texts, true);
  within('heap.stack', heap.stack, stacks.count, false);
  within('heap.own_function', heap.ownFunction, functions.count + modules.count + 2, true);
  within('heap.own_file', heap.ownFile, texts, true);
  within('heap_stacks.stack', heapStacks.stack, stacks.count, false);
  within('heap_stacks.site', heapStacks.site, heap.count, false);
  within('heap_bars.site', heapBars.site, heap.count, false);
  within('locks.kind', profile.locks.kind, texts, true);
  within('locks.name', profile.locks.name, texts, true);
  within('locks.process', profile.locks.process, processes.count, true);
  within('locks.function', profile.locks.function, functions.count + modules.count + 2, false);
  within('locks.file', profile.locks.file, texts, true);
}
