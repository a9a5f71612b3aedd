// The timeline's sums, tracks, lanes and ticks, and selecting threads and time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heap } from '../../test/heap.mjs';
import { Payload, realistic, small, threads } from '../../test/make-payload.mjs';
import { Model } from '../model.ts';
import { decode } from '../payload.ts';
import { activity, byThread, highest, KIND_COUNT, stackKinds, stretches } from './activity.ts';
import { brushKey } from './keyboard.ts';
import { packLanes } from './lanes.ts';
import { clock, ticks } from './ruler.ts';
import { chooseThread } from './threads.ts';
import { tracksBetween, tracksOf } from './tracks.ts';
import { movedRanges, shownRanges, wheelRanges } from './wheel.ts';

const samplesOf = (model: Model) => byThread(model.profile.samples[0]!, model.profile.threads.count, stackKinds(model));

test('a busy thread is busy all the time', () => {
  const model = new Model(decode(small())), samples = samplesOf(model);
  const bins = activity(samples, 0, 1, [0, 10_000_000], 10);
  const sums = Array.from({ length: 10 }, (_, bin) => Array.from({ length: KIND_COUNT }, (_, kind) => bins[kind * 10 + bin]!).reduce((a, b) => a + b));
  assert.deepEqual(sums.map(sum => +sum.toFixed(6)), [1, 1, 1, 1, 1, 1, 0, 0, 0, 0]);
  assert.equal(+bins[3 * 10]!.toFixed(6), 1, 'first the inlined std function');
  assert.equal(+bins[4 * 10 + 5]!.toFixed(6), 1, 'then the allocator');
});

test('the bins add up to the samples, for any number of bins', () => {
  const model = new Model(decode(realistic({ samples: 3000 }))), samples = samplesOf(model);
  for (const count of [1, 7, 100, 5000]) {
    for (let thread = 0; thread < model.profile.threads.count; thread++) {
      const bins = activity(samples, thread, 1, [-1e9, 13e9], count);
      const sum = bins.reduce((a, b) => a + b, 0) * 14e9 / count;
      assert.ok(Math.abs(sum - samples.total[thread]!) <= samples.total[thread]! * 1e-6 + 1, `${count} bins, thread ${thread}`);
      const counted = activity(samples, thread, 0, [-1e9, 13e9], count).reduce((a, b) => a + b, 0);
      assert.ok(Math.abs(counted - samples.total[thread]!) <= samples.total[thread]! * 1e-9 + 1e-6);
    }
  }
});

test('sums fill their interval', () => {
  const model = new Model(decode(heap()));
  const table = model.profile.samples[0]!;
  const samples = byThread(table, 2, stackKinds(model), stretches(table, model.duration));
  for (const count of [1, 7, 100, 333]) {
    for (const thread of [0, 1]) {
      const bins = activity(samples, thread, 2, [0, 1e9], count);
      assert.ok(Math.abs(bins.reduce((a, b) => a + b, 0) - samples.total[thread]!) < 1, `${count} bins, thread ${thread}`);
    }
  }
  // 10 ms in 10 bins: the job's bytes of every second interval.
  const own = Array.from(activity(samples, 1, 2, [10e6, 30e6], 2).subarray(2, 4));
  assert.deepEqual(own.map(Math.round), [0, 20 * 4096]);
  const most = highest(samples, 2, [0, 1e9], 100);
  assert.equal(Math.round(most), 10 * 65536 + 100 * 1024 + 32000);
  assert.equal(stretches({ ...table, time: new Float64Array(table.time.length) }, 1e9), undefined, 'all at one time');
});

test('tracks: processes by weight, a thousand threads, only those in view', () => {
  const model = new Model(decode(threads())), samples = samplesOf(model);
  const { list, threads: order, height } = tracksOf(model, samples.total);
  assert.equal(order.length, 1000);
  assert.equal(new Set(order).size, 1000);
  let y = 0;
  for (const track of list) { assert.equal(track.y, y); y += track.height; }
  assert.equal(height, y);
  const seen = tracksBetween(list, 5000, 5200);
  assert.ok(seen.length < 12 && seen[0]!.y <= 5000 && seen.at(-1)!.y + seen.at(-1)!.height >= 5200);
});

