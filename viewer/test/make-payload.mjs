// Generated profiles in the format of PAYLOAD.md, for tests and for trying the viewer without a recording.
// page.mjs writes them to files.

export const NONE = 0xffffffff;
const KINDS = { unknown: 0, yours: 1, dependency: 2, std: 3, allocator: 4, kernel: 5, runtime: 6 };
/** Families of code that only carries other code, by the start of their names. */
const CARRIERS = [
  { word: 'start-up', role: 'start-up', names: ['main|runtime', 'std::rt::', '_start', '__libc_start'] }, { word: 'thread start', role: 'thread-start', names: ['clone3', 'start_thread', 'std::sys::thread_start'] },
  { word: 'panic catching', role: 'panic-catching', names: ['__rust_try', 'std::panic'] }, { word: 'std', role: 'plumbing', names: ['core::iter::', 'core::ops::'] },
  { word: 'rayon', role: 'executor', names: ['rayon'] }, { word: 'tokio', role: 'executor', names: ['tokio::runtime::'] },
];
const HEAP_METRICS = ['bytes-allocated', 'allocations', 'bytes-freed', 'live-at-peak', 'live-at-exit', 'temporary-allocations', 'unused-bytes'];
const TIME_KINDS = [
  { word: 'running', state: 'running' }, { word: 'queued for a CPU', state: 'queued' }, { word: 'blocked: threads', state: 'blocked' },
  { word: 'blocked: I/O', state: 'blocked' }, { word: 'blocked: other', state: 'blocked' }, { word: 'idle', state: 'idle' },
];
const REASONS = [['cpu', 1], ['lock', 2], ['join', 2], ['file', 3], ['sleep', 4], ['idle', 5]].map(([word, kind]) => ({ word, kind }));
const TYPES = { u8: Uint8Array, u32: Uint32Array, f64: Float64Array };

/** Short and generic names, for names as simple as those in here: whyslow computes the real ones. */
const shortName = name => !name.includes('::') ? name : name.replace(/<[^<>]*>/g, '').split('::').filter(Boolean).slice(-2).join('::') || name;
const genericName = name => name.replace(/::<[^<>]*>/g, '').replace(/(\w)<[^<>]*>/g, '$1<…>');

