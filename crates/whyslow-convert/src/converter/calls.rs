//! System calls: pairs each entry with its exit, and adds up the costs per call site, call, file and result.
//!
//! ```text
//! Enters   a thread enters a call; with its stack, or without it if calls are too frequent to copy their stacks
//! Returns  the call returns
//! ```
//! A call without a stack counts at the site of a recent call of the same thread, kind and file, taking the
//! last ones in turn, so that their shares are unchanged. If the file is new, the site is that of a call of the same
//! thread and kind. Every row says how many of its calls are such.
//!
//! After lost records, no earlier entry is paired any more: its exit may be missing, and the next exit may
//! belong to a later call.

mod files;
mod meaning;

use rustc_hash::FxHashMap;
use whyslow_profile::{
    Lengths, LocationId, MetricId, Module, ModuleKind, RelativeAddress, StackId, StringId, Syscalls,
    ThreadId, bracketed,
};

use self::files::{FileId, Files, STANDARD};
use self::meaning::{Does, Meaning, error_name, meaning};
use super::Converter;
use crate::call_names::call_name;
use crate::input::{Dump, Enters, Returns, Task, UserStack};
use crate::world::World;

/// The time span of one metric sample.
const BUCKET_NS: u64 = 50_000_000;
/// How many stacks per thread and kind of call are kept for calls without one.
const RECENT: usize = 64;
/// How many kinds of calls per thread keep them.
const RECENT_KINDS: usize = 512;
/// The maximum distance of the two records of one entry.
const SAME_NS: u64 = 1_000_000;
/// The number in the record of a signal handler's return, which restores the number of the interrupted call.
const NO_NUMBER: i64 = -1;
/// `F_DUPFD` and `F_DUPFD_CLOEXEC`.
const DUPLICATING: [u64; 2] = [0, 1030];
/// The numbers of descriptors are below this, by default.
const DESCRIPTORS: i32 = 1 << 20;
/// Errors are returned as small negative numbers.
const MAX_ERRNO: i64 = 4095;

/// The state shared by all threads.
#[derive(Debug)]
pub(super) struct Calls {
    metrics: [MetricId; 3],
    kinds: FxHashMap<(i64, bool), Kind>,
    files: Files,
    rows: FxHashMap<Key, Row>,
    buckets: FxHashMap<(ThreadId, StackId), Bucket>,
    bucket_ns: u64,
    errors: FxHashMap<u16, StringId>,
    /// The time of the last record.
    read_ns: u64,
    /// How often records were lost.
    losses: u64,
    /// Calls whose exit is missing.
    unpaired: u64,
}

/// A kind of call.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: StringId,
    place: LocationId,
    meaning: Meaning,
}

/// The key of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    thread: ThreadId,
    stack: StackId,
    call: StringId,
    file: Option<FileId>,
    error: u16,
}

#[derive(Debug, Default)]
struct Row {
    last_ns: u64,
    count: u64,
    spread: u64,
    total_ns: u64,
    max_ns: u64,
    bytes: u64,
    lengths: Lengths,
}

#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    last_ns: u64,
    /// Calls, nanoseconds, bytes.
    values: [u64; 3],
}

/// The state of one thread.
#[derive(Debug, Default)]
pub(super) struct InCall {
    /// The call that it is in.
    current: Option<Current>,
    /// The stack of an entry whose other record has not arrived yet.
    stack: Option<Stacked>,
    /// The last stacks by kind and file, and by kind alone.
    recent: FxHashMap<(StringId, Option<FileId>), Recent>,
    /// Whether any earlier record was about it.
    is_known: bool,
    /// Whether its calls have the numbers of 32-bit programs.
    is_32_bit: bool,
}

#[derive(Debug)]
struct Current {
    number: i64,
    arguments: [u64; 6],
    begin_ns: u64,
    stack: Option<StackId>,
    file: Option<FileId>,
    /// The path or address that it points to.
    text: Option<String>,
    /// How often records were lost before it.
    losses: u64,
}

