// The heap: live bytes at any time, sort orders of the allocation sites, and the link to the flame graph.
// test/heap.mjs has the numbers.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heap } from '../test/heap.mjs';
import { random, small } from '../test/make-payload.mjs';
import { callTree, whole } from './derive.ts';
import { nodeAt } from './flame/path.ts';
import { requestedByKind, requesterKinds, bars, inFlame, margin, ordersOf, sites, sorted } from './heap.ts';
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
  assert.equal(live({ ranges: [[0, 500 * MS]], brush: [10 * MS, 85 * MS] }), 9 * (cache + parse) + job, 'the time selection counts, not the range around it');
  assert.equal(live({ brush: [0, 595 * MS] }), model.profile.heapFacts!.peakBytes);
  assert.equal(live({ brush: [0, 85 * MS], threads: [1] }), job, 'of a thread');
});

test('live bytes are right at every time of a random heap', () => {
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

test('a snapshot shows blocks live at that time, not at exit', () => {
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

test('every order shows the sites with a value, largest first', () => {
  const all = sites(model);
  const names = (id: string): string[] => sorted(all, ordersOf(all, false).find(order => order.id === id)!).map(site => model.short(model.profile.heap.function[site.row]!));
  assert.deepEqual(names('peak'), ['parse::tokens', 'cache::insert']);
  assert.deepEqual(names('total'), ['parse::tokens', 'cache::insert', 'job::run', 'print::label']);
  assert.deepEqual(names('count'), ['print::label', 'cache::insert', 'job::run', 'parse::tokens']);
  assert.deepEqual(names('temporary'), ['print::label']);
  assert.deepEqual(names('leaks'), ['cache::insert']);
  assert.deepEqual(names('growing'), ['cache::insert']);
  assert.deepEqual(names('chains'), ['parse::tokens']);
  assert.deepEqual(ordersOf(all, false).map(order => order.id), ['peak', 'total', 'count', 'temporary', 'leaks', 'exit', 'growing', 'chains'], 'unused bytes were not recorded');
});

test('memory counts for the code that requested it, not for the allocator', () => {
  const requested = [...requestedByKind(model, START)];
  assert.deepEqual(requested, [0, model.profile.heapFacts!.totals.bytes_allocated, 0, 0, 0, 0, 0]);
  const hidden: State = { ...START, transforms: [{ kind: 'hide', fn: model.profile.heap.function[0]! }] };
  assert.equal(requestedByKind(model, hidden)[1], requested[1]! - 500 * 65536, 'only for the shown stacks');
  const plain = new Model(decode(small()));
  const names = [...new Set([...requesterKinds(plain)])].sort();
  assert.deepEqual(names, [0, 1], 'yours, or code without a symbol');
});

test('estimated totals show their error', () => {
  const facts = { ...model.profile.heapFacts!, intervals: new Map<string, [number, number]>([
    ['allocations', [80, 130]], ['frees', [50, 1300]], ['bytes_allocated', [2048, 1e9]], ['peak_blocks', [100, 1300]],
  ]) };
  assert.equal(margin(facts, 'allocations', 100), ' ±30.0 %');
  assert.equal(margin(facts, 'peak_bytes', 100), '', 'counted');
  assert.equal(margin(facts, 'frees', 100), ' (at least 50)');
  assert.equal(margin(facts, 'bytes_allocated', 4096), ' (at least 2.00 KiB)');
  assert.equal(margin(facts, 'peak_blocks', 100), ' or more');
});

test('sites that grow often have advice', () => {
  assert.deepEqual(sites(model).map(({ advice }) => advice).filter(Boolean), ['`with_capacity` for 64.0 KiB would save all of these reallocations, with nothing unused in a typical block']);
});

test('histograms of a site and of the whole program', () => {
  assert.deepEqual(bars(model, 3, 'size'), [{ label: '< 32 B', blocks: 20000 }, { label: '< 64 B', blocks: 80000 }]);
  assert.deepEqual(bars(model, 3, 'lifetime').map(bar => bar.blocks), [12000, 70000, 0, 18000], 'without gaps');
  assert.equal(bars(model, undefined, 'size').reduce((sum, bar) => sum + bar.blocks, 0), 111_500);
  assert.deepEqual(bars(model, 1, 'lifetime'), []);
});

test('a site links to its function in the flame graph, whatever is merged or hidden', () => {
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

test('selecting all time and threads gives the numbers of the whole run', () => {
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
