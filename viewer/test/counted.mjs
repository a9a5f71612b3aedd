// CPU counters next to CPU time, with numbers that can be checked by hand.

import { NONE, Payload } from './make-payload.mjs';

const MS = 1e6;

/**
 * `main` calls `fast` (3 instructions per cycle, no misses), `slow` (0.5, and 40 misses per thousand
 * instructions) and `rare` (two samples), 100 ms each, one after the other. Without `misses` only cycles and
 * instructions were counted, without `instructions` only cycles.
 */
export function counted({ misses = true, instructions = true } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./counted'], file: 'counted.whyslow', duration_ns: 200 * MS };
  const thread = p.thread(p.process(10, 'counted'), 10, 'main'), cpu = p.metric('cpu-time', 1), cycles = p.metric('cycles:u', 0);
  const counters = [cycles, instructions ? p.metric('cpu/instructions/u', 0) : undefined, misses ? p.metric('LLC-load-misses', 0) : undefined];
  const at = (name, parent) => p.stack(parent, p.location(NONE, name.length, [[p.fn(name, 'app', 'yours', '/src/app.rs', 1), '/src/app.rs', 2]]));
  const main = at('app::main', NONE);
  const run = (name, from, count, values) => {
    const stack = at(name, main);
    for (let ms = from; ms < from + count; ms++) {
      p.sample(cpu, (ms + .5) * MS, thread, stack, MS);
      counters.forEach((metric, column) => { if (metric !== undefined && values[column]) p.sample(metric, (ms + .5) * MS, thread, stack, values[column]); });
    }
  };
  run('app::fast', 0, 100, [100, 300, 0]);
  run('app::slow', 100, 98, [200, 100, 4]);
  run('app::rare', 198, 2, [100, 100, 0]);
  return p.container();
}
