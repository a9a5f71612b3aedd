// The view as plain data: one value for the whole application, its history, and its text for the address.

import type { Transform } from './transforms.ts';

export type Range = readonly [number, number];
export const TABS = ['flame', 'findings', 'causal', 'map', 'functions', 'tree', 'source', 'chart', 'spans', 'quality', 'heap', 'waits', 'syscalls', 'locks', 'critical', 'parallelism', 'tasks', 'threads', 'modules'] as const;
export type Tab = (typeof TABS)[number];
export const COLOURS = ['kind', 'crate', 'module', 'thread', 'function', 'time'] as const;
export type Colour = (typeof COLOURS)[number];
export type Theme = 'auto' | 'light' | 'dark';
/**
 * Only samples inside one span (a row of the span table), or inside all spans with the same name: on the
 * span's own thread, or on all threads during it.
 */
export type SpanFilter = { kind: 'one' | 'name'; span: number; all: boolean };

export interface State {
  metric: number;
  /** Rows of the thread table, ascending; undefined for all threads. */
  threads: readonly number[] | undefined;
  /** Committed time ranges, each inside the one before; the timeline shows the last one. Nanoseconds. */
  ranges: readonly Range[];
  /** The time selected (brushed) inside it. */
  brush: Range | undefined;
  spans: SpanFilter | undefined;
  search: string;
  regex: boolean;
  /** The finding with highlighted frames: a row of the findings. */
  finding: number | undefined;
  /** Callers instead of callees. */
  inverted: boolean;
  /** The root is on top even when the flame graph shows callees. */
  icicle: boolean;
  inline: boolean;
  /** The colour scheme; `auto`: the default for the metric. */
  colour: Colour | 'auto';
  generics: boolean;
  collapse: boolean;
  /** Only the user's own functions. The weight of other code goes to the nearest of them around it. */
  own: boolean;
  /** Nothing is folded: every frame of every stack is shown. */
  whole: boolean;
  /** Sort frames of the flame graph by name instead of heaviest first. */
  byName: boolean;
  transforms: readonly Transform[];
  /** The selected function: the same in all panels. */
  fn: number | undefined;
  /** The zoomed frame of the flame graph: the functions from the root to it. */
  zoom: readonly number[];
  tab: Tab;
  theme: Theme;
  /**
   * Panel settings that are kept in the address. Keys are letters, digits and dashes, starting with the
   * panel's name.
   */
  panel: Readonly<Record<string, string>>;
}

export const START: State = {
  metric: 0, threads: undefined, ranges: [], brush: undefined, spans: undefined, search: '', regex: false, finding: undefined, inverted: false, icicle: false,
  inline: true, colour: 'auto', generics: false, collapse: false, own: false, whole: false, byName: false, transforms: [], fn: undefined, zoom: [], tab: 'flame', theme: 'auto', panel: {},
};

/** Not part of undo: going back should not switch to another panel. */
const KEPT = ['tab', 'theme', 'fn', 'panel'] as const satisfies (keyof State)[];

export interface History {
  present: State;
  past: readonly State[];
  future: readonly State[];
  /** Consecutive changes with the same key are one step: typing, dragging. */
  merging: string | undefined;
  /** The number of steps up to the present: the position in the browser's history. */
  at: number;
  /** The number of steps in all, including undone ones. */
  made: number;
}

export const LIMIT = 200;

export const begin = (present: State, at = 0): History => ({ present, past: [], future: [], merging: undefined, at, made: 0 });

/** Makes a change. It can be undone, unless only `KEPT` fields changed. */
export function change(history: History, changes: Partial<State>, merging?: string): History {
  const before = history.present;
  const present = consistent(before, { ...before, ...changes });
  if (same(before, present)) return history;
  const undoable = (Object.keys(START) as (keyof State)[]).some(key =>
    !(KEPT as readonly string[]).includes(key) && !sameValue(before[key], present[key]));
  if (!undoable) return { ...history, present };
  if (merging !== undefined && merging === history.merging) return { ...history, present, future: [] };
  return { present, past: [...history.past, before].slice(-LIMIT), future: [], merging, at: history.at + 1, made: history.made + 1 };
}

export function undo(history: History): History {
  const present = history.past.at(-1);
  if (!present) return history;
  return { present: keep(history.present, present), past: history.past.slice(0, -1), future: [history.present, ...history.future], merging: undefined, at: history.at - 1, made: history.made };
}

