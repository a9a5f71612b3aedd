// Sums: known answers, and random profiles checked against a slow, simple implementation.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deep, NONE, Payload, random, small } from '../test/make-payload.mjs';
import { addUp, buildShape, countSamples, functionValues, invert, matchedValue, movedWeights, rowsOf, spanMask, stackWeights, type Selection, type ShapeOptions } from './aggregate.ts';
import { libraryName, type Transform } from './transforms.ts';
import { pathOf } from './flame/path.ts';
import { Model } from './model.ts';
import { decode } from './payload.ts';

const PLAIN: ShapeOptions = { inline: true, generics: false, collapse: false, own: false, transforms: [] };
const ALL: Selection = { threads: undefined, range: undefined, mask: undefined };

function treeOf(model: Model, options: Partial<ShapeOptions> = {}, selection: Partial<Selection> = {}, metric = 0) {
  const shape = buildShape(model, { ...PLAIN, ...options });
  const tree = addUp(shape, stackWeights(model.profile.samples[metric]!, model.profile.stacks.count, { ...ALL, ...selection }));
  return { shape, tree, functions: functionValues(shape, tree, model.functionCount) };
}

/** `main > parse` → total, for all nodes with weight. */
function paths(model: Model, tree: { parent: Uint32Array; fn: Uint32Array; total: Float64Array }): Record<string, number> {
  const out: Record<string, number> = {};
  for (let node = 1; node < tree.fn.length; node++) {
    if (tree.total[node]) out[pathOf(tree, node).map(fn => model.short(fn)).join(' > ')] = tree.total[node]! / 100_000;
  }
  return out;
}

const byName = (model: Model, values: Float64Array): Record<string, number> =>
  Object.fromEntries([...values].map((value, fn) => [model.short(fn), value / 100_000]).filter(([, value]) => value));

test('moving the time selection gives the same weights as selecting anew', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { profile: { samples: [samples], stacks } } = randomProfile(seed);
    const end = samples!.time.at(-1)!, threads = seed % 2 ? undefined : Uint8Array.from({ length: 64 }, (_, at) => at % 2);
    const weighed = (range: readonly [number, number]) => stackWeights(samples!, stacks.count, { ...ALL, threads, range });
    const shares = [0, .1, .3, .35, .6, .8, 1.1];
    let moved = 0;
    for (const low of shares) for (const high of shares) for (const from of shares) for (const to of shares) {
      const before = [low * end, high * end] as const, range = [from * end, to * end] as const;
      if (low > high || from > to) continue;
      const weights = movedWeights(samples!, { ...ALL, threads, range }, weighed(before), rowsOf(samples!, before));
      if (!weights) continue;
      moved++;
      assert.deepEqual(weights, weighed(range), `${low}..${high} to ${from}..${to}`);
    }
    assert.ok(moved > 20, String(moved));
  }
});

test('the tree of a small profile', () => {
  const model = new Model(decode(small()));
  const { tree, functions } = treeOf(model);
  assert.deepEqual(paths(model, tree), {
    'app::main': 60, 'app::main > app::parse': 60, 'app::main > app::parse > Map::next': 60, 'app::main > app::parse > Map::next > app::parse': 50,
    'app::main > app::parse > Map::next > app::parse > alloc::alloc': 30,
    'app::work': 38, 'app::work > Set::insert': 15, 'app::work > [libz.so.1]': 8, '[truncated stack]': 2,
  });
  assert.equal(tree.total[0], 100 * 100_000);
  const self = byName(model, functions.self), total = byName(model, functions.total);
  assert.equal(total['app::parse'], 60, 'recursion counts once');
  assert.equal(self['app::parse'], 20);
  assert.equal(self['Map::next'], 10);
  assert.equal(total['app::main'], 60);
});

test('hidden inlined frames count towards their callers', () => {
  const model = new Model(decode(small()));
  const { tree } = treeOf(model, { inline: false });
  const found = paths(model, tree);
  assert.equal(found['app::main > app::parse'], 60);
  assert.equal(found['app::main > app::parse > app::parse'], 50);
  assert.equal(found['app::main > app::parse > Map::next'], undefined);
});

test('generic instances are merged', () => {
  const model = new Model(decode(small()));
  const { tree, functions } = treeOf(model, { generics: true });
  const node = tree.fn.findIndex(fn => model.name(fn) === 'dep::Set<…>::insert');
  assert.equal(tree.total[node], 30 * 100_000);
  assert.equal(functions.self[tree.fn[node]!], 30 * 100_000);
  assert.equal(model.crate(tree.fn[node]!), 'dep');
});