/** A random number generator that gives the same numbers for the same seed. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = state + 0x6d2b79f5 | 0;
    let t = Math.imul(state ^ state >>> 15, state | 1);
    t ^= t + Math.imul(t ^ t >>> 7, t | 61);
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
}

/** Collects rows of tables and writes them as one container. */
export class Payload {
  constructor() {
    this.tables = {};
    this.texts = new Map();
    this.bytes = [];
    this.functionRows = new Map();
    this.locationRows = new Map();
    this.stackRows = new Map();
    this.chargeRows = new Map();
    this.chargeOf = new Map();
    this.taskRows = new Map();
    this.chainRows = new Map();
    this.chainStarts = [0];
    this.placeOf = new Map();
    this.samples = [];
    this.quality = { grade: 'good', samples: 0, lost: 0, warnings: [] };
    this.context = { command: ['./app'], file: 'run.whyslow', duration_ns: 1, samples: 0, recorder: 'whyslow 0.1.0', started_unix_ns: 1763164800000000000 };
    this.location(NONE, 0, []); // location 0: the place of missing frames
  }
  row(table, values) {
    const columns = this.tables[table] ??= Object.fromEntries(Object.keys(values).map(key => [key, []]));
    for (const [key, value] of Object.entries(values)) columns[key].push(value);
    return columns[Object.keys(values)[0]].length - 1;
  }
  text(text) {
    if (text === undefined || text === null) return NONE;
    let id = this.texts.get(text);
    if (id === undefined) {
      id = this.texts.size;
      this.texts.set(text, id);
      this.bytes.push(Buffer.from(text, 'utf8'));
    }
    return id;
  }
  process(pid, name, parent = NONE) { return this.row('processes', { pid, parent, name: this.text(name), start: 0, end: NaN }); }
  thread(process, tid, name, start = 0, end = NaN) { return this.row('threads', { process, tid, name: this.text(name), start, end }); }
  module(path, kind = 2) { return this.row('modules', { path: this.text(path), kind }); }
  fn(name, crate, kind = 'yours', file = undefined, line = 0, module = NONE) {
    const key = `${name}|${file}|${line}`;
    let id = this.functionRows.get(key);
    if (id === undefined) {
      const carrier = kind === 'yours' ? 0 : 1 + CARRIERS.findIndex(({ names }) => names.some(start => `${name}|${kind}`.startsWith(start)));
      const generic = genericName(name);
      id = this.row('functions', { name: this.text(name), short: this.text(shortName(name)), generic: generic === name ? NONE : this.text(generic), crate: this.text(crate), kind: KINDS[kind], file: this.text(file), line, module, carrier });
      this.functionRows.set(key, id);
    }
    return id;
  }
  /** `frames`: [function, file, line], outermost first. */
  location(module, address, frames) {
    const key = `${module} ${address} ${frames.map(frame => frame[0] + ':' + frame[2])}`;
    let id = this.locationRows.get(key);
    if (id === undefined) {
      this.frameStarts ??= [0];
      id = this.row('locations', { module, address });
      for (const [fn, file, line] of frames) this.row('frames', { function: fn, file: this.text(file), line: line ?? 0 });
      this.frameStarts.push(this.tables.frames?.function.length ?? 0);
      this.locationRows.set(key, id);
    }
    return id;
  }
  stack(parent, location) {
    const key = (parent === NONE ? 0 : parent + 1) * 4194304 + location;
    let id = this.stackRows.get(key);
    if (id === undefined) {
      id = this.row('stacks', { parent, location });
      this.stackRows.set(key, id);
    }
    return id;
  }
  /** The line of the user's code that CPU time and waits of a stack count towards. */
  charge(stack, fn, file, line) {
    const key = `${fn} ${file} ${line}`;
    if (!this.chargeRows.has(key)) this.chargeRows.set(key, this.row('charges', { function: fn, file: this.text(file), line }));
    this.chargeOf.set(stack, this.chargeRows.get(key));
    return stack;
  }
  /** Charges the stacks without a charge to the user's innermost line, or else to the innermost frame. */
  chargeAll() {
    const { stacks, frames, functions } = this.tables, nearest = [];
    const charges = this.tables.charges ??= { function: [], file: [], line: [] };
    stacks.location.forEach((location, stack) => {
      let at = stacks.parent[stack] === NONE ? undefined : nearest[stacks.parent[stack]];
      for (let frame = this.frameStarts[location]; frame < this.frameStarts[location + 1]; frame++) {
        const isOwn = functions.kind[frames.function[frame]] === KINDS.yours;
        if (!at || isOwn || !at.isOwn) at = { isOwn, fn: frames.function[frame], file: frames.file[frame], line: frames.line[frame] };
      }
      nearest.push(at);
      if (!at || this.chargeOf.has(stack)) return;
      const known = charges.function.findIndex((fn, row) => fn === at.fn && charges.file[row] === at.file && charges.line[row] === at.line);
      this.chargeOf.set(stack, known >= 0 ? known : this.row('charges', { function: at.fn, file: at.file, line: at.line }));
    });
  }
  /**
   * A stack in a task of async Rust: its executor, and the functions from the task to the innermost async
   * one.
   */
  inTask(stack, executor, functions, blockingCall = undefined) {
    const key = `${executor} ${functions}`, taskKey = `${executor} ${functions[0]}`;
    if (!this.taskRows.has(taskKey)) this.taskRows.set(taskKey, this.row('tasks', { executor: this.text(executor), function: functions[0] }));
    if (!this.chainRows.has(key)) {
      this.chainRows.set(key, this.row('chains', { task: this.taskRows.get(taskKey) }));
      for (const fn of functions) this.row('chain_functions', { function: fn });
      this.chainStarts.push(this.tables.chain_functions.function.length);
    }
    if (blockingCall !== undefined) this.row('blocking', { stack, call: blockingCall });
    return this.inPlace(stack, 3 + this.chainRows.get(key));
  }
  /** A stack in an executor outside tasks (1), or on a thread that may block (2). */
  inPlace(stack, place) {
    this.placeOf.set(stack, place);
    return stack;
  }
  /** Heap metrics are counted, all others sampled. */
  metric(name, unit) {
    const isHeap = HEAP_METRICS.includes(name);
    this.samples.push([]);
    return this.row('metrics', { name: this.text(name), unit, of: isHeap ? 2 : { 'off-cpu-time': 3, 'wall-time': 4, samples: 6 }[name] ?? 1, sampled: isHeap ? 0 : 1 });
  }
  /**
   * `reason`: for waits, one of the words of REASONS, with details: `{ cpu, argument, woken_by, waker,
   * waker_stack }`; for CPU time `{ running, busy }`.
   */
  sample(metric, time, thread, stack, value, reason = undefined, details = undefined) { this.samples[metric].push([time, thread, stack, value, reason, details]); }

