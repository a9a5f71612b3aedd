// How names and numbers are displayed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { columns } from './flame/label.ts';
import { amount, duration, share } from './format.ts';
import { clean } from './names.ts';

test('hostile names are harmless', () => {
  assert.equal(clean('a\x1b[31mb\r\n'), 'a\\u{1b}[31mb\\u{d}\\u{a}');
  assert.equal(clean('a\u009b2J\u202eb\0'), 'a\\u{9b}2J\\u{202e}b\\u{0}');
});

test('numbers as in the text reports', () => {
  assert.deepEqual([0, 999, 1_000, 12_340, 999_999, 1_500_000, 123_456_789, 1_234_000_000, 59_990_000_000].map(duration),
    ['0 ns', '999 ns', '1.00 µs', '12.3 µs', '1.00 ms', '1.50 ms', '123 ms', '1.23 s', '60.0 s']);
  assert.equal(duration(200e9), '3 min 20 s');
  assert.equal(duration(3720e9), '1 h 02 min');
  assert.deepEqual([amount(1536, 2), amount(5 * 2 ** 30, 2), amount(4812, 0)], ['1.50 KiB', '5.00 GiB', '4,812']);
  assert.deepEqual([share(1, 3), share(0, 3), share(1, 1e6), share(1, 0)], ['33.3 %', '0.00 %', '<0.01 %', '0.00 %']);
});

test('wide letters take two columns', () => {
  assert.deepEqual(['abc', '名前', '\u{1f600}'].map(columns), [3, 4, 2]);
});
