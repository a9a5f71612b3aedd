// A profile with numbers that can be checked by hand: 100 samples of 1 ms; see the table in the code.

import { Payload } from './make-payload.mjs';

const NONE = 0xffffffff;
const MS = 1e6;

/** `spans: false` and `warnings: false` leave those out. */
export function known({ spans = true, warnings = true } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./known', '--answer', '42'], file: 'known.whyslow', duration_ns: 100 * MS };
  p.quality = { grade: 'good', samples: 100, lost: 0, lost_records: 0, throttled: 0, truncated_share: 0, unresolved_share: 0, nameless_share: 0,
    source: 'cpu-clock', kernel: 'included', missing_kernel_share: 0, frequency_hz: 997, expected_samples: 101, incomplete: false, warnings: [] };
  if (warnings) {
    p.quality.grade = 'poor';
    p.quality.lost = 30;
    p.quality.warnings = [
      { id: 'lost-samples', severity: 'serious', message: '30 samples were lost', fix: 'Record with a larger buffer' },
      { id: 'recorder-note', severity: 'note', message: 'The clock is <b>slow</b>', fix: null },
    ];
  }
  const app = p.process(10, 'known');
  const main = p.thread(app, 10, 'main'), worker = p.thread(app, 11, 'worker');
  const program = p.module('/bin/known', 1), libc = p.module('/lib/libc.so.6', 2);
  const cpu = p.metric('cpu-time', 1), bytes = p.metric('allocated', 2), faults = p.metric('page faults', 0);

  const fn = {
    main: p.fn('app::main', 'app', 'yours', 'src/main.rs', 1, program),
    sum: p.fn('app::sum', 'app', 'yours', 'src/sum.rs', 10, program),
    add: p.fn('core::num::add', 'core', 'std', 'core/num.rs', 50, program),
    walk: p.fn('app::walk', 'app', 'yours', 'src/walk.rs', 5, program),
    hash: p.fn('dep::hash', 'dep', 'dependency', 'dep/hash.rs', 3, program),
    work: p.fn('app::work', 'app', 'yours', 'src/main.rs', 30, program),
    copy: p.fn('memcpy', undefined, 'runtime', undefined, 0, libc),
  };
  const at = {
    mainSum: p.location(program, 0x1004, [[fn.main, 'src/main.rs', 2]]),
    mainWalk: p.location(program, 0x1009, [[fn.main, 'src/main.rs', 3]]),
    sum12: p.location(program, 0x2004, [[fn.sum, 'src/sum.rs', 12]]),
    sum13: p.location(program, 0x2008, [[fn.sum, 'src/sum.rs', 13], [fn.add, 'core/num.rs', 52]]),
    sum14: p.location(program, 0x200f, [[fn.sum, 'src/sum.rs', 14]]), // inside the call at 0x200c
    walk: p.location(program, 0x3000, [[fn.walk, 'src/walk.rs', 6]]),
    walkAgain: p.location(program, 0x3008, [[fn.walk, 'src/walk.rs', 7]]),
    hash: p.location(program, 0x4000, [[fn.hash, 'dep/hash.rs', 4]]),
    work: p.location(program, 0x5004, [[fn.work, 'src/main.rs', 31]]),
    copy: p.location(libc, 0x9000, [[fn.copy, undefined, 0]]),
  };
  const stack = (...locations) => locations.reduce((parent, location) => p.stack(parent, location), NONE);

  // from ms, to ms, thread, stack            what it adds to
  const runs = [
    [0, 20, main, stack(at.mainSum, at.sum12)], // sum itself, line 12
    [20, 60, main, stack(at.mainSum, at.sum13)], // add, inlined at line 13
    [60, 70, main, stack(at.mainSum, at.sum14, at.hash)], // hash, called from line 14
    [70, 80, main, stack(at.mainWalk, at.walkAgain, at.walkAgain, at.walkAgain, at.copy)], // walk calls itself, then memcpy
    [80, 90, main, stack(at.mainWalk, at.walk)], // walk itself
    [90, 100, worker, stack(at.work, at.hash)],
  ];
  for (const [from, to, thread, of] of runs) for (let ms = from; ms < to; ms++) p.sample(cpu, ms * MS, thread, of, MS);
  p.sample(bytes, 5 * MS, main, runs[0][3], 1 << 20);
  p.sample(bytes, 75 * MS, main, runs[3][3], 3 << 20);
  p.sample(faults, 85 * MS, main, runs[4][3], 1500);

  if (spans) {
    const span = (name, thread, from, to, detail) => p.row('spans', { name: p.text(name), thread, start: from * MS, end: to * MS, detail: p.text(detail) });
    span('request', main, 0, 20, 'GET /a');
    span('everything', NONE, 0, 100);
    span('request', main, 20, 60, 'GET /b');
    span('request', main, 60, 70, 'GET /<c>');
    span('job', worker, 90, 95);
  }
  const source = (file, first, texts) => texts.forEach((text, line) => p.row('sources', { file: p.text(file), line: first + line, text: p.text(text) }));
  source('core/num.rs', 50, ['fn add(a: u64, b: u64) -> u64 {', '    // wraps', '    a + b', '}']);
  source('src/main.rs', 1, ['fn main() {', '    sum(&[1, 2, 3]);', '    walk(3);', '}']);
  source('src/sum.rs', 10, ['fn sum(items: &[u64]) -> u64 {', '\tlet mut total = 0;', '\tfor item in items {', '\t\ttotal = add(total, *item);', '\t\tif seen(hash(item)) { continue }', '\t}', '\ttotal', '}']);
  // Jumps and the loop by instruction number.
  const code = (start, end, texts, jumps = {}, [first, last] = []) => {
    const row = p.row('code', { module: program, start, end });
    const before = p.tables.instructions?.code.length ?? 0;
    const loop = first === undefined ? NONE : p.row('loops', { code: row, parent: NONE, first: before + first, last: before + last });
    const target = n => (n in jumps ? before + jumps[n] : NONE);
    texts.forEach((text, n) => p.row('instructions', { code: row, address: start + 4 * n, text: p.text(text), target: target(n), loop: n >= first && n <= last ? loop : NONE }));
    return { row, before, loop };
  };
  const sum = code(0x2000, 0x2018, ['push rbp', 'mov rax, [rdi]', 'add rbx, rax', 'call dep::hash', 'jne 0x2004 <+0x4>', 'ret'], { 4: 1 }, [1, 4]);
  const hint = p.row('hints', { code: sum.row, loop: sum.loop, id: p.text('call-in-loop'), sentence: p.text('The loop calls <b>dep::hash</b>.'), advice: p.text('Hash once.') });
  p.row('hint_instructions', { hint, instruction: sum.before + 3 });
  code(0x3000, 0x3010, ['test edi, edi', 'je 0x300c', 'call app::walk', 'ret'], { 1: 3 });
  return p.container();
}