  container() {
    if (this.samples.some(rows => rows.some(row => row[4])) || this.tables.syscalls) this.chargeAll();
    const columns = {};
    const add = (name, type, values) => { columns[name] = { type, values: TYPES[type].from(values) }; };
    const types = { kind: 'u8', carrier: 'u8', unit: 'u8', of: 'u8', sampled: 'u8', start: 'f64', end: 'f64', address: 'f64', time: 'f64', value: 'f64' };
    const ofHeap = { function: 'u32', file: 'u32', line: 'u32', own_function: 'u32', own_file: 'u32', own_line: 'u32', stack: 'u32', stacks: 'u32', growth: 'u8', advice: 'u32' };
    const ofBars = { site: 'u32', of: 'u8', bar: 'u8', blocks: 'f64' };
    const ofCalls = { only_waits: 'u8', time: 'f64', count: 'f64', total: 'f64', max: 'f64', bytes: 'f64', calls: 'f64' };
    const ofFindings = { share: 'f64', low: 'f64', high: 'f64' };
    const ofCausal = { kind: 'u8', verdict: 'u8', share: 'f64', visits: 'f64', speedup: 'f64', effect: 'f64', low: 'f64', high: 'f64' };
    const typeOf = (table, column) => table.startsWith('causal') ? ofCausal[column] ?? 'u32' : table.startsWith('syscall') ? ofCalls[column] ?? 'u32' : table.startsWith('finding') ? ofFindings[column] ?? 'u32' : table === 'locks' ? (column === 'address' ? 'f64' : 'u32') : table === 'heap' ? ofHeap[column] ?? 'f64' : table === 'heap_bars' ? ofBars[column] : types[column] ?? 'u32';
    for (const [table, rows] of Object.entries(this.tables)) {
      for (const [column, values] of Object.entries(rows)) add(`${table}.${column}`, typeOf(table, column), values);
    }
    if (this.chargeOf.size) add('stacks.charge', 'u32', this.tables.stacks.parent.map((_, stack) => this.chargeOf.get(stack) ?? NONE));
    if (this.placeOf.size) {
      add('stacks.place', 'u32', this.tables.stacks.parent.map((_, stack) => this.placeOf.get(stack) ?? 0));
      add('chains.functions', 'u32', this.chainStarts);
    }
    add('locations.frames', 'u32', this.frameStarts);
    let end = 0;
    add('strings.ends', 'u32', this.bytes.map(bytes => end += bytes.length));
    columns['strings.bytes'] = { type: 'u8', values: new Uint8Array(Buffer.concat(this.bytes)) };
    let hasWaits = false;
    this.samples.forEach((samples, metric) => {
      samples.sort((a, b) => a[0] - b[0]);
      let before = 0;
      add(`samples.${metric}.time_delta`, 'u32', samples.map(([time]) => {
        const delta = Math.max(0, Math.round(time / 1000) - before);
        before += delta;
        return delta;
      }));
      add(`samples.${metric}.thread`, 'u32', samples.map(sample => sample[1]));
      add(`samples.${metric}.stack`, 'u32', samples.map(sample => sample[2]));
      add(`samples.${metric}.value`, 'f64', samples.map(sample => sample[3]));
      if (samples.some(sample => sample[5]?.running)) for (const of of ['running', 'busy']) add(`samples.${metric}.${of}`, 'u32', samples.map(sample => sample[5]?.[of] ?? 1));
      if (!samples.some(sample => sample[4])) return;
      hasWaits = true;
      add(`samples.${metric}.reason`, 'u8', samples.map(sample => 1 + REASONS.findIndex(({ word }) => word === sample[4])));
      if (!samples.some(sample => sample[5])) return;
      const known = (column, type, missing) => add(`samples.${metric}.${column}`, type, samples.map(sample => sample[5]?.[column] ?? missing));
      for (const column of ['cpu', 'waker', 'waker_stack']) known(column, 'u32', NONE);
      known('argument', 'f64', 0);
      known('woken_by', 'u8', 0);
      if (this.tables.locks) known('lock', 'u32', NONE);
    });
    this.context.samples = this.samples[0]?.length ?? 0;
    this.quality.samples ||= this.context.samples;
    return container({ context: this.context, quality: this.quality, heap: this.heap, explained: this.explained, causal: this.causal, parallelism: this.parallelism, carriers: CARRIERS.map(({ word, role }) => ({ word, role })), ...(hasWaits ? { time_kinds: TIME_KINDS, reasons: REASONS } : {}) }, columns);
  }
}

/** The bytes of an uncompressed container with these columns. */
export function container({ schema = 'whyslow-view/1', context = {}, quality = {}, heap = undefined, explained = undefined, causal = undefined, carriers = undefined, time_kinds = undefined, reasons = undefined, parallelism = undefined, diff = undefined, bench = undefined }, columns) {
  const described = {};
  let offset = 0;
  for (const [name, { type, values }] of Object.entries(columns)) {
    described[name] = { type, offset, length: values.length };
    offset = Math.ceil((offset + values.byteLength) / 8) * 8;
  }
  const header = Buffer.from(JSON.stringify({ schema, context, quality, heap, explained, causal, carriers, time_kinds, reasons, parallelism, diff, bench, columns: described }));
  const start = Math.ceil((4 + header.length) / 8) * 8;
  const out = Buffer.alloc(start + offset);
  out.writeUInt32LE(header.length, 0);
  header.copy(out, 4);
  for (const [name, { values }] of Object.entries(columns)) {
    Buffer.from(values.buffer, values.byteOffset, values.byteLength).copy(out, start + described[name].offset);
  }
  return new Uint8Array(out);
}