export function redo(history: History): History {
  const [present, ...future] = history.future;
  if (!present) return history;
  return { present: keep(history.present, present), past: [...history.past, history.present], future, merging: undefined, at: history.at + 1, made: history.made };
}

/**
 * Goes to a step by undoing or redoing. For an unknown step (the page was reloaded) the state is
 * `otherwise`.
 */
export function travel(history: History, at: number, otherwise: () => State): History {
  let now = history;
  while (now.at > at && now.past.length) now = undo(now);
  while (now.at < at && now.future.length) now = redo(now);
  return now.at === at ? now : { ...begin(keep(history.present, otherwise()), at), made: history.made };
}

const keep = (from: State, to: State): State => ({ ...to, ...Object.fromEntries(KEPT.map(key => [key, from[key]])) });

/** A path of callees means nothing in a tree of callers, or below another root. */
function consistent(before: State, after: State): State {
  if (before.zoom !== after.zoom || !after.zoom.length) return after;
  const moved = before.inverted !== after.inverted || before.generics !== after.generics || before.transforms !== after.transforms
    || before.own !== after.own || before.whole !== after.whole;
  return moved ? { ...after, zoom: [] } : after;
}

export const sameValue = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);
export const same = (a: State, b: State): boolean => (Object.keys(START) as (keyof State)[]).every(key => sameValue(a[key], b[key]));

// Changes that several panels make.

/** The selected time: the time selection, or the committed range; undefined for all. */
export const timeRange = (state: State): Range | undefined => state.brush ?? state.ranges.at(-1);

export const zoomIntoBrush = (state: State): Partial<State> =>
  state.brush ? { ranges: [...state.ranges, state.brush], brush: undefined } : {};

export const transformed = (state: State, transform: Transform): Partial<State> =>
  state.transforms.some(known => sameValue(known, transform)) ? {} : { transforms: [...state.transforms, transform] };

/**
 * Goes back one step: zoomed frame, time selection, committed range, span filter, search, highlighted
 * finding, transforms.
 */
export function escape(state: State): Partial<State> {
  if (state.zoom.length) return { zoom: [] };
  if (state.brush) return { brush: undefined };
  if (state.ranges.length) return { ranges: state.ranges.slice(0, -1) };
  if (state.spans) return { spans: undefined };
  if (state.search) return { search: '' };
  if (state.finding !== undefined) return { finding: undefined };
  if (state.transforms.length) return { transforms: state.transforms.slice(0, -1) };
  return state.threads ? { threads: undefined } : {};
}

// The address. Numbers are in base 36; default values are left out.

const SHORT = { focus: 'f', hide: 'h', merge: 'm', collapse: 'c', library: 'l', subtree: 's', node: 'n' } as const;
const LONG = Object.fromEntries(Object.entries(SHORT).map(([kind, letter]) => [letter, kind])) as Record<string, Transform['kind']>;
const digits = (value: number): string => Math.round(value).toString(36);
const number = (text: string | undefined): number | undefined =>
  text !== undefined && /^[0-9a-z]{1,11}$/.test(text) ? parseInt(text, 36) : undefined;
const rangeText = ([from, to]: Range): string => `${digits(from)}-${digits(to)}`;

function range(text: string): Range | undefined {
  const [from, to] = text.split('-').map(number);
  return from !== undefined && to !== undefined && from < to ? [from, to] : undefined;
}

const isOne = <T extends string>(list: readonly T[], text: string | null): text is T => (list as readonly (string | null)[]).includes(text);
const present = <T>(value: T | undefined): value is T => value !== undefined;

const transformText = (transform: Transform): string =>
  SHORT[transform.kind] + ('path' in transform ? transform.path.map(digits).join('-') : digits(transform.fn));

function transformOf(text: string): Transform | undefined {
  const kind = LONG[text[0] ?? ''], path = text.slice(1).split('-').map(number).filter(present), fn = path.at(-1);
  if (!kind || fn === undefined) return undefined;
  return kind === 'subtree' || kind === 'node' ? { kind, fn, path } : { kind, fn };
}

/** Upper case when all threads count. */
const spanLetter = ({ kind, all }: SpanFilter): string => (kind === 'one' ? (all ? 'O' : 'o') : all ? 'N' : 'n');

