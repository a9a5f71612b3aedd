// Profiles with waits: one with numbers that can be checked by hand, and one with very many.

import { NONE, Payload, random } from './make-payload.mjs';

const MS = 1e6;
/** A name that would do harm as markup. */
export const EVIL = '<img src=x onerror=alert(1)>';

/** Adds a row to the wait metric and to the wall time metric. */
const waiting = (p, [, wait, wall]) => (begin, end, thread, stack, reason, details) => {
  p.sample(wait, end, thread, stack, end - begin, reason, details);
  p.sample(wall, end, thread, stack, end - begin, reason, details);
};
const metrics = p => [p.metric('cpu-time', 1), p.metric('off-cpu-time', 1), p.metric('wall-time', 1)];

/**
 * 100 ms of three threads:
 *
 *     main     runs 0–10 on CPU 0, sleeps to 40 (app.rs:12), runs to 50 on CPU 1, waits for a lock to 80 (app.rs:20, woken by the worker), is queued for
 *              a CPU to 85, runs to the end
 *     worker   waits for a file in every even millisecond (app.rs:30), runs in every odd one, on CPUs 2 and 3 in turn
 *     EVIL     idle all the time
 *
 * `cpus: 0` leaves out the details of single waits; more than 4 adds CPUs on which the worker ran before its
 * last waits.
 */
export function waits({ cpus = 4 } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./waits'], file: 'waits.whyslow', duration_ns: 100 * MS };
  const app = p.process(10, 'waits');
  const main = p.thread(app, 10, 'main'), worker = p.thread(app, 11, 'worker'), evil = p.thread(app, 12, EVIL);
  const program = p.module('/bin/waits', 1), kernel = p.module('[kernel]', 3);
  const all = metrics(p), [cpu, , wall] = all, wait = waiting(p, all);
  const own = (name, line, parent = NONE) => p.stack(parent, p.location(program, line, [[p.fn(name, 'waits', 'yours', '/src/app.rs', 1, program), '/src/app.rs', line]]));
  const inKernel = (name, parent) => p.stack(parent, p.location(kernel, name.length, [[p.fn(name, undefined, 'kernel', undefined, 0, kernel), undefined, 0]]));
  const entry = own('waits::main', 5), compute = own('waits::compute', 40, entry);
  const sleep = inKernel('hrtimer_nanosleep', own('waits::nap', 12, entry)), lock = inKernel('futex_wait', own('waits::locked', 20, entry));
  const queue = inKernel('preempt_schedule', compute), read = inKernel('folio_wait_bit', own('waits::read', 30, own('waits::work', 28)));
  const idle = inKernel('futex_wait_queue', own('waits::pool', 50));
  const on = (number, more = {}) => (cpus ? { cpu: number, ...more } : undefined);
  wait(10 * MS, 40 * MS, main, sleep, 'sleep', on(0));
  const mutex = cpus && p.row('locks', { kind: p.text('std Mutex'), address: 0x7f0012345678, process: app, function: p.fn('waits::locked', 'waits', 'yours', '/src/app.rs', 1, program), file: p.text('/src/app.rs'), line: 20 });
  wait(50 * MS, 80 * MS, main, lock, 'lock', on(1, { lock: mutex, argument: 0x7f0012345678, woken_by: 1, waker: worker, waker_stack: read }));
  wait(80 * MS, 85 * MS, main, queue, 'cpu', on(1));
  for (let at = 0; at < 50; at++) wait(2 * at * MS, (2 * at + 1) * MS, worker, read, 'file', on(at >= 54 - cpus ? at - 50 + cpus : 2 + at % 2));
  wait(0, 100 * MS, evil, idle, 'idle', on(0));
  const ran = (thread, from, to, stack) => {
    for (let at = from; at < to; at++) for (const metric of [cpu, wall]) p.sample(metric, (at + 1) * MS, thread, stack, MS);
  };
  ran(main, 0, 10, compute);
  ran(main, 40, 50, compute);
  ran(main, 85, 100, compute);
  for (let at = 0; at < 50; at++) ran(worker, 2 * at + 1, 2 * at + 2, own('waits::work', 28));
  return p.container();
}