/** A few samples with known answers: see the tests that use it. */
export function small() {
  const p = new Payload();
  const process = p.process(100, 'app');
  const [a, b] = [p.thread(process, 100, 'main'), p.thread(process, 101, 'worker')];
  const module = p.module('/usr/bin/app', 1);
  const unnamed = p.module('/usr/lib/libz.so.1', 2);
  const place = (name, crate, kind, line, ...inlined) => {
    const file = crate === 'app' ? 'src/main.rs' : `${crate}/lib.rs`;
    return p.location(module, 0x1000 + line, [[p.fn(name, crate, kind, file, line, module), file, line + 1],
      ...inlined.map(fn => [fn, 'core/lib.rs', 7])]);
  };
  const mapped = p.fn('core::iter::Map<I,F>::next', 'core', 'std', 'core/lib.rs', 5, module);
  const main = p.stack(NONE, place('app::main', 'app', 'yours', 10));
  const parse = p.stack(main, place('app::parse', 'app', 'yours', 20, mapped));
  const again = p.stack(parse, place('app::parse', 'app', 'yours', 20));
  const alloc = p.stack(again, place('alloc::alloc::alloc', 'alloc', 'allocator', 30));
  const work = p.stack(NONE, place('app::work', 'app', 'yours', 40));
  const vec32 = p.stack(work, place('dep::Set<u32>::insert', 'dep', 'dependency', 50));
  const vec64 = p.stack(work, place('dep::Set<u64>::insert', 'dep', 'dependency', 50));
  const zlib = p.stack(work, p.location(unnamed, 0x500, []));
  const cut = p.stack(NONE, 0);
  const cpu = p.metric('cpu', 1);
  p.context.duration_ns = 1e7;
  let at = 0;
  for (const [thread, stack, count] of [[a, parse, 10], [a, again, 20], [a, alloc, 30], [b, vec32, 15], [b, vec64, 15], [b, zlib, 8], [b, cut, 2]]) {
    for (let i = 0; i < count; i++) p.sample(cpu, at += 100_000, thread, stack, 100_000);
  }
  return p.container();
}

/** Two rayon workers with the same work on many paths, a main thread, and one recursive function. */
export function executor() {
  const p = new Payload();
  const process = p.process(100, 'app');
  const threads = { main: p.thread(process, 100, 'app'), worker: p.thread(process, 101, 'rayon-0') };
  const cpu = p.metric('cpu', 1);
  let address = 0x1000, at = 0;
  const known = new Map();
  const place = name => {
    if (!known.has(name)) {
      const kind = name.startsWith('app::') ? 'yours' : name.startsWith('rayon') ? 'dependency' : /^(core|std)::/.test(name) ? 'std' : 'runtime';
      known.set(name, p.location(NONE, address += 16, [[p.fn(name, undefined, kind, kind === 'yours' ? 'src/main.rs' : undefined, address), 'src/main.rs', address]]));
    }
    return known.get(name);
  };
  const add = (thread, names, samples) => {
    const stack = names.reduce((stack, name) => p.stack(stack, place(name)), NONE);
    for (let i = 0; i < samples; i++) p.sample(cpu, at += 100_000, threads[thread], stack, 100_000);
  };
  const start = ['_start', '__libc_start_main', 'main', 'std::rt::lang_start'];
  const worker = ['clone3', 'start_thread', 'std::sys::thread_start', '__rust_try', 'rayon_core::registry::main_loop'];
  for (let path = 0; path < 16; path++) {
    const way = [0, 1, 2, 3].flatMap(bit => path >> bit & 1 ? ['rayon_core::join::join', 'rayon::iter::left'] : ['rayon_core::job::execute', 'rayon::iter::right']);
    add('worker', [...worker, ...way, 'app::render', 'app::pixel'], 5);
    if (path % 4 === 0) add('worker', [...worker, ...way, 'app::shade', 'core::iter::map', 'core::iter::fold', 'core::ops::call', 'app::tone', 'memcpy'], 1);
  }
  add('main', [...start, 'app::main', 'app::load'], 10);
  add('main', [...start, 'app::main', ...Array.from({ length: 30 }, () => 'app::visit')], 4);
  add('main', start, 2);
  p.context.duration_ns = at;
  return p.container();
}

