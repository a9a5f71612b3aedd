// Lines and instructions of a function: inlined code counts at its own source line, a sample counts once per
// line.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codePieces } from './instructions.ts';
import { figuresOf, functionCosts, type FunctionCosts } from './lines.ts';
import { NONE } from './payload.ts';

type Frame = [fn: number, file: number, line: number];
interface Place { address: number; frames: Frame[] }

/** Tables of locations and stacks. A stack is a parent, a location and the value of its samples. */
function tables(places: Place[], stacks: [parent: number, location: number, value: number][]) {
  const starts = [0];
  for (const place of places) starts.push(starts.at(-1)! + place.frames.length);
  const frames = places.flatMap(place => place.frames);
  return {
    stacks: {
      count: stacks.length,
      parent: Uint32Array.from(stacks, stack => stack[0]),
      location: Uint32Array.from(stacks, stack => stack[1]),
    },
    locations: {
      count: places.length,
      module: new Uint32Array(places.length),
      address: Float64Array.from(places, place => place.address),
      frames: Uint32Array.from(starts),
    },
    frames: {
      count: frames.length,
      function: Uint32Array.from(frames, frame => frame[0]),
      file: Uint32Array.from(frames, frame => frame[1]),
      line: Uint32Array.from(frames, frame => frame[2]),
    },
    self: Float64Array.from(stacks, stack => stack[2]),
  };
}

type Tables = ReturnType<typeof tables>;
const costs = (data: Tables, fn: number): FunctionCosts =>
  functionCosts(data, data.self, wanted => wanted === fn);
const shown = (found: FunctionCosts): string[] =>
  found.lines.filter(line => line.total > 0).map(line => `${line.file}:${line.line} ${line.self}/${line.total}`).sort();

const MAIN = 0, SUM = 1, ADD = 2;

test('inlined code counts at its own line, and in the total of the call', () => {
  const data = tables(
    [
      { address: 10, frames: [[MAIN, 7, 3]] },
      { address: 20, frames: [[SUM, 7, 20]] },
      { address: 24, frames: [[SUM, 7, 21], [ADD, 8, 5]] },
    ],
    [[NONE, 0, 0], [0, 1, 2], [0, 2, 5]],
  );
  const found = costs(data, SUM);
  assert.deepEqual(shown(found), ['7:20 2/2', '7:21 0/5', '8:5 5/5']);
  assert.deepEqual(found.files.map(file => [file.file, file.self, file.total]), [[8, 5, 5], [7, 2, 7]]);
  assert.deepEqual(found.whole, { self: 7, total: 7 });
  assert.deepEqual(shown(costs(data, ADD)), ['8:5 5/5']);
  assert.deepEqual(shown(costs(data, MAIN)), ['7:3 0/7']);
});

test('recursion counts a sample once per line', () => {
  const data = tables([{ address: 1, frames: [[SUM, 7, 3]] }, { address: 2, frames: [[SUM, 7, 4]] }], [
    [NONE, 0, 0], [0, 0, 1], [1, 1, 2], [2, 0, 4], [1, 0, 8],
  ]);
  assert.deepEqual(shown(costs(data, SUM)), ['7:3 13/15', '7:4 2/6']);
  assert.deepEqual(costs(data, SUM).whole, { self: 15, total: 15 });
});

test('stacks without value are skipped', () => {
  const data = tables([{ address: 1, frames: [[SUM, 7, 3]] }, { address: 2, frames: [] }], [
    [NONE, 1, 0], [NONE, 1, 3], [1, 0, 0], [1, 0, 2], [3, 1, 1], [NONE, 0, 0],
  ]);
  assert.deepEqual(shown(costs(data, SUM)), ['7:3 2/3']);
});

test('10,000 frames of recursion', () => {
  const stacks = Array.from({ length: 10_000 }, (_, at): [number, number, number] => [at === 0 ? NONE : at - 1, 0, 1]);
  assert.deepEqual(shown(costs(tables([{ address: 1, frames: [[SUM, 7, 3]] }], stacks), SUM)), ['7:3 10000/10000']);
});

test('samples count for the instruction at their address', () => {
  const data = tables(
    [
      { address: 100, frames: [[SUM, 7, 20]] },
      { address: 107, frames: [[SUM, 7, 21]] },
      { address: 400, frames: [[ADD, 8, 5]] },
      { address: 999, frames: [[SUM, 7, 22]] },
    ],
    [[NONE, 0, 2], [NONE, 1, 0], [1, 2, 5], [NONE, 3, 9]],
  );
  const machine = {
    locations: data.locations,
    code: { count: 2, module: Uint32Array.of(0, 0), start: Float64Array.of(100, 400), end: Float64Array.of(110, 410) },
    instructions: {
      count: 4,
      code: Uint32Array.of(0, 0, 0, 1),
      address: Float64Array.of(100, 103, 108, 400),
      text: Uint32Array.of(0, 1, 2, 3), target: Uint32Array.of(NONE, NONE, 0, NONE), loop: Uint32Array.of(NONE, NONE, NONE, NONE),
    },
  };
  const found = costs(data, SUM);
  const pieces = codePieces(machine, found);
  assert.deepEqual(pieces.map(piece => [piece.code, piece.self, piece.total]), [[0, 2, 7]]);
  const instructions = pieces[0]!.instructions.map(row => [row.instruction, row.self, row.total]);
  assert.deepEqual(instructions, [[0, 2, 2], [1, 0, 5], [2, 0, 0]]);
  assert.equal(found.lines[pieces[0]!.instructions[1]!.lines[0]!]!.line, 21);
});

test('the numbers of a function are those of the function table', () => {
  const data = tables([{ address: 10, frames: [[MAIN, 7, 3], [SUM, 7, 20]] }], [[NONE, 0, 9]]);
  const table = { self: Float64Array.of(0, 9), total: Float64Array.of(9, 9) };
  assert.deepEqual(figuresOf(table, MAIN, costs(data, MAIN)), { self: 0, total: 9 }, 'all of it is inlined code');
  assert.deepEqual(figuresOf({ self: new Float64Array(2), total: new Float64Array(2) }, MAIN, costs(data, MAIN)), { self: 9, total: 9 });
});
