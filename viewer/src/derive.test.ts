// What panels compute from a state.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NONE, Payload, small } from '../test/make-payload.mjs';
import { sampleCount } from './derive.ts';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { START } from './state.ts';

test('focus and hide leave samples out of their number', () => {
  const model = new Model(decode(small()));
  const fn = (name: string): number => Array.from({ length: model.functionCount }, (_, fn) => fn).find(fn => model.name(fn) === name)!;
  assert.equal(sampleCount(model, START), 100);
  assert.equal(sampleCount(model, { ...START, transforms: [{ kind: 'focus', fn: fn('app::parse') }] }), 60);
  assert.equal(sampleCount(model, { ...START, transforms: [{ kind: 'hide', fn: fn('app::parse') }] }), 40);
  assert.equal(sampleCount(model, { ...START, transforms: [{ kind: 'merge', fn: fn('app::parse') }] }), 100);
});

test('rows of other tools count all samples that they stand for; time without samples counts none', () => {
  const p = new Payload(), thread = p.thread(p.process(1, 'app'), 1, 'main');
  const at = (name: string, address: number) => p.stack(NONE, p.location(NONE, address, [[p.fn(name), undefined, 0]]));
  const gap = p.stack(NONE, p.location(p.module('[not sampled]', 6), 9, []));
  const cpu = p.metric('cpu-time', 1), samples = p.metric('samples', 0);
  const rows: [number, number, number][] = [[at('a', 1), 1000, 100], [at('b', 2), 500, 50], [at('c', 3), 10, 0], [gap, 700, 0]];
  for (const [stack, time, count] of rows) {
    p.sample(cpu, 0, thread, stack, time);
    if (count) p.sample(samples, 0, thread, stack, count);
  }
  const model = new Model(decode(p.container()));
  assert.equal(sampleCount(model, START), 151);
  assert.equal(sampleCount(model, { ...START, metric: 1 }), 150);
});
