// A profile with causal profiling: two progress points, targets of each verdict, and numbers that can be checked by hand.

import { NONE, Payload } from './make-payload.mjs';

const MS = 1e6;

/**
 * 100 samples of 1 ms: `main` calls `parse` (line 12, 50), `hash` (line 44, 40) and `render` (line 9, 10). Making
 * `parse` faster by s saves s/2 of the time per `unit`, `hash` nothing, and of `render` nobody knows. `request` is a latency.
 * `refused`: the machine was too busy. `samples: false`: experiments only, as imported from coz.
 */
export function causal({ refused = undefined, samples = true } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./causal'], file: 'causal.whyslow', duration_ns: 100 * MS };
  p.causal = { experiments: 96, ...(refused ? { refused } : {}) };
  const named = { parse: ['app::parse', 12], hash: ['app::hash', 44], render: ['app::render', 9] }, fn = {};
  if (samples) {
    const main = p.thread(p.process(10, 'causal'), 10, 'main'), program = p.module('/bin/causal', 1), cpu = p.metric('cpu-time', 1);
    const top = p.stack(NONE, p.location(program, 0x1000, [[p.fn('app::main', 'app', 'yours', '/src/main.rs', 1, program), '/src/main.rs', 3]]));
    let at = 0;
    for (const [key, times] of [['parse', 50], ['hash', 40], ['render', 10]]) {
      const [name, line] = named[key];
      fn[key] = p.fn(name, 'app', 'yours', '/src/main.rs', line - 2, program);
      const stack = p.stack(top, p.location(program, 0x2000 + 16 * line, [[fn[key], '/src/main.rs', line]]));
      for (let n = 0; n < times; n++) p.sample(cpu, MS * at++, main, stack, MS);
      p.row('sources', { file: p.text('/src/main.rs'), line, text: p.text(`    ${key}(line);`) });
    }
  }
  if (refused) return p.container();
  const point = (name, kind) => p.row('causal_points', { name: p.text(name), kind, file: NONE, line: 0, visits: 4800, baselines: 48, dropped: kind });
  const row = (point, key, { kind = 0, verdict, words, share = 0, curve = [] }) => {
    const [name, line] = named[key] ?? ['', 0];
    const at = p.row('causal', {
      point, kind, name: p.text(samples ? name : ''), function: fn[key] ?? NONE, file: kind === 2 ? NONE : p.text('/src/main.rs'), line, share, verdict, words: p.text(words), experiments: 12,
    });
    curve.forEach((effect, n) => p.row('causal_curve', { row: at, speedup: (n + 1) / 4, effect, low: effect - .02, high: effect + .02, experiments: 3 }));
  };
  const flat = [0, .005, -.01, 0];
  const unit = point('unit', 0);
  row(unit, 'parse', { verdict: 0, words: '25 % faster → 13 % faster (11 to 15 %), 100 % → at most 50 %', share: .5, curve: [.125, .25, .375, .5] });
  row(unit, 'hash', { verdict: 1, words: 'no effect beyond ±2.0 %', share: .4, curve: flat });
  row(unit, 'render', { verdict: 2, words: 'not enough data: about 12 experiments more would decide', share: .1 });
  row(unit, '', { kind: 2, verdict: 1, words: 'no effect beyond ±1.2 %', curve: flat });
  const request = point('request <b>', 1);
  row(request, 'render', { kind: 1, verdict: 0, words: '25 % faster → 10 % slower (-12 to -8 %)', share: .1, curve: [-.1] });
  row(request, '', { kind: 2, verdict: 0, words: '25 % faster → 9 % faster (7 to 11 %): it never runs, so nothing here is certain', curve: [.09] });
  return p.container();
}