/**
 * Two locks in 100 ms. For a std Mutex, worker waits ten times 2 ms (app.rs:20) while main holds it (and
 * releases it at app.rs:60), and EVIL five times 4 ms (app.rs:21): 1 ms while main and 3 ms while worker holds it. For a parking_lot
 * lock with an unknown address, main waits once for 1 ms; the holder is unknown.
 */
export function locks({ instants = [] } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./locks'], file: 'locks.whyslow', duration_ns: 100 * MS };
  const app = p.process(10, 'locks'), program = p.module('/bin/locks', 1);
  const main = p.thread(app, 10, 'main'), worker = p.thread(app, 11, 'worker'), evil = p.thread(app, 12, EVIL);
  const all = metrics(p), wait = waiting(p, all);
  const fn = name => p.fn(name, 'locks', 'yours', '/src/app.rs', 1, program);
  const at = (name, line) => p.stack(NONE, p.location(program, line, [[fn(name), '/src/app.rs', line]]));
  const lockRow = (kind, variable, address, name, line) => p.row('locks', { kind: p.text(kind), name: variable ? p.text(variable) : NONE, address, process: app, function: fn(name), file: p.text('/src/app.rs'), line });
  const mutex = lockRow('std Mutex', 'app::LOCK', 0x7f0012345678, 'locks::update', 20), other = lockRow('parking_lot Mutex', '', NaN, 'locks::log', 30);
  for (let of = 0; of < 10; of++) wait((10 * of + 1) * MS, (10 * of + 3) * MS, worker, at('locks::update', 20), 'lock', { lock: mutex, cpu: 0, woken_by: 1, waker: main, waker_stack: at('locks::hold', 60) });
  for (let of = 0; of < 5; of++) wait((10 * of + 2) * MS, (10 * of + 6) * MS, evil, at('locks::read', 21), 'lock', { lock: mutex, cpu: 1, woken_by: 1, waker: worker, waker_stack: at('locks::update', 22) });
  for (const time of instants) wait(time, time, worker, at('locks::update', 20), 'lock', { lock: mutex, cpu: 0 });
  wait(50 * MS, 51 * MS, main, at('locks::log', 30), 'lock', { lock: other, cpu: 2 });
  wait(60 * MS, 90 * MS, main, at('locks::nap', 70), 'sleep', { cpu: 2 });
  p.sample(all[0], MS, main, at('locks::hold', 60), MS);
  p.sample(all[0], 5 * MS, worker, at('locks::update', 22), MS);
  return p.container();
}

/** Very many waits: eight threads on four CPUs in a minute. */
export function manyWaits({ count = 400_000, threads = 8, seed = 11 } = {}) {
  const p = new Payload(), next = random(seed);
  p.context = { ...p.context, command: ['./many'], file: 'many.whyslow', duration_ns: 60e9 };
  const app = p.process(10, 'many'), program = p.module('/bin/many', 1);
  const all = metrics(p), wait = waiting(p, all);
  const stacks = Array.from({ length: 200 }, (_, at) => p.stack(NONE, p.location(program, at, [[p.fn(`many::wait_${at}`, 'many', 'yours', '/src/many.rs', at, program), '/src/many.rs', at]])));
  const words = ['cpu', 'lock', 'file', 'sleep', 'idle'], each = Math.floor(count / threads), room = 60e9 / each;
  for (let of = 0; of < threads; of++) {
    const thread = p.thread(app, 10 + of, `worker-${of}`);
    for (let at = 0; at < each; at++) {
      const begin = (at + next() * .5) * room;
      wait(begin, begin + next() * .4 * room, thread, stacks[Math.floor(next() * stacks.length)], words[Math.floor(next() * words.length)], { cpu: Math.floor(next() * 4) });
    }
  }
  p.sample(all[0], 1e6, 0, stacks[0], 1e6);
  return p.container();
}
