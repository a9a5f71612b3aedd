// Call sites: the line of the caller, by the weight that goes through it, for the selected samples.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NONE, Payload } from '../test/make-payload.mjs';
import { callSite, siteWords } from './callsites.ts';
import { Model } from './model.ts';
import { decode } from './payload.ts';
import { START } from './state.ts';

/**
 * main calls work at lines 2 (1 sample) and 3 (5 samples). At line 12, work has inner inlined (line 22),
 * which calls leaf.
 */
function profile(): Model {
  const p = new Payload();
  const thread = p.thread(p.process(1, 'x'), 1, 'main');
  const fn = (name: string, line: number): number => p.fn(name, 'app', 'yours', 'a.rs', line);
  const [main, work, inner, leaf] = [fn('main', 1), fn('work', 10), fn('inner', 20), fn('leaf', 30)];
  const metric = p.metric('cpu', 1);
  const at = (address: number, ...frames: [number, string, number][]): number => p.location(NONE, address, frames);
  const leaves = [2, 3].map(line => {
    const outer = p.stack(NONE, at(line, [main, 'a.rs', line]));
    const middle = p.stack(outer, at(50, [work, 'a.rs', 12], [inner, 'b.rs', 22]));
    return p.stack(middle, at(60, [leaf, 'a.rs', 31]));
  });
  p.sample(metric, 0, thread, leaves[0]!, 1000);
  for (let n = 1; n <= 5; n++) p.sample(metric, n * 1000, thread, leaves[1]!, 1000);
  return new Model(decode(p.container()));
}

test('a call has the line of its caller, most used first', () => {
  const model = profile(), [main, work, inner, leaf] = [0, 1, 2, 3] as const;
  const site = (caller: number, callee: number, state = {}): string | undefined => {
    const found = callSite(model, { ...START, ...state }, caller, callee);
    return found && siteWords(found);
  };
  assert.equal(site(main, work), 'a.rs:3 and 1 more line');
  assert.equal(site(work, inner), 'a.rs:12', 'inlined code is called where it was inlined');
  assert.equal(site(inner, leaf), 'b.rs:22');
  assert.equal(site(work, leaf), undefined, 'not by itself');
  assert.equal(site(work, leaf, { inline: false }), 'a.rs:12', 'without inlined frames it is the one that calls');
  assert.equal(site(main, work, { brush: [0, 500] }), 'a.rs:2');
  assert.equal(site(leaf, main), undefined);
});
