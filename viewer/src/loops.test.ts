// Loops in machine code: their cost, how they are drawn, and the hints of a piece.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CodePiece } from './instructions.ts';
import { hintsOf, lanesOf, loopsOf } from './loops.ts';
import { NONE } from './payload.ts';

/**
 * Code 1 has the instructions 2 to 8: an outer loop over 3 to 7 with an inner one over 4 to 5, and 6, which
 * lies between them but is in no loop.
 */
const machine = {
  instructions: {
    count: 9, code: Uint32Array.of(0, 0, 1, 1, 1, 1, 1, 1, 1), address: new Float64Array(9), text: new Uint32Array(9),
    target: Uint32Array.of(NONE, NONE, NONE, NONE, NONE, 4, NONE, 3, NONE),
    loop: Uint32Array.of(0, 0, NONE, 1, 2, 2, NONE, 1, NONE),
  },
  loops: { count: 3, code: Uint32Array.of(0, 1, 1), parent: Uint32Array.of(NONE, NONE, 1), first: Uint32Array.of(0, 3, 4), last: Uint32Array.of(1, 7, 5) },
  hints: { count: 3, code: Uint32Array.of(0, 1, 1), loop: Uint32Array.of(0, 2, NONE), id: new Uint32Array(3), sentence: new Uint32Array(3), advice: new Uint32Array(3) },
  hintInstructions: { count: 4, hint: Uint32Array.of(0, 1, 1, 2), instruction: Uint32Array.of(0, 4, 5, 8) },
};

const self = [1, 10, 100, 200, 7, 20, 2];
const piece: CodePiece = {
  code: 1, self: 340, total: 340,
  instructions: self.map((value, at) => ({ instruction: 2 + at, self: value, total: value, lines: [] })),
};

test('a loop has the cost of its instructions and inner loops, without the code between', () => {
  const loops = loopsOf(machine, piece);
  assert.deepEqual(loops.map(({ name, depth, self, total }) => [name, depth, self, total]), [['L1', 0, 330, 330], ['L2', 1, 300, 300]]);
});

test('loops are drawn from their first to their last instruction, dotted past code outside them', () => {
  const lanes = lanesOf(machine, piece, loopsOf(machine, piece));
  assert.deepEqual(lanes, [['', ''], ['first', ''], ['in', 'first'], ['in', 'last'], ['past', ''], ['last', ''], ['', '']]);
});

test('shows only the hints of the piece, with their loop and instructions', () => {
  const loops = loopsOf(machine, piece);
  const found = hintsOf(machine, piece, loops).map(({ hint, loop, at }) => [hint, loop?.name, at]);
  assert.deepEqual(found, [[1, 'L2', [2, 3]], [2, undefined, [6]]]);
});

test('a function without loops has none', () => {
  const none: CodePiece = { ...piece, code: 5 };
  assert.deepEqual([loopsOf(machine, none), lanesOf(machine, none, [])[0], hintsOf(machine, none, [])], [[], [], []]);
});
