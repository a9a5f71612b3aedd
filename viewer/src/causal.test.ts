// Causal profiling: rows of each progress point, their curves, the links to their lines, and damaged tables.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { causal } from '../test/causal.mjs';
import { small } from '../test/make-payload.mjs';
import { causalPoints, refusal, toFlame, toSource } from './causal.ts';
import { wantedLine } from './findings.ts';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { START, type State } from './state.ts';

const model = new Model(decode(causal()));
const [unit, request] = causalPoints(model);

test('each progress point has its targets, best first, and their curves', () => {
  assert.deepEqual(unit!.rows.map(({ name, place, kind, verdict, share }) => [name, place, kind, verdict, share]), [
    ['app::parse', '/src/main.rs:12', 'line', 'effect', .5], ['app::hash', '/src/main.rs:44', 'line', 'none', .4],
    ['app::render', '/src/main.rs:9', 'line', 'undecided', .1], ['placebo', '', 'placebo', 'none', 0],
  ]);
  assert.deepEqual(unit!.rows[0]!.curve.map(({ speedup, effect }) => [speedup, effect]), [[.25, .125], [.5, .25], [.75, .375], [1, .5]]);
  assert.deepEqual([request!.kind, request!.rows.length, request!.rows[0]!.kind], ['latency', 2, 'function']);
  assert.equal(refusal(model), undefined);
});

test('a target links to its line and to its function in the flame graph', () => {
  const parse = unit!.rows[0]!, state: State = { ...START, ...toSource(model, START, parse) };
  assert.deepEqual([state.tab, model.name(state.fn!)], ['source', 'app::parse']);
  assert.deepEqual(wantedLine(state), { file: parse.file, line: 12 });
  assert.deepEqual([toFlame(parse)!.tab, toFlame(parse)!.fn], ['flame', parse.fn]);
  const placebo = unit!.rows[3]!;
  assert.deepEqual([toSource(model, START, placebo), toFlame(placebo)], [undefined, undefined]);
});

test('imported experiments have places without functions, and a refusal has no rows', () => {
  const [only] = causalPoints(new Model(decode(causal({ samples: false }))));
  assert.deepEqual([only!.rows[0]!.name, only!.rows[0]!.place, only!.rows[0]!.fn], ['', '/src/main.rs:12', undefined]);
  const refused = new Model(decode(causal({ refused: 'other programs used the CPUs' })));
  assert.deepEqual([refusal(refused), causalPoints(refused)], ['other programs used the CPUs', []]);
  assert.equal(new Model(decode(small())).profile.causalFacts, undefined);
});