#[derive(Debug)]
struct Stacked {
    number: i64,
    arguments: [u64; 6],
    time_ns: u64,
    stack: Option<StackId>,
    text: Option<String>,
}

/// The last stacks of one kind of calls.
#[derive(Debug, Default)]
struct Recent {
    stacks: Vec<StackId>,
    next: usize,
}

impl Recent {
    fn add(&mut self, stack: StackId) {
        if self.stacks.len() < RECENT {
            self.stacks.push(stack);
        } else {
            self.stacks[self.next % RECENT] = stack;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// The next of them, in turn.
    fn another(&mut self) -> Option<StackId> {
        self.next = self.next.wrapping_add(1);
        let at = self.next.checked_rem(self.stacks.len())?;
        self.stacks.get(at).copied()
    }
}

impl InCall {
    /// The stack of a call: its own, or that of a recent call of its kind.
    fn site(&mut self, kind: StringId, file: Option<FileId>, own: Option<StackId>) -> Option<StackId> {
        let mut pools = [file, None].into_iter().take(if file.is_some() { 2 } else { 1 });
        match own {
            Some(stack) => {
                pools.for_each(|file| self.recent.entry((kind, file)).or_default().add(stack));
                Some(stack)
            }
            None => pools.find_map(|file| self.recent.get_mut(&(kind, file))?.another()),
        }
    }
}

impl<W: World> Converter<W> {
    /// Records system calls: their number, duration and bytes.
    pub fn record_calls(&mut self, metrics: [MetricId; 3]) {
        self.calls = Some(Calls {
            metrics,
            kinds: FxHashMap::default(),
            files: Files::default(),
            rows: FxHashMap::default(),
            buckets: FxHashMap::default(),
            bucket_ns: 0,
            errors: FxHashMap::default(),
            read_ns: 0,
            losses: 0,
            unpaired: 0,
        });
    }

    /// The number of calls whose exit is missing because records were lost.
    pub fn unpaired_calls(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.unpaired)
    }

    /// A thread enters a call.
    pub(super) fn enters(&mut self, enters: &Enters<'_>) {
        let Enters { task, time_ns, number, arguments, .. } = *enters;
        if self.calls.is_none() || task.pid == 0 || task.tid == u32::MAX {
            return;
        }
        self.ensure_thread(task.pid, task.tid, time_ns);
        match &enters.stack {
            Some(user) => self.call_stack(task, enters, user),
            None => self.call_begins(task, number, arguments, time_ns),
        }
    }

    /// The stack of a call's entry. The record of the entry itself is just before or just after it.
    fn call_stack(&mut self, task: Task, enters: &Enters<'_>, user: &UserStack<'_>) {
        let Enters { time_ns, number, arguments, is_32_bit, .. } = *enters;
        let stack = self.user_stack(task, user);
        let Some(kind) = self.call_kind(number, is_32_bit) else { return };
        let text = text_of(kind.meaning, &arguments, user);
        let Some(thread) = self.threads.get_mut(&task.tid) else { return };
        thread.call.is_32_bit = is_32_bit;
        let of_current = |current: &&mut Current| {
            let same = current.number == number && current.arguments == arguments && current.stack.is_none();
            same && time_ns.abs_diff(current.begin_ns) < SAME_NS
        };
        if let Some(current) = thread.call.current.as_mut().filter(of_current) {
            (current.stack, current.text) = (stack, text);
            // The time for copying the stack is not part of the call.
            current.begin_ns = current.begin_ns.max(time_ns);
        } else {
            thread.call.stack = Some(Stacked { number, arguments, time_ns, stack, text });
        }
    }

    fn call_begins(&mut self, task: Task, number: i64, arguments: [u64; 6], time_ns: u64) {
        let is_32_bit = self.threads.get(&task.tid).is_some_and(|thread| thread.call.is_32_bit);
        let Some(kind) = self.call_kind(number, is_32_bit) else { return };
        let file = self.file_of(task.pid, kind.meaning, &arguments, time_ns);
        let (Some(calls), Some(thread)) = (&mut self.calls, self.threads.get_mut(&task.tid)) else { return };
        let stacked = thread.call.stack.take().filter(|stacked| {
            let same = stacked.number == number && stacked.arguments == arguments;
            same && time_ns.abs_diff(stacked.time_ns) < SAME_NS
        });
        let (stack, text) = stacked.map_or((None, None), |stacked| (stacked.stack, stacked.text));
        calls.read_ns = time_ns;
        let losses = calls.losses;
        let current = Current { number, arguments, begin_ns: time_ns, stack, file, text, losses };
        // The exit of the previous call is missing.
        calls.unpaired += u64::from(thread.call.current.replace(current).is_some());
        thread.call.is_known = true;
    }

    /// The file of a call's descriptor. A call that closes one needs no name that would have to be queried.
    fn file_of(&mut self, pid: u32, meaning: Meaning, arguments: &[u64; 6], time_ns: u64) -> Option<FileId> {
        let Self { calls, world, .. } = self;
        let files = &mut calls.as_mut()?.files;
        let descriptor = arguments[0] as i32;
        if !meaning.descriptor || descriptor < 0 {
            if meaning.does == Does::CloseRange {
                let last = i32::try_from(arguments[1] as u32).unwrap_or(i32::MAX);
                files.closed_range(pid, descriptor, last, time_ns);
            }
            return None;
        }
        match meaning.does {
            Does::Close => {
                let known = files.known(pid, descriptor);
                files.closed(pid, descriptor, time_ns);
                known
            }
            does => {
                let file = files.of((pid, descriptor), || world.descriptor(pid, descriptor));
                if does == Does::DupTo && arguments[1] as i32 != descriptor {
                    files.closed(pid, arguments[1] as i32, time_ns);
                }
                Some(file)
            }
        }
    }

    /// A call returns.
    pub(super) fn returns(&mut self, returns: &Returns) {
        let Returns { task, time_ns, number, result } = *returns;
        if self.calls.is_none() || task.pid == 0 || task.tid == u32::MAX {
            return;
        }
        self.ensure_thread(task.pid, task.tid, time_ns);
        let (Some(calls), Some(thread)) = (&mut self.calls, self.threads.get_mut(&task.tid)) else { return };
        calls.read_ns = time_ns;
        let is_known = std::mem::replace(&mut thread.call.is_known, true);
        match thread.call.current.take() {
            Some(current) if current.losses != calls.losses => calls.unpaired += 1,
            Some(current) if current.number == number || number == NO_NUMBER => {
                let result = if number == NO_NUMBER { 0 } else { result };
                self.call_ends(task, current, time_ns, Some(result));
            }
            Some(_) => calls.unpaired += 1,
            // A seccomp filter refused it, so it has no entry. A new thread also returns from a call, the one
            // that its parent entered.
            None if is_known && result < 0 && calls.losses == 0 => {
                let current = Current {
                    number,
                    arguments: [u64::MAX; 6],
                    begin_ns: time_ns,
                    stack: None,
                    file: None,
                    text: None,
                    losses: 0,
                };
                self.call_ends(task, current, time_ns, Some(result));
            }
            None => {}
        }
    }

    /// Counts a call. It has no result if its thread exited in it or the recording ended.
    fn call_ends(&mut self, task: Task, current: Current, end_ns: u64, result: Option<i64>) {
        let Task { pid, tid } = task;
        let is_32_bit = self.threads.get(&tid).is_some_and(|thread| thread.call.is_32_bit);
        let Some(kind) = self.call_kind(current.number, is_32_bit) else { return };
        if let Some(result) = result.filter(|result| *result >= 0) {
            self.descriptors_change(pid, kind.meaning, &current, result as i32, end_ns);
        }
        let Self { calls, builder, threads, start_ns, .. } = self;
        let (Some(calls), Some(thread)) = (calls, threads.get_mut(&tid)) else { return };
        let error =
            result.filter(|result| (-MAX_ERRNO..0).contains(result)).map_or(0, |result| -result as u16);
        if thread.call.recent.len() > RECENT_KINDS {
            thread.call.recent.clear();
        }
        let stack = thread.call.site(kind.name, current.file, current.stack);
        let stack = builder.stack(stack, kind.place);
        let length = match kind.meaning.does {
            Does::Exit => 0,
            _ => end_ns.saturating_sub(current.begin_ns),
        };
        let bytes = result.filter(|result| kind.meaning.moves && *result > 0).map_or(0, i64::cast_unsigned);
        let last_ns = end_ns.saturating_sub(*start_ns);
        let key = Key { thread: thread.id, stack, call: kind.name, file: current.file, error };
        let row = calls.rows.entry(key).or_default();
        row.last_ns = last_ns;
        row.count += 1;
        row.spread += u64::from(current.stack.is_none());
        row.total_ns += length;
        row.max_ns = row.max_ns.max(length);
        row.bytes += bytes;
        row.lengths.add(length);
        let bucket = calls.buckets.entry((thread.id, stack)).or_default();
        bucket.last_ns = last_ns;
        for (value, more) in bucket.values.iter_mut().zip([1, length, bytes]) {
            *value += more;
        }
        if end_ns.saturating_sub(calls.bucket_ns) >= BUCKET_NS {
            calls.bucket_ns = end_ns;
            self.call_buckets();
        }
    }

    /// Updates the descriptors after a successful call.
    fn descriptors_change(
        &mut self,
        pid: u32,
        meaning: Meaning,
        current: &Current,
        result: i32,
        time_ns: u64,
    ) {
        let Self { calls: Some(calls), builder, world, .. } = self else { return };
        let files = &mut calls.files;
        let descriptor = current.arguments[0] as i32;
        match meaning.does {
            Does::Open(path) => {
                files.closed(pid, result, time_ns);
                let Some(name) = &current.text else { return };
                let folder = path.checked_sub(1).map(|at| current.arguments[at] as i32);
                let folder = folder.filter(|folder| *folder >= 0 && !name.starts_with('/'));
                let name = match folder {
                    None => name.clone(),
                    Some(folder) => {
                        let folder = files.known(pid, folder);
                        let Some(folder) = folder.and_then(|file| files.certain_text(builder, file)) else {
                            return;
                        };
                        format!("{folder}/{name}")
                    }
                };
                let file = files.named(builder, &name);
                files.set(pid, result, file);
            }
            Does::Pipe => {
                // The program mostly still has the numbers where the kernel has put them.
                let mut numbers = [0; 8];
                if world.read_memory(pid, current.arguments[0], &mut numbers) != Ok(numbers.len()) {
                    return;
                }
                let word = |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|byte| numbers[at + byte]));
                let ends = [word(0), word(4)];
                if !ends.iter().all(|end| (0..DESCRIPTORS).contains(end)) || ends[0] == ends[1] {
                    return;
                }
                let file = files.named(builder, "pipe");
                for end in ends {
                    files.closed(pid, end, time_ns);
                    files.set(pid, end, file);
                }
            }
            Does::Socket => {
                files.closed(pid, result, time_ns);
                let file = files.named(builder, socket_name(current.arguments));
                files.set(pid, result, file);
            }
            Does::Connect => {
                let Some(address) = &current.text else { return };
                let known = files.known(pid, descriptor);
                let kind = known.and_then(|file| files.certain_text(builder, file)).unwrap_or("socket");
                let kind = kind.split(" to ").next().unwrap_or(kind).to_owned();
                let file = files.named(builder, &format!("{kind} to {address}"));
                files.set(pid, descriptor, file);
            }
            Does::Dup | Does::DupTo => {
                files.closed(pid, result, time_ns);
                if let Some(file) = current.file {
                    files.set(pid, result, file);
                }
            }
            Does::Fcntl if DUPLICATING.contains(&current.arguments[1]) => {
                files.closed(pid, result, time_ns);
                if let Some(file) = current.file {
                    files.set(pid, result, file);
                }
            }
            Does::Nothing | Does::Close | Does::CloseRange | Does::Fcntl | Does::Exit => {}
        }
    }

    /// A thread exits, possibly in a call.
    pub(super) fn thread_ends_in_call(&mut self, tid: u32, time_ns: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let task = Task { pid: thread.pid, tid };
        let call = std::mem::take(&mut thread.call);
        let Some(calls) = &mut self.calls else { return };
        match call.current {
            Some(current) if current.losses == calls.losses => self.call_ends(task, current, time_ns, None),
            Some(_) => calls.unpaired += 1,
            None => {}
        }
    }

    /// A process has started, with the descriptors of its parent.
    pub(super) fn descriptors_inherited(&mut self, parent: u32, child: u32) {
        let Self { calls: Some(calls), world, processes, .. } = self else { return };
        if parent == child || !processes.contains_key(&parent) {
            return;
        }
        // A child may be gone before it can be asked.
        for descriptor in STANDARD {
            calls.files.of((parent, descriptor), || world.descriptor(parent, descriptor));
        }
        calls.files.copy(parent, child);
    }

    /// A process has executed a program.
    pub(super) fn descriptors_after_exec(&mut self, pid: u32, time_ns: u64) {
        if let Some(calls) = &mut self.calls {
            calls.files.executed(pid, time_ns);
        }
    }

    /// A process has exited.
    pub(super) fn descriptors_forgotten(&mut self, pid: u32, time_ns: u64) {
        if let Some(calls) = &mut self.calls {
            calls.files.forget(pid, time_ns);
        }
    }

    /// Records were lost.
    pub(super) fn calls_lost(&mut self) {
        if let Some(calls) = &mut self.calls {
            calls.losses += 1;
            calls.files.forget_all();
        }
    }

    /// Counts the calls that have not returned when the recording ends.
    pub fn end_calls(&mut self, time_ns: u64) {
        let mut tids: Vec<u32> = self.threads.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            self.thread_ends_in_call(tid, time_ns);
        }
        if let Some(calls) = &mut self.calls {
            calls.read_ns = u64::MAX;
        }
        self.flush_calls();
    }

    /// Adds the counts to the tables, except rows of files whose names are not certain yet.
    pub fn flush_calls(&mut self) {
        self.call_buckets();
        let Self { calls: Some(calls), builder, threads, .. } = self else { return };
        let Calls { files, rows, errors, read_ns, .. } = calls;
        let read_ns = *read_ns;
        let mut ready: Vec<(Key, Row)> =
            rows.extract_if(|key, _| key.file.is_none_or(|file| files.is_certain(file, read_ns))).collect();
        ready.sort_by_key(|(key, row)| (row.last_ns, key.thread, key.stack, key.call, key.error));
        for (key, row) in ready {
            let error = (key.error > 0)
                .then(|| *errors.entry(key.error).or_insert_with(|| builder.string(&error_name(key.error))));
            let file = key.file.and_then(|file| files.name(builder, file));
            builder.syscalls(Syscalls {
                time_ns: row.last_ns,
                thread: key.thread,
                stack: key.stack,
                call: key.call,
                file,
                error,
                count: row.count,
                spread: row.spread,
                total_ns: row.total_ns,
                max_ns: row.max_ns,
                bytes: row.bytes,
                lengths: row.lengths,
            });
        }
        let names = files.settle(builder, read_ns);
        if names.is_empty() {
            return;
        }
        let settled = |file: FileId| names.get(&file).copied().unwrap_or(file);
        for call in threads.values_mut().map(|thread| &mut thread.call) {
            if let Some(current) = &mut call.current {
                current.file = current.file.map(settled);
            }
            let recent =
                call.recent.drain().map(|((name, file), recent)| ((name, file.map(settled)), recent));
            call.recent = recent.collect();
        }
    }

    /// Adds the samples of the three metrics.
    fn call_buckets(&mut self) {
        let Self { calls: Some(calls), builder, .. } = self else { return };
        let mut buckets: Vec<_> = calls.buckets.drain().collect();
        buckets.sort_by_key(|((thread, stack), bucket)| (bucket.last_ns, *thread, *stack));
        for ((thread, stack), bucket) in buckets {
            for (metric, value) in calls.metrics.into_iter().zip(bucket.values) {
                if value > 0 {
                    builder.sample(metric, bucket.last_ns, thread, stack, value);
                }
            }
        }
    }

    fn call_kind(&mut self, number: i64, is_32_bit: bool) -> Option<Kind> {
        if let Some(known) = self.calls.as_ref()?.kinds.get(&(number, is_32_bit)) {
            return Some(*known);
        }
        let name = match call_name(self.modules.processor(), number) {
            _ if is_32_bit => format!("32-bit call {number}"),
            Some(name) => name.to_owned(),
            None => format!("call {number}"),
        };
        let text = self.builder.string(&bracketed(&name));
        let module = self.builder.module(Module::without_code(ModuleKind::SystemCall, text));
        let place = self.builder.location(Some(module), RelativeAddress(0));
        let kind = Kind { name: self.builder.string(&name), place, meaning: meaning(&name) };
        self.calls.as_mut()?.kinds.insert((number, is_32_bit), kind);
        Some(kind)
    }
}