test('recursion is collapsed', () => {
  const model = new Model(decode(small()));
  const found = paths(model, treeOf(model, { collapse: true }).tree);
  assert.equal(found['app::main > app::parse > Map::next > app::parse'], undefined);
  assert.equal(found['app::main > app::parse'], 60);
  assert.equal(found['app::main > app::parse > alloc::alloc'], 30);
});

test('focus, hide and merge, alone and one after the other', () => {
  const model = new Model(decode(small()));
  const fn = (name: string): number => Array.from({ length: model.functionCount }, (_, fn) => fn).find(fn => model.name(fn) === name)!;
  const run = (...transforms: Transform[]) => { const { tree } = treeOf(model, { transforms }); return { found: paths(model, tree), whole: tree.total[0]! / 100_000 }; };
  const [parse, map, work, alloc] = [fn('app::parse'), fn('core::iter::Map<I,F>::next'), fn('app::work'), fn('alloc::alloc::alloc')];

  const focused = run({ kind: 'focus', fn: parse });
  assert.equal(focused.whole, 60);
  assert.equal(focused.found['app::parse'], 60);
  assert.equal(focused.found['app::parse > Map::next > app::parse'], 50);

  assert.equal(run({ kind: 'hide', fn: work }).whole, 62);
  assert.equal(run({ kind: 'hide', fn: alloc }).whole, 70);

  const merged = run({ kind: 'merge', fn: map });
  assert.equal(merged.whole, 100);
  assert.equal(merged.found['app::main > app::parse > app::parse'], 50);

  const both = run({ kind: 'focus', fn: map }, { kind: 'hide', fn: alloc });
  assert.equal(both.whole, 30);
  assert.deepEqual(both.found, { 'Map::next': 30, 'Map::next > app::parse': 20 });
  // After the focus, the outer call of parse is no longer there to hide.
  assert.equal(run({ kind: 'focus', fn: map }, { kind: 'hide', fn: parse }).whole, 10);
  assert.equal(run({ kind: 'hide', fn: parse }, { kind: 'focus', fn: map }).whole, 0);
  assert.equal(run({ kind: 'focus', fn: parse }, { kind: 'focus', fn: alloc }).whole, 30);
  assert.equal(run({ kind: 'focus', fn: alloc }, { kind: 'focus', fn: parse }).whole, 0);
});

test('callers of a small profile', () => {
  const model = new Model(decode(small()));
  const { tree } = treeOf(model);
  const up = invert(tree, model.root, { minimum: 0, limit: 1e6 });
  const found = paths(model, up);
  assert.equal(found['alloc::alloc'], 30);
  assert.equal(found['alloc::alloc > app::parse > Map::next > app::parse > app::main'], 30);
  assert.equal(found['[libz.so.1] > app::work'], 8);
  assert.equal(up.total[0], tree.total[0]);
  const one = invert(tree, model.root, { minimum: 0, limit: 1e6, of: model.truncated });
  assert.equal(one.total[0], 200_000);
  const path = [up.fn.find(fn => model.short(fn) === 'alloc::alloc')!];
  const narrow = paths(model, invert(tree, model.root, { minimum: 0, limit: 1e6, path }));
  assert.equal(narrow['alloc::alloc > app::parse > Map::next > app::parse > app::main'], 30);
  assert.equal(narrow['[libz.so.1]'], 8);
  assert.equal(narrow['[libz.so.1] > app::work'], undefined);
});

test('matches count once, only inside the zoomed frame', () => {
  const model = new Model(decode(small()));
  const { tree } = treeOf(model);
  const matched = new Uint8Array(model.functionCount).map((_, fn) => model.name(fn).includes('parse') || model.name(fn).includes('alloc') ? 1 : 0);
  assert.deepEqual(matchedValue(tree, node => matched[tree.fn[node]!] === 1, 0), { value: 60 * 100_000, nodes: 3 });
  const work = tree.fn.findIndex(fn => model.name(fn) === 'app::work');
  assert.deepEqual(matchedValue(tree, node => matched[tree.fn[node]!] === 1, work), { value: 0, nodes: 0 });
});

test('threads, time ranges and spans select samples', () => {
  const model = new Model(decode(small()));
  const whole = (selection: Partial<Selection>) => treeOf(model, {}, selection).tree.total[0]! / 100_000;
  assert.equal(whole({ threads: Uint8Array.of(1, 0) }), 60);
  assert.equal(whole({ range: [0, 1_000_001] }), 10);
  assert.equal(whole({ range: [1_000_000, 2_000_000] }), 10, 'the end is exclusive');
  assert.equal(countSamples(model.profile.samples[0]!, { ...ALL, threads: Uint8Array.of(0, 1), range: [0, 6_200_000] }), 1);
});