const SERVER = [
  // thread, weight, frames from outermost to innermost; `+` marks one inlined into the one before
  ['worker', 9, 'tokio::runtime::scheduler::multi_thread::worker::run|tokio|dependency', 'tokio::runtime::task::harness::Harness<T,S>::poll|tokio|dependency', 'hyper::proto::h1::dispatch::Dispatcher<D,Bs,I,T>::poll_loop|hyper|dependency', 'logsearch::api::handle_search::{{closure}}|logsearch|yours', 'logsearch::query::Query::run|logsearch|yours', 'logsearch::index::Segment::scan|logsearch|yours', '+logsearch::index::Postings::next|logsearch|yours', '+core::iter::adapters::filter_map::FilterMap<I,F>::next|core|std', 'regex_automata::meta::regex::Regex::search_half|regex_automata|dependency', 'regex_automata::hybrid::search::find_fwd|regex_automata|dependency'],
  ['worker', 5, 'tokio::runtime::scheduler::multi_thread::worker::run|tokio|dependency', 'tokio::runtime::task::harness::Harness<T,S>::poll|tokio|dependency', 'hyper::proto::h1::dispatch::Dispatcher<D,Bs,I,T>::poll_loop|hyper|dependency', 'logsearch::api::handle_search::{{closure}}|logsearch|yours', 'logsearch::query::Query::run|logsearch|yours', 'logsearch::index::Segment::scan|logsearch|yours', 'logsearch::codec::Block::decode|logsearch|yours', 'lz4_flex::block::decompress::decompress_into|lz4_flex|dependency', '+core::ptr::copy_nonoverlapping|core|std', '__memmove_avx_unaligned_erms||runtime'],
  ['worker', 4, 'tokio::runtime::scheduler::multi_thread::worker::run|tokio|dependency', 'tokio::runtime::task::harness::Harness<T,S>::poll|tokio|dependency', 'hyper::proto::h1::dispatch::Dispatcher<D,Bs,I,T>::poll_loop|hyper|dependency', 'logsearch::api::handle_search::{{closure}}|logsearch|yours', 'serde_json::ser::to_vec|serde_json|dependency', '<logsearch::api::Hit as serde::ser::Serialize>::serialize|logsearch|yours', 'serde_json::ser::format_escaped_str|serde_json|dependency', 'alloc::raw_vec::RawVec<T,A>::grow_amortized|alloc|std', 'realloc||allocator', '_int_realloc||allocator'],
  ['worker', 2, 'tokio::runtime::scheduler::multi_thread::worker::run|tokio|dependency', 'tokio::runtime::task::harness::Harness<T,S>::poll|tokio|dependency', 'hyper::proto::h1::dispatch::Dispatcher<D,Bs,I,T>::poll_loop|hyper|dependency', 'logsearch::api::handle_search::{{closure}}|logsearch|yours', 'logsearch::query::Query::parse|logsearch|yours', 'logsearch::query::Query::parse_group|logsearch|yours', 'logsearch::query::Query::parse|logsearch|yours', 'logsearch::query::Query::parse_group|logsearch|yours', 'alloc::vec::Vec<T,A>::push|alloc|std', 'malloc||allocator'],
  ['worker', 3, 'tokio::runtime::scheduler::multi_thread::worker::run|tokio|dependency', 'tokio::runtime::io::driver::Driver::turn|tokio|dependency', 'epoll_wait||runtime', 'entry_SYSCALL_64_after_hwframe||kernel', 'do_syscall_64||kernel', 'ep_poll||kernel', 'schedule||kernel'],
  ['worker', 2, 'tokio::runtime::scheduler::multi_thread::worker::run|tokio|dependency', 'tokio::runtime::task::harness::Harness<T,S>::poll|tokio|dependency', 'hyper::proto::h1::io::Buffered<T,B>::poll_flush|hyper|dependency', 'std::net::tcp::TcpStream::write|std|std', 'send||runtime', 'entry_SYSCALL_64_after_hwframe||kernel', 'tcp_sendmsg_locked||kernel', 'copy_user_enhanced_fast_string||kernel'],
  ['indexer', 6, 'std::sys::thread_start|std|std', 'logsearch::indexer::run|logsearch|yours', 'logsearch::indexer::merge_segments|logsearch|yours', 'core::slice::sort::stable::driftsort_main|core|std', 'core::slice::sort::shared::smallsort::insert_tail|core|std', '+<logsearch::index::Term as core::cmp::Ord>::cmp|logsearch|yours', '__memcmp_avx2_movbe||runtime'],
  ['indexer', 5, 'std::sys::thread_start|std|std', 'logsearch::indexer::run|logsearch|yours', 'logsearch::indexer::tokenize|logsearch|yours', 'hashbrown::map::HashMap<K,V,S>::entry|hashbrown|dependency', '+core::hash::BuildHasher::hash_one|core|std', '+<core::hash::sip::Hasher<S> as core::hash::Hasher>::write|core|std'],
  ['indexer', 3, 'std::sys::thread_start|std|std', 'logsearch::indexer::run|logsearch|yours', 'logsearch::indexer::tokenize|logsearch|yours', 'alloc::string::String::from|alloc|std', 'malloc||allocator', '_int_malloc||allocator'],
  ['flusher', 4, 'std::sys::thread_start|std|std', 'logsearch::wal::flush|logsearch|yours', 'std::fs::File::sync_all|std|std', 'fsync||runtime', 'entry_SYSCALL_64_after_hwframe||kernel', 'ext4_sync_file||kernel', 'jbd2_complete_transaction||kernel'],
  ['main', 5, 'main||runtime', 'std::rt::lang_start::{{closure}}|std|std', 'logsearch::main|logsearch|yours', 'logsearch::index::Index::open|logsearch|yours', 'logsearch::index::Segment::load|logsearch|yours', 'crc32fast::specialized::pclmulqdq::calculate|crc32fast|dependency'],
  ['main', 3, 'main||runtime', 'std::rt::lang_start::{{closure}}|std|std', 'logsearch::main|logsearch|yours', 'logsearch::index::Index::open|logsearch|yours', 'memmap2::unix::MmapInner::map|memmap2|dependency', 'asm_exc_page_fault||kernel', 'handle_mm_fault||kernel', 'clear_page_erms||kernel'],
  ['gzip', 3, 'main||unknown', '?libz.so.1.3', '?libz.so.1.3'],
];

