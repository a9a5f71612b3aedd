// The heap: live bytes at any time, orders of the lines that allocate, and the way to the flame graph. test/heap.mjs has the numbers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heap } from '../test/heap.mjs';
import { random, small } from '../test/make-payload.mjs';
import { callTree, whole } from './derive.ts';
import { nodeAt } from './flame/path.ts';
import { advice, askedBy, askers, bars, inFlame, margin, ordersOf, sites, sorted } from './heap.ts';
import { sitesIn } from './heaptime.ts';
import { difference } from './live.ts';
import { Model } from './model.ts';
import { decode, type SampleTable } from './payload.ts';
import { START, type State } from './state.ts';

const model = new Model(decode(heap()));
const MS = 1e6;
const live = (state: Partial<State>): number => whole(model, { ...START, metric: model.live!, ...state });

test('live bytes are those at the end of the selected time', () => {
  const cache = 100 * 1024, parse = 10 * 65536, job = 20 * 4096;
  assert.equal(live({}), 100 * cache, 'at the end');
  assert.equal(live({ brush: [0, 95 * MS] }), 10 * cache + 10 * parse, 'job is freed in every second step');
  assert.equal(live({ brush: [90 * MS, 95 * MS] }), live({ brush: [0, 95 * MS] }), 'the start of the range does not matter');
  assert.equal(live({ ranges: [[0, 500 * MS]], brush: [10 * MS, 85 * MS] }), 9 * (cache + parse) + job, 'the brush counts, not the range around it');
  assert.equal(live({ brush: [0, 595 * MS] }), model.profile.heapFacts!.peakBytes);
  assert.equal(live({ brush: [0, 85 * MS], threads: [1] }), job, 'of a thread');
});

test('live bytes go with every moment of a random heap', () => {
  const next = random(7);
  const table = (count: number): SampleTable => {
    const time = Float64Array.from({ length: count }, () => Math.floor(next() * 50)).sort();
    return { time, thread: new Uint32Array(count), stack: new Uint32Array(count), value: Float64Array.from({ length: count }, () => Math.floor(next() * 9)) };
  };
  const upTo = (table: SampleTable, end: number): number => table.value.reduce((sum, value, at) => (table.time[at]! <= end ? sum + value : sum), 0);
  for (let n = 0; n < 50; n++) {
    const more = table(30), less = table(20), both = difference(more, less);
    assert.ok(both.time.every((time, at) => at === 0 || both.time[at - 1]! <= time));
    for (let end = 0; end < 50; end += 7) assert.equal(upTo(both, end), upTo(more, end) - upTo(less, end));
  }
});

test('a snapshot shows what is live then, not at an exit', () => {
  const model = new Model(decode(heap({ snapshot: { pid: 7, time_ns: 1e9 } })));
  assert.equal(model.profile.heapFacts!.isSnapshot, true);
  const [first, ...others] = ordersOf(sites(model), true);
  assert.deepEqual([first!.id, first!.title, first!.cells[0]!.title], ['exit', 'Live at snapshot', 'Live']);
  assert.ok(others.every(({ title, help, cells }) => ![title, help, ...cells.map(cell => cell.title)].some(words => /exit|never freed/.test(words))));
});

test('a profile without a heap has no live bytes', () => {
  const plain = new Model(decode(small()));
  assert.equal(plain.live, undefined);
  assert.equal(plain.isHeapMetric(0), false);
  assert.equal(plain.profile.heap.count, 0);
});

test('every order shows the lines that have something of it, most first', () => {
  const all = sites(model);
  const names = (id: string): string[] => sorted(all, ordersOf(all, false).find(order => order.id === id)!).map(site => model.short(model.profile.heap.function[site.row]!));
  assert.deepEqual(names('peak'), ['parse::tokens', 'cache::insert']);
  assert.deepEqual(names('total'), ['parse::tokens', 'cache::insert', 'job::run', 'print::label']);
  assert.deepEqual(names('count'), ['print::label', 'cache::insert', 'job::run', 'parse::tokens']);
  assert.deepEqual(names('temporary'), ['print::label']);
  assert.deepEqual(names('leaks'), ['cache::insert']);
  assert.deepEqual(names('growing'), ['cache::insert']);
  assert.deepEqual(names('chains'), ['parse::tokens']);
  assert.deepEqual(ordersOf(all, false).map(order => order.id), ['peak', 'total', 'count', 'temporary', 'leaks', 'exit', 'growing', 'chains'], 'unused bytes were not looked for');
});