test('spans count on their own thread, or on all threads if they have none', () => {
  const p = new Payload();
  const [a, b] = [p.thread(p.process(1, 'x'), 1, 'a'), p.thread(0, 2, 'b')];
  const stack = p.stack(NONE, p.location(NONE, 1, [[p.fn('f'), undefined, 0]]));
  p.metric('cpu', 1);
  for (let n = 1; n <= 10; n++) for (const thread of [a, b]) p.sample(0, n * 1000, thread, stack, 1);
  const name = p.text('s');
  p.row('spans', { name, thread: a, start: 1000, end: 3000, detail: NONE });
  p.row('spans', { name, thread: a, start: 2000, end: 5000, detail: NONE });
  p.row('spans', { name, thread: NONE, start: 9000, end: NaN, detail: NONE });
  const model = new Model(decode(p.container()));
  const mask = spanMask(model, model.profile.samples[0]!, [0, 1, 2]);
  const chosen = [...mask].map((on, at) => on ? `${model.profile.samples[0]!.time[at]! / 1000}${model.profile.samples[0]!.thread[at] ? 'b' : 'a'}` : '').filter(Boolean);
  assert.deepEqual(chosen, ['1a', '2a', '3a', '4a', '9a', '9b', '10a', '10b']);
});

test('stacks 10,000 deep', () => {
  const model = new Model(decode(deep()));
  const { tree, functions } = treeOf(model);
  assert.equal(Math.max(...tree.depth), 10_000);
  assert.equal(tree.total[0], 200e6);
  const named = byName(model, functions.total);
  assert.equal(named['deep::recurse'], 1000);
  assert.equal(named['deep::even'], 1000);
  const collapsed = treeOf(model, { collapse: true });
  assert.equal(Math.max(...collapsed.tree.depth), 2);
  assert.equal(collapsed.tree.total[0], 200e6);
  const up = invert(tree, model.root, { minimum: 0, limit: 100_000 });
  assert.equal(Math.max(...up.depth), 10_000);
  assert.equal(up.total[0], 200e6);
});

/** A random profile, with its stacks as lists of functions for the simple implementation. */
function randomProfile(seed: number) {
  const p = new Payload(), next = random(seed);
  const pick = (count: number) => Math.floor(next() * count);
  p.process(1, 'p');
  for (let thread = 0; thread < 3; thread++) p.thread(0, thread, `t${thread}`);
  const module = p.module('/lib/m.so');
  const fns = Array.from({ length: 8 }, (_, n) => p.fn(n < 4 ? `f${n}` : `G<T${n}>::run${n % 2}`, n % 3 ? 'c' : 'd', 'yours', 'f.rs', n + 1));
  const places = Array.from({ length: 20 }, (_, n) => p.location(n % 7 ? NONE : module, n + 1, n % 9 === 0 ? [] : Array.from({ length: 1 + pick(3) }, () => [fns[pick(8)]!, 'f.rs', 1])));
  places.push(0);
  const stacks: number[] = [];
  for (let n = 0; n < 60; n++) stacks.push(p.stack(n && next() < .9 ? stacks[pick(stacks.length)]! : NONE, places[pick(places.length)]!));
  p.metric('cpu', 1);
  for (let n = 0; n < 400; n++) p.sample(0, n * 1000, pick(3), stacks[pick(stacks.length)]!, 1 + pick(5));
  return new Model(decode(p.container()));
}

/** The functions of a stack, outermost first; undefined when a transform drops it. */
function plainStack(model: Model, stack: number, options: ShapeOptions): number[] | undefined {
  const { stacks, locations, frames } = model.profile;
  const chain: number[] = [];
  for (let at = stack; at !== NONE; at = stacks.parent[at]!) chain.unshift(stacks.location[at]!);
  let names: number[] = chain.flatMap(location => {
    const rows = Array.from({ length: locations.frames[location + 1]! - locations.frames[location]! }, (_, n) => frames.function[locations.frames[location]! + n]!);
    if (!rows.length) return [location === 0 ? model.truncated : locations.module[location] === NONE ? model.unknown : model.profile.functions.count + locations.module[location]!];
    return (options.inline ? rows : rows.slice(0, 1)).map(fn => (options.generics ? model.generic : model.sameAs)[fn]!);
  });
  for (const { kind, fn } of options.transforms) {
    const at = names.indexOf(fn);
    if (kind === 'focus') { if (at < 0) return undefined; names = names.slice(at); }
    else if (kind === 'hide') { if (at >= 0) return undefined; }
    else if (kind === 'collapse') { if (at >= 0) names = names.slice(0, at + 1); }
    else if (kind === 'library') names = names.filter((name, at) => at === 0 || libraryName(model, name) !== libraryName(model, fn) || libraryName(model, names[at - 1]!) !== libraryName(model, fn));
    else names = names.filter(name => name !== fn);
  }
  if (!options.collapse) return names;
  const path: number[] = [];
  for (const name of names) {
    const at = path.indexOf(name);
    if (at >= 0) path.length = at + 1;
    else path.push(name);
  }
  return path;
}