/** About 50,000 samples of a small server: 8 threads, 2 processes, 3 metrics, spans, counters, sources, code. */
export function realistic({ samples = 50_000, seed = 7 } = {}) {
  const p = new Payload(), next = random(seed);
  const seconds = 12, total = seconds * 1e9;
  p.context = { ...p.context, command: ['./target/release/logsearch', '--serve', '0.0.0.0:8080', '--data', '/var/lib/logsearch'], file: 'logsearch.whyslow', duration_ns: total };
  p.quality = { grade: 'fair', samples, lost: 12, lost_records: 1, throttled: 0, truncated_share: .012, unresolved_share: .004, nameless_share: .021, source: 'perf events',
    kernel: 'visible', missing_kernel_share: 0, frequency_hz: 997, expected_samples: samples + 12, incomplete: false,
    warnings: [{ code: 'truncated', message: '1.2 % of the stacks are truncated', fix: 'Record with --stack-bytes 65536' }] };
  const app = p.process(4711, 'logsearch'), child = p.process(4790, 'gzip', app);
  const program = p.module('/home/me/logsearch/target/release/logsearch', 1), libc = p.module('/usr/lib/x86_64-linux-gnu/libc.so.6', 2);
  const kernel = p.module('[kernel]', 3), libz = p.module('/usr/lib/x86_64-linux-gnu/libz.so.1.3', 2);
  const threads = { main: [p.thread(app, 4711, 'logsearch')], worker: [0, 1, 2, 3].map(n => p.thread(app, 4720 + n, `tokio-worker-${n}`)),
    indexer: [p.thread(app, 4731, 'indexer', 1e9)], flusher: [p.thread(app, 4732, 'wal-flush', 1e9)], gzip: [p.thread(child, 4790, 'gzip', 6e9, 8.5e9)] };
  const cpu = p.metric('cpu', 1), off = p.metric('off-cpu', 1), bytes = p.metric('bytes allocated', 2);

  let line = 10;
  const known = new Map();
  const frame = text => {
    const [name, crate, kind] = text.replace('+', '').split('|');
    let entry = known.get(name);
    if (!entry) {
      const file = crate ? (kind === 'yours' ? `src/${name.split('::')[1] ?? 'main'}.rs` : `/registry/${crate}/src/lib.rs`) : undefined;
      const module = kind === 'kernel' ? kernel : crate ? program : libc;
      line += 17;
      entry = { fn: p.fn(name, crate || undefined, kind, file, file ? line : 0, module), file, line, module, address: 0x1000 + line * 64 };
      known.set(name, entry);
    }
    return entry;
  };
  // Each recipe gives several stacks: other lines, cut earlier, extra helpers.
  const stacksOf = recipe => {
    const out = [];
    for (let variant = 0; variant < 12; variant++) {
      const frames = recipe.slice(2);
      const keep = variant < 5 ? frames.length : Math.max(2, frames.length - Math.floor(next() * 4));
      let stack = NONE, pending;
      const close = () => { if (pending) { stack = p.stack(stack, p.location(pending.module, pending.address + pending.offset, pending.frames)); pending = undefined; } };
      if (next() < .06) stack = p.stack(NONE, 0);
      for (const text of frames.slice(0, keep)) {
        if (text.startsWith('?')) { close(); stack = p.stack(stack, p.location(libz, 0x2000 + Math.floor(next() * 8) * 16, [])); continue; }
        const { fn, file, line, module, address } = frame(text);
        const at = line + 1 + Math.floor(next() * 6);
        if (text.startsWith('+') && pending) { pending.frames.push([fn, file, at]); pending.offset += at; continue; }
        close();
        pending = { module, address, offset: (at - line) * 4, frames: [[fn, file, file ? at : 0]] };
      }
      close();
      out.push(stack);
    }
    return out;
  };
  const recipes = SERVER.map(recipe => ({ group: recipe[0], weight: recipe[1], stacks: stacksOf(recipe) }));
  const busy = (group, time) => {
    const s = time / 1e9;
    if (group === 'main') return s < 1.6 ? .95 : .01;
    if (group === 'worker') return s < 1.6 ? .02 : .25 + .35 * (1 + Math.sin(s * 1.7)) / 2 + (s > 8.5 && s < 10 ? .35 : 0);
    if (group === 'indexer') return s < 1 ? 0 : s % 4 < 1.7 ? .9 : .08;
    if (group === 'flusher') return s % 1 < .25 ? .3 : .02;
    return s > 6 && s < 8.5 ? .97 : 0;
  };
  const pick = group => {
    const fitting = recipes.filter(recipe => recipe.group === group);
    let at = next() * fitting.reduce((sum, recipe) => sum + recipe.weight, 0);
    const recipe = fitting.find(recipe => (at -= recipe.weight) < 0) ?? fitting[0];
    return recipe.stacks[Math.floor(next() ** 1.6 * recipe.stacks.length)];
  };
  const period = seconds * 8e9 / (samples * 2.1);
  for (const [group, list] of Object.entries(threads)) for (const thread of list) {
    for (let time = next() * period; time < total; time += period) {
      if (next() < busy(group, time)) {
        const stack = pick(group);
        p.sample(cpu, time, thread, stack, period);
        if (next() < .12) p.sample(bytes, time, thread, stack, Math.round(64 * 2 ** (next() * 12)));
      } else if (next() < .04) p.sample(off, time, thread, pick(group), period * 20 * next());
    }
  }
  for (let request = 0; request < 400; request++) {
    const start = 1.6e9 + next() * (total - 1.9e9), thread = threads.worker[request % 4];
    p.spanRows = [...p.spanRows ?? [], { name: 'request', thread, start, end: start + 2e6 + next() ** 4 * 2e8, detail: `GET /search?q=${request}` }];
    if (request % 3 === 0) p.spanRows.push({ name: 'db::query', thread, start: start + 5e5, end: start + 1.5e6 + next() * 2e6, detail: undefined });
  }
  for (let n = 1; n < 12; n += 4) p.spanRows.push({ name: 'merge segments', thread: threads.indexer[0], start: n * 1e9, end: (n + .7) * 1e9, detail: `level ${n}` });
  p.spanRows.push({ name: 'open index', thread: threads.main[0], start: 1e7, end: 1.55e9, detail: undefined }, { name: 'warm-up', thread: NONE, start: 0, end: 1.6e9, detail: undefined });
  p.spanRows.sort((a, b) => a.start - b.start).forEach(span => p.row('spans', { ...span, name: p.text(span.name), detail: p.text(span.detail) }));
  const rss = p.row('counters', { name: p.text('resident memory'), unit: 2, process: app });
  const rate = p.row('counters', { name: p.text('requests in flight'), unit: 0, process: NONE });
  for (let time = 0; time <= total; time += 5e7) p.row('counter_values', { counter: rss, time, value: 4e7 + Math.min(time / 1e9, 1.6) * 2e8 + 3e7 * Math.sin(time / 6e8) + (time > 5e9 ? 1e8 : 0) });
  for (let time = 0; time <= total; time += 5e7) p.row('counter_values', { counter: rate, time, value: time < 1.6e9 ? 0 : Math.round(6 + 5 * Math.sin(time / 4e8) + next() * 4) });

  const files = [...new Set([...known.values()].map(entry => entry.file).filter(Boolean))].sort();
  for (const file of files) {
    const entries = [...known].filter(([, entry]) => entry.file === file).sort((a, b) => a[1].line - b[1].line);
    for (const [name, entry] of entries) {
      [`fn ${name.split('::').pop()}(&mut self) -> Result<()> {`, '    let block = self.reader.next_block()?;', '    for term in block.terms() {', '        if term.hash() == wanted {', '            hits.push(term.position());', '        }', '    }', '    Ok(())', '}']
        .forEach((text, at) => p.row('sources', { file: p.text(file), line: entry.line + at, text: p.text(text) }));
    }
  }
  for (const module of [program, libc]) {
    for (const [, entry] of [...known].filter(([, entry]) => entry.module === module).sort((a, b) => a[1].address - b[1].address)) {
      const code = p.row('code', { module, start: entry.address, end: entry.address + 64 });
      ['push rbp', 'mov rbp, rsp', 'mov rax, qword ptr [rdi+8]', 'cmp rax, rsi', 'jae +24', 'vmovdqu ymm0, ymmword ptr [rax]', 'vpcmpeqb ymm1, ymm0, ymm2', 'vpmovmskb ecx, ymm1', 'test ecx, ecx', 'jne -32', 'pop rbp', 'ret']
        .forEach((text, at) => p.row('instructions', { code, address: entry.address + at * 4, text: p.text(text) }));
    }
  }
  return p.container();
}

