// Results of `whyslow bench` decoded from a payload, and the axes of their plots.

import assert from 'node:assert/strict';
import test from 'node:test';
import { measured } from '../../test/measured.mjs';
import { PayloadError, readContainer } from '../container.ts';
import { decodeResults } from './results.ts';
import { change, roundValues, scale } from './scale.ts';

const results = (options = {}) => decodeResults(readContainer(measured(options)));

test('results keep whyslow’s verdicts', () => {
  const { answers, commands, metrics, remarks } = results();
  assert.deepEqual(answers.map(({ verdict }) => verdict), ['faster', 'undecided']);
  assert.equal(commands[1]!.name, './app <new>');
  assert.deepEqual(remarks, [{ severity: 'warning', message: 'the machine was busy', fix: 'end what else runs' }]);
  const [wall, memory] = metrics;
  assert.deepEqual([wall!.decides, memory!.decides, memory!.unit], [true, false, 2]);
  assert.deepEqual(wall!.runs.map(runs => runs.length), [12, 12, 12]);
  const [faster] = wall!.comparisons;
  assert.deepEqual([faster!.verdict, faster!.low, faster!.high, faster!.dots.length], ['faster', .894, .906, 12]);
  assert.ok(faster!.dots.every(dot => dot > .88 && dot < .92));
  assert.equal(results({ commands: 1 }).metrics[0]!.comparisons.length, 0);
});

test('a comparison with a missing command is refused', () => {
  assert.throws(() => results({ damage: true }), PayloadError);
});

test('an axis fits all values, and a single one', () => {
  const axis = scale([2, 4, NaN], 0, 108)!;
  assert.deepEqual([axis.low, axis.high, ...[2, 3, 4].map(value => Math.round(axis.at(value)))], [2, 4, 4, 54, 104]);
  assert.equal(scale([], 0, 100), undefined);
  assert.equal(scale([NaN], 0, 100), undefined);
  assert.equal(Math.round(scale([5, 5], 0, 100)!.at(5)), 50);
  assert.equal(Math.round(scale([0], 0, 100)!.at(0)), 50);
  const wide = scale([0], 0, 100, [-1, 1])!;
  assert.equal(Math.round(wide.at(0)), 50);
});

test('a ratio is shown as a change', () => {
  assert.deepEqual([.884, 1, 1.0001, 1.5, 12].map(change), ['−11.6 %', '0.0 %', '0.0 %', '+50.0 %', '+1100.0 %']);
});

test('an axis has several round labels', () => {
  assert.deepEqual(roundValues(0.93, 1.31, 5).map(value => +value.toFixed(6)), [1, 1.1, 1.2, 1.3]);
  assert.deepEqual(roundValues(-0.12, 0.03, 6).map(value => +value.toFixed(6)), [-0.1, -0.05, 0]);
  assert.deepEqual(roundValues(3, 3, 5), []);
  assert.deepEqual(roundValues(NaN, 1, 5), []);
});
