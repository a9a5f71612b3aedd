// A program with a serial and a parallel part, and numbers that can be checked by hand.

import { NONE, Payload } from './make-payload.mjs';

const MS = 1e6;

/**
 * 1 s of three threads: main is in `parse` (app.rs:12) for 400 ms, alone; then `a` and `b` are in `work`
 * (app.rs:20) for 600 ms, except for every tenth millisecond, in which `a` is in `log` (app.rs:30).
 *
 * `waits`: waits were recorded. Until 400 ms `a` is idle and `b` waits for a lock; then the two take turns
 * on one CPU: `a` from 400 to 700 ms, `b` to the end, and main waits for both. `found`: a finding says that `parse` runs alone.
 */
export function parallel({ waits = false, found = true, sealed = true, end = 1000 } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./parallel'], file: 'parallel.whyslow', duration_ns: end * MS };
  p.parallelism = { sealed, end_ns: end * MS };
  const app = p.process(10, 'parallel'), program = p.module('/bin/parallel', 1), kernel = p.module('[kernel]', 3);
  const main = p.thread(app, 10, 'main'), a = p.thread(app, 11, 'a'), b = p.thread(app, 12, 'b');
  const cpu = p.metric('cpu-time', 1);
  const own = (name, line) => {
    const fn = p.fn(name, 'app', 'yours', '/src/app.rs', line - 2, program);
    return p.charge(p.stack(NONE, p.location(program, line, [[fn, '/src/app.rs', line]])), fn, '/src/app.rs', line);
  };
  const parse = own('app::parse', 12), work = own('app::work', 20), log = own('app::log', 30);
  if (found) {
    p.row('findings', {
      id: p.text('poor-parallelism'), title: p.text('one thread works while all others wait for it'), of: p.text('elapsed time'), confidence: p.text('high'), advice: p.text(''), verify: p.text(''), gain: p.text(undefined),
      share: .4, low: .4, high: .4, metric: NONE, topics: 4, function: 0, file: p.text('/src/app.rs'), line: 12,
    });
  }
  const ran = (thread, from, to, stackAt, beside) => { for (let at = from; at < to; at++) p.sample(cpu, (at + (waits ? .5 : 1)) * MS, thread, stackAt(at), MS, undefined, beside); };
  const ofA = at => (at % 10 === 9 ? log : work);
  ran(main, 0, 400, () => parse, { running: 1, busy: 1 });
  if (!waits) {
    for (const [thread, stackAt] of [[a, ofA], [b, () => work]]) ran(thread, 400, 1000, stackAt, { running: 2, busy: 2 });
    return p.container();
  }
  ran(a, 400, 700, ofA, { running: 1, busy: 2 });
  ran(b, 700, 1000, () => work, { running: 1, busy: 2 });
  const wait = p.metric('off-cpu-time', 1), inKernel = p.stack(work, p.location(kernel, 1, [[p.fn('futex_wait', undefined, 'kernel', undefined, 0, kernel), undefined, 0]]));
  for (const [thread, from, to, reason] of [[a, 0, 400, 'idle'], [b, 0, 400, 'lock'], [b, 400, 700, 'cpu'], [a, 700, 1000, 'cpu'], [main, 400, 1000, 'join']]) {
    p.sample(wait, to * MS, thread, inKernel, (to - from) * MS, reason);
  }
  return p.container();
}