/** Columns only, so that a million samples are generated quickly: `nodes` stacks over 5,000 functions. */
export function large({ samples = 1_000_000, nodes = 200_000, threads = 16, seed = 3, seconds = 60 } = {}) {
  const p = new Payload(), next = random(seed);
  const process = p.process(1, 'big');
  const crates = ['big', 'engine', 'tokio', 'serde', 'core', 'alloc', 'hashbrown', 'regex'];
  const kinds = ['yours', 'yours', 'dependency', 'dependency', 'std', 'std', 'dependency', 'dependency'];
  const places = [];
  for (let n = 0; n < 5000; n++) {
    const crate = n % crates.length;
    const fn = p.fn(`${crates[crate]}::module_${n % 97}::Type<T${n % 7}>::function_${n}`, crates[crate], n % 61 === 0 ? 'kernel' : n % 53 === 0 ? 'allocator' : kinds[crate], `src/file_${n % 97}.rs`, n + 1);
    const inner = p.fn(`core::inlined_${n % 300}`, 'core', 'std', 'core/src/lib.rs', n % 300);
    places.push(p.location(NONE, n * 32, n % 3 ? [[fn, `src/file_${n % 97}.rs`, n + 2]] : [[fn, `src/file_${n % 97}.rs`, n + 2], [inner, 'core/src/lib.rs', n % 300 + 1]]));
  }
  for (let thread = 0; thread < threads; thread++) p.thread(process, thread + 1, `worker-${thread}`);
  const parent = new Uint32Array(nodes), location = new Uint32Array(nodes), depth = new Uint16Array(nodes);
  parent[0] = NONE;
  location[0] = places[0];
  for (let node = 1; node < nodes; node++) {
    // Mostly below a recent node, so that stacks get deep; sometimes below any.
    let up = next() < .7 ? Math.max(0, node - 1 - Math.floor(next() * 40)) : Math.floor(next() ** 3 * node);
    while (depth[up] > 60) up = parent[up];
    parent[node] = up;
    depth[node] = depth[up] + 1;
    location[node] = places[Math.floor(next() ** 2 * places.length)];
  }
  const cpu = p.metric('cpu', 1);
  p.context.duration_ns = seconds * 1e9;
  const step = seconds * 1e9 / samples;
  p.samples[cpu] = Array.from({ length: samples }, (_, n) => [n * step, Math.floor(next() * threads), Math.floor(next() ** 1.5 * nodes), step * threads * .8]);
  p.tables.stacks = { parent, location };
  return p.container();
}