test('memory belongs to whoever asked for it, not to the allocator', () => {
  const asked = [...askedBy(model, START)];
  assert.deepEqual(asked, [0, model.profile.heapFacts!.totals.bytes_allocated, 0, 0, 0, 0, 0]);
  const hidden: State = { ...START, transforms: [{ kind: 'hide', fn: model.profile.heap.function[0]! }] };
  assert.equal(askedBy(model, hidden)[1], asked[1]! - 500 * 65536, 'of what is shown');
  const plain = new Model(decode(small()));
  const names = [...new Set([...askers(plain)])].sort();
  assert.deepEqual(names, [0, 1], 'of yours, or of code without a name');
});

test('estimated totals say how rough they are', () => {
  const facts = { ...model.profile.heapFacts!, intervals: new Map<string, [number, number]>([['allocations', [80, 130]]]) };
  assert.equal(margin(facts, 'allocations', 100), ' ±30.0 %');
  assert.equal(margin(facts, 'peak_bytes', 100), '', 'counted');
});

test('advice is given to what grows often', () => {
  const [parse, cache] = sites(model);
  assert.equal(advice(parse!), 'Each Vec grew 10.0 times on average. with_capacity for 64.0 KiB would spare all of that, at no cost to a typical one.');
  assert.equal(advice({ ...parse!, capacity: 1024, sparedReallocations: 400, sparedBytes: 2048, typicalUnused: 512 }),
    'Each Vec grew 10.0 times on average. with_capacity for 1.00 KiB would spare 400 of the reallocations and 2.00 KiB of the copying, and leave 512 B of a typical one unused.');
  assert.equal(advice(cache!), '');
});

test('histograms of a line and of the whole', () => {
  assert.deepEqual(bars(model, 3, 'size'), [{ label: '< 32 B', blocks: 20000 }, { label: '< 64 B', blocks: 80000 }]);
  assert.deepEqual(bars(model, 3, 'lifetime').map(bar => bar.blocks), [12000, 70000, 0, 18000], 'without gaps');
  assert.equal(bars(model, undefined, 'size').reduce((sum, bar) => sum + bar.blocks, 0), 111_500);
  assert.deepEqual(bars(model, 1, 'lifetime'), []);
});

test('a line leads to its function in the flame graph, whatever is merged or hidden', () => {
  const changes: Partial<State>[] = [{}, { inverted: true }, { generics: true }, { inline: false }, { transforms: [{ kind: 'hide', fn: model.profile.heap.function[0]! }] }];
  for (const change of changes) {
    const state: State = { ...START, ...change };
    const shown = { ...state, ...inFlame(model, state, 0) };
    const { node, whole } = nodeAt(callTree(model, shown), shown.zoom);
    assert.ok(whole && node > 0, JSON.stringify(change));
    assert.equal(model.name(callTree(model, shown).fn[node]!), 'known::parse::tokens');
    assert.equal(callTree(model, shown).total[node], 500 * 65536);
  }
});

test('the whole time and all threads have what the whole run has', () => {
  const all = sites(model);
  for (const state of [START, { ...START, brush: [0, 1000 * MS] as const }, { ...START, threads: [0, 1] }]) {
    const part = sitesIn(model, state, all);
    assert.equal(part.length, all.length);
    part.forEach((site, at) => {
      for (const column of ['bytes_allocated', 'allocations', 'temporary', 'lifetime_ns', 'peak_bytes'] as const) assert.equal(site.numbers(column), all[at]!.numbers(column), `${at} ${column}`);
    });
  }
  const early = sitesIn(model, { ...START, brush: [0, 100 * MS] }, all);
  assert.deepEqual(early.map(({ numbers }) => numbers('allocations')).sort((a, b) => a - b), [100, 100, 1000, 10_000]);
  assert.deepEqual(sitesIn(model, { ...START, brush: [2000 * MS, 3000 * MS] }, all), []);
});