/// The path or address that a call's argument points to, if it is in the copied stack.
fn text_of(meaning: Meaning, arguments: &[u64; 6], user: &UserStack<'_>) -> Option<String> {
    let UserStack::Dump(_, dump) = user else { return None };
    match meaning.does {
        Does::Open(path) => {
            let bytes = dump_from(dump, arguments[path])?;
            let end = bytes.iter().position(|byte| *byte == 0)?;
            Some(String::from_utf8_lossy(&bytes[..end]).into_owned()).filter(|path| !path.is_empty())
        }
        Does::Connect => {
            let bytes = dump_from(dump, arguments[1])?;
            address_words(bytes.get(..usize::try_from(arguments[2]).ok()?)?)
        }
        _ => None,
    }
}

/// The copied bytes from an address onwards.
fn dump_from<'a>(dump: &Dump<'a>, address: u64) -> Option<&'a [u8]> {
    let at = usize::try_from(address.checked_sub(dump.sp)?).ok()?;
    dump.bytes.get(at..)
}

/// A socket address: `family: u16`, then a port and a number, or a path.
fn address_words(bytes: &[u8]) -> Option<String> {
    let (family, rest) = bytes.split_first_chunk()?;
    match u16::from_ne_bytes(*family) {
        UNIX => {
            let path = rest.strip_prefix(&[0]).map_or_else(
                || String::from_utf8_lossy(rest.split(|byte| *byte == 0).next().unwrap_or(rest)).into_owned(),
                |name| format!("@{}", String::from_utf8_lossy(name)),
            );
            Some(path)
        }
        INET => {
            let (port, rest) = rest.split_first_chunk()?;
            let host: [u8; 4] = *rest.first_chunk()?;
            Some(format!("{}:{}", core::net::Ipv4Addr::from(host), u16::from_be_bytes(*port)))
        }
        INET6 => {
            let (port, rest) = rest.split_first_chunk()?;
            let host: [u8; 16] = *rest.get(4..)?.first_chunk()?;
            Some(format!("[{}]:{}", core::net::Ipv6Addr::from(host), u16::from_be_bytes(*port)))
        }
        _ => None,
    }
}

const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;

/// The name of a socket of which only the creating call is known.
fn socket_name([family, kind, ..]: [u64; 6]) -> &'static str {
    const STREAM: u64 = 1;
    const DATAGRAM: u64 = 2;
    match (u16::try_from(family), kind & 0xf) {
        (Ok(INET | INET6), STREAM) => "TCP socket",
        (Ok(INET | INET6), DATAGRAM) => "UDP socket",
        (Ok(UNIX), _) => "Unix socket",
        _ => "socket",
    }
}

#[cfg(test)]
mod tests;