test('overlapping spans are on different lanes', () => {
  const pack = (start: number[], end: number[]): [number, number[]] => {
    const lanes = new Uint32Array(start.length);
    return [packLanes([...start.keys()], Float64Array.from(start), Float64Array.from(end), lanes), [...lanes]];
  };
  assert.deepEqual(pack([0, 1, 2, 5, 6], [4, 3, NaN, 6, 7]), [3, [0, 1, 2, 0, 0]]);
  assert.deepEqual(pack([], []), [0, []]);
  assert.deepEqual(pack([1, 1, 2], [1, 1, 2]), [2, [0, 1, 0]], 'spans of length zero take a nanosecond');
  const many = Array.from({ length: 50_000 }, (_, at) => at);
  assert.equal(pack(many, many.map(() => 1e9))[0], 50_000, 'as many lanes as it takes');
});

test('threads are selected like files', () => {
  const order = [3, 1, 0, 2];
  assert.deepEqual(chooseThread(order, 4, undefined, 1, undefined, false), [1]);
  assert.equal(chooseThread(order, 4, [1], 1, undefined, false), undefined);
  assert.deepEqual(chooseThread(order, 4, [1], 2, undefined, true), [1, 2]);
  assert.equal(chooseThread(order, 4, [1], 1, undefined, true), undefined);
  assert.deepEqual(chooseThread(order, 4, [3], 0, 0, false), [0, 1, 3]);
  assert.equal(chooseThread(order, 4, [3], 2, 0, false), undefined, 'all of them is not a selection');
  assert.deepEqual(chooseThread(order, 5, [3], 2, 0, false), [0, 1, 2, 3], 'one is hidden');
});

test('time selection by keyboard', () => {
  const key = (key: string, more = {}) => ({ key, shiftKey: false, altKey: false, ctrlKey: false, metaKey: false, ...more });
  assert.deepEqual(brushKey(key('ArrowRight'), [0, 1000], undefined), [450, 550]);
  assert.deepEqual(brushKey(key('ArrowRight'), [0, 1000], [450, 550]), [460, 560]);
  assert.deepEqual(brushKey(key('ArrowRight', { altKey: true }), [0, 1000], [850, 950]), [900, 1000], 'remains inside');
  assert.deepEqual(brushKey(key('ArrowLeft', { shiftKey: true }), [0, 1000], [450, 550]), [450, 540]);
  assert.equal(brushKey(key('x'), [0, 1000], [450, 550]), undefined);
});

test('round times', () => {
  assert.deepEqual(ticks(0, 12e9, 1200).map(({ text }) => text), ['0', '2 s', '4 s', '6 s', '8 s', '10 s', '12 s']);
  assert.deepEqual(ticks(1e9, 1.002e9, 500).map(({ text }) => text), ['1.0000 s', '1.0005 s', '1.0010 s', '1.0015 s', '1.0020 s']);
  assert.equal(clock(125e9, 1e9), '2:05 min');
  for (const [from, to, width] of [[1.93e9, 1.96e9, 1200], [0.99e9, 1.01e9, 900], [59e9, 61e9, 1600], [999e3, 1001e3, 700], [0, 7, 300], [3599e9, 3601e9, 1000]] as const) {
    const texts = ticks(from, to, width).map(({ text }) => text);
    assert.ok(texts.length > 1 && new Set(texts).size === texts.length, `labels do not repeat: ${texts}`);
  }
  assert.ok(ticks(0, 1, 1e6).length < 1001);
});

test('the wheel zooms time, inside the outer range', () => {
  assert.deepEqual(wheelRanges([], [0, 1e6], 5e5, .5, true), [[250_000, 750_000]]);
  assert.deepEqual(wheelRanges([[250_000, 750_000]], [0, 1e6], 5e5, .5, false), [[375_000, 625_000]]);
  assert.deepEqual(wheelRanges([[250_000, 750_000]], [0, 1e6], 5e5, .5, true), [[250_000, 750_000], [375_000, 625_000]]);
  assert.deepEqual(wheelRanges([[250_000, 750_000]], [0, 1e6], 5e5, 3, false), [], 'as wide as everything: removed');
  assert.deepEqual(wheelRanges([[500_000, 501_000]], [0, 1e6], 500_500, .5, false), [[500_000, 501_000]], 'not narrower than a microsecond');
});

