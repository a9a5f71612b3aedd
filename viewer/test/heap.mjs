// A heap with numbers that can be checked by hand: 100 intervals of 10 ms; see the comments.

import { Payload } from './make-payload.mjs';

const NONE = 0xffffffff;
const MS = 1e6;
const STEPS = 100;

/**
 * `cpu: true` adds samples of CPU time before the heap metrics, `processes: true` a second process;
 * `snapshot` means that the program kept running.
 */
export function heap({ cpu = false, processes = false, snapshot = null } = {}) {
  const p = new Payload();
  p.context = { ...p.context, command: ['./known', '--heap'], file: 'heap.whyslow', duration_ns: 10 * STEPS * MS };
  p.quality = { grade: 'good', samples: 0, lost: 0, lost_records: 0, throttled: 0, truncated_share: 0, unresolved_share: 0, nameless_share: 0, source: 'heap', kernel: 'unknown', incomplete: false, warnings: [] };
  const app = p.process(10, 'known');
  const child = processes ? p.process(11, 'child', app) : NONE;
  const main = p.thread(app, 10, 'main'), worker = p.thread(app, 12, 'worker');
  const program = p.module('/bin/known', 1);
  const time = cpu ? p.metric('cpu-time', 1) : NONE;
  const metric = {
    bytes: p.metric('bytes-allocated', 2), allocations: p.metric('allocations', 0), freed: p.metric('bytes-freed', 2),
    peak: p.metric('live-at-peak', 2), exit: p.metric('live-at-exit', 2), temporary: p.metric('temporary-allocations', 0),
  };
  const fn = (name, crate, kind, file, line) => p.fn(name, crate, kind, file, line, program);
  const at = (fn, file, line, ...inlined) => p.location(program, 0x1000 + 16 * line + fn * 4096, [[fn, file, line], ...inlined]);
  const stack = (...locations) => locations.reduce((parent, location) => p.stack(parent, location), NONE);
  const grow = fn('alloc::raw_vec::RawVec<T>::grow_one', 'alloc', 'std', 'alloc/raw_vec.rs', 330);
  const push = fn('alloc::vec::Vec<T>::push', 'alloc', 'std', 'alloc/vec.rs', 2400);
  const of = {
    main: fn('known::main', 'known', 'yours', 'src/main.rs', 1), parse: fn('known::parse::tokens', 'known', 'yours', 'src/parse.rs', 30),
    cache: fn('known::cache::insert', 'known', 'yours', 'src/cache.rs', 10), print: fn('known::print::label', 'known', 'yours', 'src/print.rs', 5),
    format: fn('alloc::fmt::format', 'alloc', 'std', 'alloc/fmt.rs', 600), job: fn('known::job::run', 'known', 'yours', 'src/job.rs', 2),
  };
  const stacks = {
    parse: stack(at(of.main, 'src/main.rs', 4), at(of.parse, 'src/parse.rs', 40, [push, 'alloc/vec.rs', 2410]), at(grow, 'alloc/raw_vec.rs', 340)),
    cache: stack(at(of.main, 'src/main.rs', 5), at(of.cache, 'src/cache.rs', 12)),
    print: stack(at(of.main, 'src/main.rs', 6), at(of.print, 'src/print.rs', 7), at(of.format, 'alloc/fmt.rs', 610)),
    job: stack(at(of.job, 'src/job.rs', 3)),
  };
  const live = new Map();
  const total = new Map();
  let most = 0, peakTime = 0;
  const made = (step, name, thread, blocks, size, temporary = 0) => {
    const now = 10 * step * MS;
    p.sample(metric.bytes, now, thread, stacks[name], blocks * size);
    p.sample(metric.allocations, now, thread, stacks[name], blocks);
    if (temporary) p.sample(metric.temporary, now, thread, stacks[name], temporary);
    live.set(name, (live.get(name) ?? 0) + blocks * size);
    total.set(name, (total.get(name) ?? 0) + blocks);
  };
  const freed = (step, name, thread, bytes) => {
    p.sample(metric.freed, 10 * step * MS, thread, stacks[name], bytes);
    live.set(name, live.get(name) - bytes);
  };
  const values = [];
  let atPeak = new Map();
  for (let step = 0; step < STEPS; step++) {
    if (step === 60) freed(step, 'parse', main, 500 * 65536);
    if (step % 2 === 1) freed(step, 'job', worker, 20 * 4096);
    if (step < 50) made(step, 'parse', main, 10, 65536);
    made(step, 'cache', main, 100, 1024);
    if (step % 2 === 0) made(step, 'job', worker, 20, 4096);
    made(step, 'print', main, 1000, 32, 900);
    freed(step, 'print', main, 32000);
    const sum = [...live.values()].reduce((sum, bytes) => sum + bytes, 0);
    if (sum > most) [most, peakTime, atPeak] = [sum, (10 * step + 5) * MS, new Map(live)];
    values.push([10 * step * MS, sum]);
  }
  for (const [name, bytes] of atPeak) if (bytes) p.sample(metric.peak, peakTime, name === 'job' ? worker : main, stacks[name], bytes);
  for (const [name, bytes] of live) if (bytes) p.sample(metric.exit, 1000 * MS - 1000, main, stacks[name], bytes);
  if (cpu) for (let ms = 0; ms < 10 * STEPS; ms += 2) p.sample(time, ms * MS, ms % 6 ? main : worker, stacks[ms % 6 ? (ms < 500 ? 'parse' : 'print') : 'job'], 2 * MS);

  const counter = (name, process = app) => p.row('counters', { name: p.text(name), unit: 2, process });
  const series = [[counter('heap-live'), values], [counter('resident-set'), values.map(([when, bytes], step) => [when, 6 * 2 ** 20 + Math.max(bytes, step > 59 ? 30 * 2 ** 20 : 0)])]];
  if (processes) series.push([counter('heap-live', child), [[200 * MS, 4096], [700 * MS, 0]]]);
  for (const [row, list] of series) for (const [when, value] of list) p.row('counter_values', { counter: row, time: when, value });

  const empty = Object.fromEntries(COLUMNS.map(column => [column, 0]));
  const line = (name, fn, file, line, growth, numbers, extra = {}) => p.row('heap', {
    function: fn, file: p.text(file), line, stack: stacks[name], stacks: 1, growth, advice: NONE, own_function: NONE, own_file: NONE, own_line: 0, ...extra,
    ...empty, allocations: total.get(name), peak_bytes: atPeak.get(name) ?? 0, live_at_exit_bytes: live.get(name), ...numbers,
  });
  // parse: 500 blocks of 64 KiB until 600 ms; each Vec grew ten times to that size.
  line('parse', of.parse, 'src/parse.rs', 40, 3, { bytes_allocated: 500 * 65536, frees: 500, bytes_freed: 500 * 65536, peak_blocks: 500, max_bytes: 500 * 65536, max_blocks: 500,
    lifetime_ns: 500 * 350 * MS, grown: 500, growth_chains: 50, bytes_copied: 500 * 32768, largest_grown: 65536, bytes_grown_to: 50 * 65536 }, { advice: p.text('`with_capacity` for 64.0 KiB would save all of these reallocations, with nothing unused in a typical block') });
  // cache: 10,000 blocks of 1 KiB that are never freed; 2,000 of them are lost.
  line('cache', of.cache, 'src/cache.rs', 12, 2, { bytes_allocated: 10000 * 1024, peak_blocks: 6000, max_bytes: 10000 * 1024, max_blocks: 10000, live_at_exit_blocks: 10000,
    lifetime_ns: 10000 * 500 * MS, definitely_lost_blocks: 2000, definitely_lost_bytes: 2000 * 1024, reachable_blocks: 8000, reachable_bytes: 8000 * 1024 });
  // job: 1,000 blocks of 4 KiB on the worker, freed by the main thread.
  line('job', of.job, 'src/job.rs', 3, 3, { bytes_allocated: 1000 * 4096, frees: 1000, bytes_freed: 1000 * 4096, max_bytes: 20 * 4096, max_blocks: 20, lifetime_ns: 1000 * 10 * MS, freed_elsewhere: 1000 });
  // print: 100,000 texts of 32 bytes, nine of ten temporary.
  line('print', of.print, 'src/print.rs', 7, 1, { bytes_allocated: 100000 * 32, frees: 100000, bytes_freed: 100000 * 32, max_bytes: 32, max_blocks: 1, temporary: 90000, lifetime_ns: 100000 * 2000 });
  ['parse', 'cache', 'job', 'print'].forEach((name, site) => p.row('heap_stacks', { stack: stacks[name], site }));
  const bar = (site, of, bar, blocks) => p.row('heap_bars', { site, of, bar, blocks });
  [[0, 0, 17, 500], [0, 1, 28, 200], [0, 1, 29, 240], [0, 1, 30, 60], [1, 0, 11, 10000], [2, 0, 13, 1000], [2, 1, 24, 1000], [3, 0, 5, 20000], [3, 0, 6, 80000], [3, 1, 10, 12000], [3, 1, 11, 70000], [3, 1, 13, 18000]]
    .forEach(row => bar(...row));
  const sums = Object.fromEntries(COLUMNS.map(column => [column, p.tables.heap[column].reduce((sum, value) => sum + value, 0)]));
  p.heap = { peak_bytes: most, peak_ns: peakTime, growth: 'linear', leaks_checked: true, sample_bytes: null, snapshot, totals: sums };
  return p.container();
}

const COLUMNS = [
  'allocations', 'bytes_allocated', 'frees', 'bytes_freed', 'peak_bytes', 'peak_blocks', 'max_bytes', 'max_blocks', 'live_at_exit_blocks', 'live_at_exit_bytes', 'temporary',
  'lifetime_ns', 'grown', 'growth_chains', 'bytes_copied', 'largest_grown', 'bytes_grown_to', 'freed_elsewhere', 'unused_bytes', 'examined_bytes', 'definitely_lost_blocks',
  'definitely_lost_bytes', 'indirectly_lost_blocks', 'indirectly_lost_bytes', 'possibly_lost_blocks', 'possibly_lost_bytes', 'reachable_blocks', 'reachable_bytes',
  'suppressed_blocks', 'suppressed_bytes',
];
