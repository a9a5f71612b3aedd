// What panels compute from a state.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NONE, Payload, small } from '../test/make-payload.mjs';
import { callTree, ownValues, sampleCount, selfValues, functionTable, whole } from './derive.ts';
import { stackText } from './flame/stacktext.ts';
import { functionRows, parseSort } from './functionrows.ts';
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

test('totals without a tree are those of the tree', () => {
  const model = new Model(decode(small()));
  for (const transforms of [[], [{ kind: 'hide', fn: 1 }], [{ kind: 'merge', fn: 0 }]] as const) {
    const state = { ...START, transforms };
    assert.equal(whole(model, state), callTree(model, state).total[0]);
    assert.deepEqual(selfValues(model, state), functionTable(model, state).self);
  }
});

test('the first function is that of the answer: code of others counts for the function that calls it', () => {
  const p = new Payload(), thread = p.thread(p.process(1, 'app'), 1, 'main'), cpu = p.metric('cpu-time', 1);
  const [main, parse, next] = [p.fn('app::main'), p.fn('app::parse'), p.fn('core::next', 'core', 'std')];
  const at = (parent: number, fn: number, address: number) => p.stack(parent, p.location(NONE, address, [[fn, 'a.rs', address]]));
  const root = at(NONE, main, 1), inner = at(root, parse, 2), deep = at(inner, next, 3);
  for (const [stack, charged, time] of [[root, main, 30], [inner, parse, 10], [deep, parse, 60]] as const) {
    p.charge(stack, charged, 'a.rs', 1);
    p.sample(cpu, time, thread, stack, time);
  }
  const model = new Model(decode(p.container())), { own } = ownValues(model, START);
  assert.deepEqual([main, parse, next].map(fn => own![fn]), [30, 70, 0]);
  assert.equal(functionRows(model, START, parseSort(undefined, true))[0], parse);
  assert.equal(functionRows(model, START, parseSort(undefined))[0], next, 'by self where nothing is charged');
  assert.equal(ownValues(new Model(decode(small())), START).own, undefined);
  const tree = callTree(model, START);
  assert.equal(stackText(model, tree, tree.fn.indexOf(parse), false), 'app::parse\napp::main');
});
