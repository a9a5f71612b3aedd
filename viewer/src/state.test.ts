// The state: to the address and back, undo and redo, and Escape.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { random } from '../test/make-payload.mjs';
import { begin, change, escape, fit, fromHash, LIMIT, redo, START, toHash, transformed, travel, undo, zoomIntoBrush, type State } from './state.ts';

const FULL: State = {
  metric: 2, threads: [0, 5, 40], ranges: [[0, 5e9], [1e9, 2e9]], brush: [1_200_000_000, 1_300_000_001], spans: { kind: 'name', span: 12, all: true }, search: 'Vec<T> & "x" %= #',
  regex: true, finding: 3, inverted: true, icicle: true, inline: false, colour: 'crate', generics: true, collapse: true,
  own: true, whole: true, byName: true,
  transforms: [{ kind: 'focus', fn: 77 }, { kind: 'hide', fn: 0 }, { kind: 'merge', fn: 123456 }, { kind: 'collapse', fn: 4 }, { kind: 'library', fn: 5 }, { kind: 'subtree', fn: 40, path: [3, 1, 40] }, { kind: 'node', fn: 2, path: [2] }], fn: 9, zoom: [1, 2, 3, 1], tab: 'functions', theme: 'dark',
  panel: { 'functions-sort': 'total', 'timeline-height': '200' },
};

test('an address restores the view', () => {
  assert.deepEqual(fromHash('#' + toHash(FULL)), FULL);
  assert.deepEqual(fromHash(''), START);
  assert.equal(toHash(START), '');
});

test('a path 10,000 deep fits into an address', () => {
  const zoom = Array.from({ length: 10_000 }, (_, at) => at % 50);
  assert.deepEqual(fromHash(toHash({ ...START, zoom })).zoom, zoom);
});

test('any text after # gives a valid state', () => {
  const next = random(4), pieces = ['tab=', 'm=', 't=', 'r=', 'b=', 'q=', 'x=', 'z=', 'fn=', 'on=', 's=', 'c=', 'theme=', 'p.x=', '&', '.', '-', 'f', 'zz', '%', '%zz', '9'.repeat(20), 'functions', 'null', '<', '\u202e'];
  for (let n = 0; n < 2000; n++) {
    const text = Array.from({ length: 12 }, () => pieces[Math.floor(next() * pieces.length)]).join('');
    const state = fit(fromHash(text), { metrics: 1, threads: 2, functions: 10, spans: 1, findings: 2, duration: 1e9, tabs: ['flame', 'functions'] });
    assert.equal(state.metric, 0);
    assert.ok(!state.threads || state.threads.every(thread => thread < 2));
    assert.ok(state.fn === undefined || state.fn < 10);
    assert.deepEqual(fromHash(toHash(state)), state);
  }
});

test('an address of another profile drops what does not exist here', () => {
  const fitted = fit(FULL, { metrics: 1, threads: 6, functions: 100, spans: 3, findings: 3, duration: 1.5e9, tabs: ['flame'] });
  assert.equal(fitted.tab, 'flame');
  assert.equal(fitted.metric, 0);
  assert.deepEqual(fitted.threads, [0, 5]);
  assert.equal(fitted.spans, undefined);
  assert.equal(fitted.finding, undefined);
  assert.deepEqual(fitted.transforms, FULL.transforms.filter(({ fn }) => fn !== 123456));
  assert.deepEqual(fit(FULL, { metrics: 1, threads: 6, functions: 3, spans: 3, findings: 3, duration: 1.5e9, tabs: ['flame'] }).transforms, [{ kind: 'hide', fn: 0 }, { kind: 'node', fn: 2, path: [2] }], 'every function of a path');
});

test('undo and redo', () => {
  let history = begin(START);
  history = change(history, { inverted: true });
  history = change(history, { search: 'a' }, 'search');
  history = change(history, { search: 'ab' }, 'search');
  assert.equal(history.past.length, 2, 'typing is one step');
  history = change(history, { tab: 'tree' });
  assert.equal(history.past.length, 2, 'going to another panel is not a step');
  history = undo(history);
  assert.equal(history.present.search, '');
  assert.equal(history.present.tab, 'tree', 'undo does not leave the panel');
  history = undo(history);
  assert.equal(history.present.inverted, false);
  assert.equal(undo(history), history);
  history = redo(redo(history));
  assert.deepEqual([history.present.inverted, history.present.search], [true, 'ab']);
  assert.equal(redo(history), history);
  history = change(undo(history), { regex: true });
  assert.equal(history.future.length, 0);
});

test('an empty change is not a step', () => {
  const history = begin(START);
  assert.equal(change(history, { search: '' }), history);
  assert.equal(change(history, { ranges: [] }), history);
});

test('history is limited', () => {
  let history = begin(START);
  for (let n = 0; n < LIMIT + 50; n++) history = change(history, { search: String(n) });
  assert.equal(history.past.length, LIMIT);
});

test('travels to a step by its number, and reads an unknown step from the address', () => {
  let history = begin(START, 7);
  for (const search of ['a', 'b', 'c']) history = change(history, { search });
  assert.deepEqual([history.at, history.made], [10, 3]);
  const otherwise = (): State => ({ ...START, search: 'address', tab: 'heap' });
  const back = travel({ ...history, present: { ...history.present, tab: 'tree' } }, 8, otherwise);
  assert.deepEqual([back.present.search, back.present.tab, back.at, back.future.length], ['a', 'tree', 8, 2]);
  assert.equal(travel(back, 10, otherwise).present.search, 'c');
  const before = travel(back, 3, otherwise);
  assert.deepEqual([before.present.search, before.present.tab, before.at, before.past.length], ['address', 'tree', 3, 0]);
});

test('the zoom resets when the tree changes', () => {
  const zoomed = change(begin(START), { zoom: [1, 2] });
  assert.deepEqual(change(zoomed, { inverted: true }).present.zoom, []);
  assert.deepEqual(change(zoomed, { transforms: [{ kind: 'focus', fn: 1 }] }).present.zoom, []);
  assert.deepEqual(change(zoomed, { brush: [0, 1] }).present.zoom, [1, 2]);
});

test('Escape goes back one step at a time', () => {
  let state: State = FULL, steps = 0;
  for (; Object.keys(escape(state)).length; steps++) state = { ...state, ...escape(state) };
  assert.equal(steps, 15);
  assert.deepEqual([state.zoom, state.brush, state.ranges, state.spans, state.search, state.finding, state.transforms, state.threads], [[], undefined, [], undefined, '', undefined, [], undefined]);
});

test('time selection, ranges and transforms', () => {
  assert.deepEqual(zoomIntoBrush({ ...START, brush: [1, 2] }), { ranges: [[1, 2]], brush: undefined });
  assert.deepEqual(zoomIntoBrush(START), {});
  assert.deepEqual(transformed({ ...START, transforms: [{ kind: 'hide', fn: 1 }] }, { kind: 'hide', fn: 1 }), {});
});
