// A profile with system calls, with numbers that can be checked by hand.

import { NONE, Payload } from './make-payload.mjs';

const MS = 1e6;

/**
 * In 100 ms, main writes 100 times 1 µs to out.txt (app.rs:3) by 10 ms, once for 5 µs to log by 60 ms, fails 3
 * of 5 opens (app.rs:9) by 20 ms; worker sleeps once for 40 ms (app.rs:20).
 */
export function syscalls() {
  const p = new Payload();
  p.context = { ...p.context, command: ['./calls'], file: 'calls.whyslow', duration_ns: 100 * MS };
  const app = p.process(10, 'calls'), main = p.thread(app, 10, 'main'), worker = p.thread(app, 11, 'worker'), program = p.module('/bin/calls', 1);
  const cpu = p.metric('cpu-time', 1), time = p.metric('syscall-time', 1);
  const at = (name, line) => {
    const fn = p.fn(name, 'calls', 'yours', '/src/app.rs', 1, program);
    return p.charge(p.stack(NONE, p.location(program, line, [[fn, '/src/app.rs', line]])), fn, '/src/app.rs', line);
  };
  const row = (when, thread, stack, call, { file, error, waits = 0, bytes = 0 }, bars) => {
    const count = bars.reduce((sum, [, calls]) => sum + calls, 0), total = bars.reduce((sum, [, calls, each]) => sum + calls * each, 0);
    const id = p.row('syscalls', { time: when, thread, stack, call: p.text(call), only_waits: waits, file: p.text(file), error: p.text(error), count, total, max: Math.max(...bars.map(([, , each]) => each)), bytes });
    for (const [bar, calls] of bars) p.row('syscall_bars', { syscalls: id, bar, calls });
    p.sample(time, when, thread, stack, total);
  };
  const write = at('calls::write', 3), open = at('calls::open', 9), sleep = at('calls::nap', 20);
  p.sample(cpu, MS, main, write, MS);
  // Bar 63 goes up to 1023, 81 up to 5119, 46 up to 239, 181 up to 41,943,039.
  row(10 * MS, main, write, 'write', { file: 'out.txt', bytes: 1200 }, [[63, 100, 1000]]);
  row(20 * MS, main, open, 'openat', {}, [[46, 2, 230]]);
  row(20 * MS, main, open, 'openat', { error: 'ENOENT' }, [[46, 3, 230]]);
  row(60 * MS, main, write, 'write', { file: 'log', bytes: 12 }, [[81, 1, 5000]]);
  row(70 * MS, worker, sleep, 'clock_nanosleep', { waits: 1 }, [[185, 1, 40 * MS]]);
  return p.container();
}