/** The text after `#`. */
export function toHash(state: State): string {
  const out = new URLSearchParams();
  if (state.tab !== START.tab) out.set('tab', state.tab);
  if (state.metric) out.set('m', digits(state.metric));
  if (state.threads) out.set('t', state.threads.map(digits).join('.'));
  if (state.ranges.length) out.set('r', state.ranges.map(rangeText).join('.'));
  if (state.brush) out.set('b', rangeText(state.brush));
  if (state.spans) out.set('s', spanLetter(state.spans) + digits(state.spans.span));
  if (state.search) out.set('q', state.search);
  if (state.finding !== undefined) out.set('found', digits(state.finding));
  if (state.transforms.length) out.set('x', state.transforms.map(transformText).join('.'));
  if (state.colour !== START.colour) out.set('c', state.colour);
  if (state.fn !== undefined) out.set('fn', digits(state.fn));
  if (state.zoom.length) out.set('z', state.zoom.map(digits).join('.'));
  if (state.theme !== START.theme) out.set('theme', state.theme);
  const on = [state.regex && 're', state.inverted && 'inv', state.icicle && 'ice', !state.inline && 'noinline', state.generics && 'gen',
    state.collapse && 'rec', state.own && 'own', state.whole && 'whole', state.byName && 'name'].filter(Boolean);
  if (on.length) out.set('on', on.join('.'));
  for (const [key, value] of Object.entries(state.panel)) out.set(`p.${key}`, value);
  return out.toString();
}

/** The state of a text after `#`. Unreadable parts keep their defaults. */
export function fromHash(text: string): State {
  const given = new URLSearchParams(text.replace(/^#/, ''));
  const list = (key: string): string[] => given.get(key)?.split('.') ?? [];
  const on = list('on'), tab = given.get('tab'), colour = given.get('c'), theme = given.get('theme');
  const spans = /^([onON])(.+)$/.exec(given.get('s') ?? '');
  const span = number(spans?.[2]);
  const threads = given.has('t') ? list('t').map(number).filter(present) : undefined;
  const panel: Record<string, string> = {};
  for (const [key, value] of given) if (/^p\.[\w-]+$/.test(key)) panel[key.slice(2)] = value;
  return {
    metric: number(given.get('m') ?? undefined) ?? 0,
    threads: threads?.length ? threads : undefined,
    ranges: list('r').map(range).filter(present),
    brush: range(given.get('b') ?? ''),
    spans: spans && span !== undefined ? { kind: /o/i.test(spans[1]!) ? 'one' : 'name', span, all: /[ON]/.test(spans[1]!) } : undefined,
    search: given.get('q') ?? '',
    finding: number(given.get('found') ?? undefined),
    regex: on.includes('re'), inverted: on.includes('inv'), icicle: on.includes('ice'), inline: !on.includes('noinline'),
    generics: on.includes('gen'), collapse: on.includes('rec'), own: on.includes('own'), whole: on.includes('whole'), byName: on.includes('name'),
    colour: isOne(COLOURS, colour) ? colour : START.colour,
    transforms: list('x').map(transformOf).filter(present),
    fn: number(given.get('fn') ?? undefined),
    zoom: list('z').map(number).filter(present),
    tab: isOne(TABS, tab) ? tab : START.tab,
    theme: theme === 'light' || theme === 'dark' ? theme : START.theme,
    panel,
  };
}

/** An address may come from another profile: drops what does not exist in this one. */
export function fit(state: State, bounds: { metrics: number; threads: number; functions: number; spans: number; findings: number; duration: number; tabs: readonly Tab[] }): State {
  const threads = state.threads?.filter(thread => thread < bounds.threads);
  const inTime = ([from]: Range): boolean => from < bounds.duration;
  return {
    ...state,
    tab: bounds.tabs.includes(state.tab) ? state.tab : START.tab,
    metric: state.metric < bounds.metrics ? state.metric : 0,
    threads: threads?.length ? threads : undefined,
    ranges: state.ranges.filter(inTime),
    brush: state.brush && inTime(state.brush) ? state.brush : undefined,
    spans: state.spans && state.spans.span < bounds.spans ? state.spans : undefined,
    finding: state.finding !== undefined && state.finding < bounds.findings ? state.finding : undefined,
    transforms: state.transforms.filter(transform => ('path' in transform ? transform.path : [transform.fn]).every(fn => fn < bounds.functions)),
    fn: state.fn !== undefined && state.fn < bounds.functions ? state.fn : undefined,
    zoom: state.zoom.every(fn => fn < bounds.functions) ? state.zoom : [],
  };
}
