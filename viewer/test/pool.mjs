// A main thread that waits for a pool: two workers with the same name do the work inside the main thread's
// span, and have overlapping spans.

import { Payload } from './make-payload.mjs';

const NONE = 0xffffffff, MS = 1e6;

/** 100 ms: `main` runs 10 ms, then its span `job` (10 to 90 ms) waits while the workers run 40 ms each, the first one first. */
export function pool() {
  const p = new Payload();
  p.context.duration_ns = 100 * MS;
  const app = p.process(7, 'pool'), other = p.process(9, 'other', app);
  const main = p.thread(app, 7, 'main'), workers = [p.thread(app, 8, 'worker'), p.thread(app, 11, 'worker')];
  p.thread(app, 12, 'sleeper');
  const helper = p.thread(other, 9, 'helper');
  const cpu = p.metric('cpu-time', 1);
  const stack = (name, line) => p.stack(NONE, p.location(NONE, line, [[p.fn(name, 'pool', 'yours', 'src/main.rs', line), 'src/main.rs', line + 1]]));
  const run = (thread, of, from, to) => { for (let ms = from; ms < to; ms++) p.sample(cpu, ms * MS, thread, of, MS); };
  run(main, stack('pool::main', 1), 0, 10);
  run(workers[0], stack('pool::first', 10), 10, 50);
  run(workers[1], stack('pool::second', 20), 50, 90);
  run(helper, stack('pool::helper', 30), 90, 100);
  for (const [name, thread, from, to] of [['job', main, 10, 90], ['a', workers[0], 10, 40], ['b', workers[0], 15, 45], ['c', workers[0], 20, 50], ['d', workers[0], 46, 50], ['never', main, 91, 95], ['run', NONE, 95, 99]]) {
    p.row('spans', { name: p.text(name), thread, start: from * MS, end: to * MS, detail: NONE });
  }
  p.row('counters', { name: p.text('memory'), unit: 2, process: app });
  for (let ms = 0; ms <= 100; ms += 10) p.row('counter_values', { counter: 0, time: ms * MS, value: ms });
  return p.container();
}
