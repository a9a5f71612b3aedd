// A program of async Rust with numbers that can be checked by hand.

import { NONE, Payload } from './make-payload.mjs';

const MS = 1e6;

/**
 * 200 ms of two tokio workers and a thread that may block:
 *
 *     w1        0–60 ms `request` awaits `middle` awaits `row`; 60–80 `request` awaits `other`; 80–90 the executor itself; with waits 90–170 `request`
 *               calls `std::fs::read` (app.rs:40) twice for 40 ms, then it is queued for a CPU for 5 ms
 *     w2        0–10 ms `connection`; with waits idle to the end
 *     blocking  0–4 ms `compress`
 */
export function tasks({ waits = true } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./tasks'], file: 'tasks.whyslow', duration_ns: 200 * MS };
  p.parallelism = { sealed: true, end_ns: 200 * MS };
  const app = p.process(10, 'tasks'), program = p.module('/bin/tasks', 1);
  const w1 = p.thread(app, 10, 'w1'), w2 = p.thread(app, 11, 'w2'), other = p.thread(app, 12, 'blocking');
  const cpu = p.metric('cpu-time', 1), wait = waits ? p.metric('off-cpu-time', 1) : undefined;
  const own = name => p.fn(name, 'app', 'yours', '/src/app.rs', 1, program);
  const worker = p.fn('tokio::runtime::scheduler::multi_thread::worker::run', 'tokio', 'dependency'), read = p.fn('std::fs::read', 'std', 'std');
  let place = 0;
  const stackOf = (functions, line) => {
    let stack = NONE;
    for (const fn of functions) stack = p.stack(stack, p.location(program, ++place, [[fn, '/src/app.rs', line]]));
    return p.charge(stack, functions.findLast(fn => fn !== worker && fn !== read) ?? worker, '/src/app.rs', line);
  };
  const request = own('async fn app::request'), middle = own('async fn app::middle'), row = own('<app::Row as core::future::Future>::poll');
  const deep = p.inTask(stackOf([worker, request, middle, row, own('app::spin')], 12), 'tokio', [request, middle, row]);
  const flat = p.inTask(stackOf([worker, request, own('async fn app::other'), own('app::spin')], 20), 'tokio', [request, own('async fn app::other')]);
  const connection = own('async fn app::connection'), small = p.inTask(stackOf([worker, connection], 30), 'tokio', [connection]);
  const inside = p.inPlace(stackOf([worker], 0), 1), compress = p.inPlace(stackOf([own('app::compress')], 50), 2);
  const ran = (thread, from, to, stack) => { for (let at = from; at < to; at++) p.sample(cpu, (at + .5) * MS, thread, stack, MS, undefined, { running: 1, busy: 1 }); };
  ran(w1, 0, 60, deep);
  ran(w1, 60, 80, flat);
  ran(w1, 80, 90, inside);
  ran(w2, 0, 10, small);
  ran(other, 0, 4, compress);
  if (!waits) return p.container();
  const reading = p.inTask(stackOf([worker, request, read], 40), 'tokio', [request], read), queued = p.inTask(stackOf([worker, request, own('app::spin')], 41), 'tokio', [request]);
  for (const end of [130, 170]) p.sample(wait, end * MS, w1, reading, 40 * MS, 'file');
  p.sample(wait, 175 * MS, w1, queued, 5 * MS, 'cpu');
  p.sample(wait, 200 * MS, w2, p.inPlace(stackOf([worker, own('app::idle')], 60), 1), 190 * MS, 'idle');
  return p.container();
}