test('random profiles give the same sums as the simple implementation', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const model = randomProfile(seed), next = random(seed * 77);
    const samples = model.profile.samples[0]!;
    const fnCount = model.profile.functions.count;
    // The viewer cannot focus on a function that an earlier step removed.
    const kinds = ['focus', 'hide', 'merge', 'collapse', 'library'] as const;
    const transforms: Transform[] = [];
    for (let n = Math.floor(next() * 3); n > 0; n--) {
      const step: Transform = { kind: kinds[Math.floor(next() * 5)]!, fn: model.sameAs[Math.floor(next() * fnCount)]! };
      if (!transforms.some(({ fn }) => fn === step.fn)) transforms.push(step);
    }
    const options: ShapeOptions = { inline: next() < .7, generics: next() < .3 && !transforms.length, collapse: next() < .3, own: false, transforms };
    const selection: Selection = {
      threads: next() < .5 ? Uint8Array.from([1, 0, 1]) : undefined,
      range: next() < .5 ? [50_000 + Math.floor(next() * 50_000), 300_000] : undefined,
      mask: next() < .3 ? new Uint8Array(400).map((_, at) => at % 3 ? 1 : 0) : undefined,
    };
    const { tree, functions } = treeOf(model, options, selection);
    const want = new Map<string, number>(), wantUp = new Map<string, number>();
    const self = new Float64Array(model.functionCount), total = new Float64Array(model.functionCount);
    let whole = 0;
    for (let at = 0; at < samples.time.length; at++) {
      if (selection.threads && !selection.threads[samples.thread[at]!]) continue;
      if (selection.range && (samples.time[at]! < selection.range[0] || samples.time[at]! >= selection.range[1])) continue;
      if (selection.mask && !selection.mask[at]) continue;
      const names = plainStack(model, samples.stack[at]!, options);
      if (!names) continue;
      const value = samples.value[at]!;
      whole += value;
      if (names.length) self[names.at(-1)!]! += value;
      for (const fn of new Set(names)) total[fn]! += value;
      names.forEach((_, end) => { const key = names.slice(0, end + 1).join(); want.set(key, (want.get(key) ?? 0) + value); });
      const up = [...names].reverse();
      up.forEach((_, end) => { const key = up.slice(0, end + 1).join(); wantUp.set(key, (wantUp.get(key) ?? 0) + value); });
    }
    const got = (tree: { parent: Uint32Array; fn: Uint32Array; total: Float64Array }) =>
      new Map(Array.from(tree.fn, (_, node) => node).filter(node => node && tree.total[node]).map(node => [pathOf(tree, node).join(), tree.total[node]!]));
    const sorted = (map: Map<string, number>) => [...map].sort(([a], [b]) => a < b ? -1 : 1);
    const label = `seed ${seed} ${JSON.stringify(options)}`;
    assert.equal(tree.total[0], whole, label);
    assert.deepEqual(sorted(got(tree)), sorted(want), label);
    assert.deepEqual(functions, { self, total }, label);
    assert.deepEqual(sorted(got(invert(tree, model.root, { minimum: 0, limit: 1e6 }))), sorted(wantUp), label);
    for (let node = 1; node < tree.parent.length; node++) assert.ok(tree.parent[node]! < node);
  }
});

test('a wait counts for its part inside the range, even if it ends after it', () => {
  const samples = {
    time: Float64Array.of(50, 110, 150, 300), thread: Uint32Array.of(0, 0, 0, 0), stack: Uint32Array.of(0, 1, 2, 3),
    value: Float64Array.of(20, 50, 20, 160), reason: Uint8Array.of(1, 1, 1, 1),
  };
  const range = [100, 200] as const;
  assert.deepEqual([...stackWeights(samples, 4, { ...ALL, range })], [0, 10, 20, 60]);
  assert.equal(countSamples(samples, { ...ALL, range }), 3);
  assert.deepEqual([...stackWeights(samples, 4, ALL)], [20, 50, 20, 160]);
  assert.equal(movedWeights(samples, { ...ALL, range }, new Float64Array(4), [0, 4]), undefined);
  // Samples of CPU time are points in time.
  const { reason, ...moments } = samples;
  assert.deepEqual([...stackWeights(moments, 4, { ...ALL, range })], [0, 50, 20, 0]);
});