test('a given time replaces the last range or is a new one, and moves inside the one around it', () => {
  assert.deepEqual(shownRanges([], [0, 1e6], [2e5, 4e5], true), [[200_000, 400_000]]);
  assert.deepEqual(shownRanges([[1e5, 9e5]], [0, 1e6], [0, 4e5], true), [[1e5, 9e5], [1e5, 4e5]], 'inside the one around it');
  assert.deepEqual(movedRanges([[1e5, 9e5], [2e5, 4e5]], [0, 1e6], 7e5), [[1e5, 9e5], [7e5, 9e5]]);
  assert.deepEqual(movedRanges([[1e5, 3e5]], [0, 1e6], -5e5), [[0, 200_000]]);
  assert.deepEqual(movedRanges([], [0, 1e6], 5e5), []);
});

test('processes are a tree, and one with one thread is one row', () => {
  const p = new Payload();
  const make = p.process(1, 'make'), cc = p.process(2, 'cc', make), as = p.process(3, 'as', cc), ld = p.process(4, 'ld', make), other = p.process(5, 'other');
  for (const [process, tid] of [[make, 1], [cc, 2], [as, 3], [ld, 4], [other, 5], [other, 6]] as const) p.thread(process, tid, `t${tid}`);
  p.metric('cpu-time', 1);
  const model = new Model(decode(p.container()));
  const shown = tracksOf(model, Float64Array.of(0, 5, 1, 2, 3, 90)).list.map(track => (track.kind === 'process' ? `process ${track.process}` : track.kind === 'thread' ? `${'  '.repeat(track.level)}thread ${track.thread} of ${track.process ?? '-'}` : track.kind));
  assert.deepEqual(shown, ['process 4', 'thread 5 of -', 'thread 4 of -', 'thread 0 of 0', '  thread 1 of 1', '    thread 2 of 2', '  thread 3 of 3']);
  model.profile.processes.parent[make] = as;
  assert.equal(tracksOf(model, new Float64Array(6)).threads.length, 6, 'processes that started each other are all there');
});

test('many threads of one name, and many processes of one name, are one row until it is opened', () => {
  const p = new Payload();
  const make = p.process(1, 'make'), pool = p.process(2, 'pool');
  p.thread(make, 1, 'make');
  for (let at = 0; at < 6; at++) p.thread(p.process(10 + at, at % 2 ? 'cc1' : 'cc', make), 10 + at, 'x');
  for (let at = 0; at < 3; at++) p.thread(p.process(20 + at, 'cc1', make), 20 + at, 'x');
  p.thread(pool, 2, 'pool');
  for (let at = 0; at < 9; at++) p.thread(pool, 30 + at, 'worker');
  p.metric('cpu-time', 1);
  const model = new Model(decode(p.container())), none = new Float64Array(model.profile.threads.count);
  const shown = (changed: string[] = []) => {
    const { list, threads, stops } = tracksOf(model, none, new Set(changed));
    assert.equal(new Set(threads).size, 20, 'every thread is in the order');
    return { rows: list.map(track => (track.kind === 'group' ? `${track.name} × ${track.threads.length}` : track.kind)), stops: stops.length };
  };
  assert.deepEqual(shown().rows, ['thread', 'thread', 'cc1 × 6', 'thread', 'thread', 'process', 'thread', 'worker × 9']);
  assert.deepEqual(shown(['g2']).rows, ['thread', 'thread', 'cc1 × 6', ...Array(6).fill('thread'), 'thread', 'thread', 'process', 'thread', 'worker × 9']);
  assert.deepEqual(shown(['groups']).rows, [...Array(10).fill('thread'), 'process', ...Array(10).fill('thread')]);
  assert.equal(shown().stops, 8, 'groups are in the keyboard order');
});
