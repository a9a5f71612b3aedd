// A profile with findings and numbers that can be checked by hand.

import { NONE, Payload } from './make-payload.mjs';

const MS = 1e6;

/**
 * 100 samples of 1 ms: `main` (line 3) calls `count`, which hashes at line 12 (30) and has self time at line
 * 14 (20); `main` (line 5) calls `show`, which formats at line 22 (40); `main` hashes at line 4 itself (10).
 * The findings are hashing at `count`, formatting at `show`, and waiting without stacks. `findings: false`
 * is a profile without findings; `explained: false` one without `explain`.
 */
export function found({ findings = true, explained = true } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./found'], file: 'found.whyslow', duration_ns: 100 * MS };
  const main = p.thread(p.process(10, 'found'), 10, 'main'), program = p.module('/bin/found', 1);
  const cpu = p.metric('cpu-time', 1), faults = p.metric('page-faults', 0);
  const fn = {
    main: p.fn('app::main', 'app', 'yours', '/src/main.rs', 1, program), count: p.fn('app::count', 'app', 'yours', '/src/main.rs', 10, program),
    show: p.fn('app::show', 'app', 'yours', '/src/main.rs', 20, program), hash: p.fn('core::hash::sip::hash', 'core', 'std', 'core/sip.rs', 1, program),
    write: p.fn('core::fmt::write', 'core', 'std', 'core/fmt.rs', 1, program),
  };
  const own = (of, address, line) => p.location(program, address, [[of, '/src/main.rs', line]]);
  const toCount = p.stack(NONE, own(fn.main, 0x1004, 3)), toShow = p.stack(NONE, own(fn.main, 0x1008, 5)), direct = p.stack(NONE, own(fn.main, 0x100c, 4));
  const hash = p.location(program, 0x4000, [[fn.hash, 'core/sip.rs', 2]]), write = p.location(program, 0x5000, [[fn.write, 'core/fmt.rs', 2]]);
  const hashing = p.stack(p.stack(toCount, own(fn.count, 0x2004, 12)), hash), working = p.stack(toCount, own(fn.count, 0x2008, 14));
  const formatting = p.stack(p.stack(toShow, own(fn.show, 0x3004, 22)), write), hashingInMain = p.stack(direct, hash);
  let at = 0;
  for (const [times, stack] of [[30, hashing], [20, working], [40, formatting], [10, hashingInMain]]) for (let n = 0; n < times; n++) p.sample(cpu, MS * at++, main, stack, MS);
  p.sample(faults, MS, main, working, 1);
  const source = (line, text) => p.row('sources', { file: p.text('/src/main.rs'), line, text: p.text(text) });
  source(12, '\t*seen.entry(word).or_default() += 1;');
  source(14, '    total += 1;');
  source(22, '    out += &format!("{word}");');
  const code = p.row('code', { module: program, start: 0x2000, end: 0x2010 });
  ['push rbp', 'call core::hash::sip::hash', 'inc rbx', 'ret'].forEach((text, n) => p.row('instructions', { code, address: 0x2000 + 4 * n, text: p.text(text) }));
  if (explained) p.explained = { shape: 'one hotspot: app::main has 100.0 % of the time. Look at its lines: whyslow report found.whyslow lines', allowed: findings ? 1 : 0 };
  if (!findings) return p.container();

  const find = ({ id, title, of = 'CPU time', share, low, high, confidence, advice, verify = `whyslow verify found.whyslow`, gain = undefined, metric = cpu, place: [of_, line] = [NONE, 0], evidence = [], stacks = [] }) => {
    const file = p.text(of_ === NONE ? undefined : '/src/main.rs');
    const finding = p.row('findings', {
      id: p.text(id), title: p.text(title), of: p.text(of), confidence: p.text(confidence), advice: p.text(advice), verify: p.text(verify), gain: p.text(gain),
      share, low, high, metric, function: of_, file, line,
    });
    for (const [text, part, fn = NONE, evidenceFile = undefined, evidenceLine = 0] of evidence) p.row('finding_evidence', { finding, text: p.text(text), share: part, function: fn, file: p.text(evidenceFile), line: evidenceLine });
    for (const stack of stacks) p.row('finding_stacks', { finding, stack });
  };
  find({ id: 'formatting', title: 'values are formatted', share: .4, low: .31, high: .5, confidence: 'high', advice: 'write into one buffer', gain: 'at most 1.67 times as fast without it', place: [fn.show, 22], stacks: [formatting],
    evidence: [['at', .4, fn.show, '/src/main.rs', 22], ['in', .4, fn.write, 'core/fmt.rs', 2]] });
  find({ id: 'sip-hash', title: 'keys are hashed with SipHash', share: .4, low: .3, high: .5, confidence: 'medium', advice: 'use a faster hasher', gain: 'at most 1.67 times as fast without it', place: [fn.count, 12], stacks: [hashing, hashingInMain] });
  find({ id: 'mostly-waiting', title: 'the program <b>waits</b>', of: 'elapsed time', share: .2, low: .2, high: .2, confidence: 'low', advice: 'see for what', metric: NONE, evidence: [['for nobody', NaN]] });
  return p.container();
}
