// Only the last of several quick values is used.

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Paused } from './paused.ts';

test('typing is one search, after it pauses', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const used: string[] = [];
  const paused = new Paused<string>(text => used.push(text), 200);
  for (const text of ['p', 'pa', 'par', 'pars', 'parse']) {
    paused.set(text);
    mock.timers.tick(150);
  }
  assert.deepEqual(used, []);
  mock.timers.tick(50);
  assert.deepEqual(used, ['parse']);
  mock.timers.tick(1000);
  assert.equal(paused.flush(), false);
  paused.set('x');
  assert.ok(paused.flush(), 'Enter does not wait');
  paused.set('y');
  paused.drop();
  mock.timers.tick(1000);
  assert.deepEqual(used, ['parse', 'x']);
  mock.timers.reset();
});