/** One function that calls itself `levels` times, and another path as deep. */
export function deep({ levels = 10_000 } = {}) {
  const p = new Payload();
  const thread = p.thread(p.process(1, 'deep'), 1, 'main');
  const fns = ['deep::recurse', 'deep::even', 'deep::odd'].map((name, at) => p.fn(name, 'deep', 'yours', 'src/main.rs', at + 1));
  const places = fns.map((fn, at) => p.location(NONE, at + 1, [[fn, 'src/main.rs', at + 1]]));
  const cpu = p.metric('cpu', 1);
  let one = NONE, two = NONE, at = 0;
  for (let level = 0; level < levels; level++) {
    one = p.stack(one, places[0]);
    two = p.stack(two, places[1 + level % 2]);
    if (level % 100 === 99) for (const stack of [one, two]) p.sample(cpu, at += 1e6, thread, stack, 1e6);
  }
  p.context.duration_ns = at;
  return p.container();
}

export const HOSTILE = ['<script>alert(1)</script>', '"&\'><img src=x onerror=alert(2)>', 'a\u0000b\u001b[31mred\r\n\t', '\u202egnp.exe\u202c', 'x'.repeat(100_000),
  '\ud83d\ude00'.repeat(20), '</script><script>alert(3)</script>', '{{closure}}', '', '<'.repeat(200), 'operator<<', '名前::関数'];

/** Names that try to act as markup. */
export function hostile() {
  const p = new Payload();
  const thread = p.thread(p.process(1, HOSTILE[0]), 1, HOSTILE[1]);
  const cpu = p.metric(HOSTILE[0], 1);
  p.context.command = [HOSTILE[1], HOSTILE[0]];
  p.context.file = HOSTILE[6];
  p.quality.warnings = [{ code: 'x', message: HOSTILE[0], fix: HOSTILE[6] }];
  const root = p.stack(NONE, p.location(NONE, 1, [[p.fn('main', 'app'), 'src/main.rs', 1]]));
  let at = 0;
  HOSTILE.forEach((name, n) => {
    const stack = p.stack(root, p.location(NONE, n + 10, [[p.fn(name, name.slice(0, 1000), 'yours', name, n), name, n]]));
    for (let i = 0; i < 20; i++) p.sample(cpu, at += 1e6, thread, stack, 1e6);
    p.row('spans', { name: p.text(name), thread, start: at - 1e6, end: at, detail: p.text(name) });
    p.row('sources', { file: p.text(name), line: n, text: p.text(name) });
  });
  p.row('counters', { name: p.text(HOSTILE[0]), unit: 0, process: 0 });
  for (let n = 0; n < 10; n++) p.row('counter_values', { counter: 0, time: n * 1e6, value: n });
  p.context.duration_ns = at;
  return p.container();
}

/** A thousand threads in twenty processes. */
export function threads({ count = 1000 } = {}) {
  const p = new Payload(), next = random(5);
  const cpu = p.metric('cpu', 1);
  const place = [0, 1, 2].map(n => p.stack(NONE, p.location(NONE, n + 1, [[p.fn(`pool::work_${n}`, 'pool', 'yours', 'src/lib.rs', n + 1), 'src/lib.rs', n + 1]])));
  p.context.duration_ns = 1e10;
  for (let n = 0; n < count; n++) {
    if (n % 50 === 0) p.process(1000 + n, `service-${n / 50}`);
    const thread = p.thread(Math.floor(n / 50), 2000 + n, `pool-${n}`);
    for (let time = next() * 1e8; time < 1e10; time += 1e8 * (.2 + next())) p.sample(cpu, time, thread, place[Math.floor(next() * 3)], 5e7 * next());
  }
  return p.container();
}

export const SHAPES = { small, executor, realistic, large, deep, hostile, threads };
