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

mod counts;
mod descriptors;
mod files;
mod meaning;
mod recent;
mod text;

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_processor::Processor;
use whyslow_profile::{
    LocationId, MetricId, Module, ModuleKind, RelativeAddress, StackId, StringId, ThreadId, bracketed,
};

use self::counts::{Counted, Counts, Key};
use self::descriptors::Done;
use self::files::{FileId, Files, STANDARD};
use self::meaning::{Does, Meaning, meaning};
use self::recent::RecentSites;
use self::text::text_of;
use super::tables::Tables;
use super::tasks::LiveThread;
use crate::call_names::call_name;
use crate::input::{Enters, Returns, UserStack};
use crate::world::World;

/// The maximum distance of the two records of one entry.
const SAME_NS: u64 = 1_000_000;
/// The number in the record of a signal handler's return, which restores the number of the interrupted call.
const NO_NUMBER: i64 = -1;
/// Errors are returned as small negative numbers.
const MAX_ERRNO: i64 = 4095;

/// The system calls of all threads.
#[derive(Debug)]
pub(super) struct Calls {
    processor: Processor,
    kinds: FxHashMap<(i64, bool), Kind>,
    files: Files,
    counts: Counts,
    threads: FxHashMap<ThreadId, InCall>,
    /// The time of the last record.
    read_ns: ClockNs,
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

/// The state of one thread.
#[derive(Debug, Default)]
struct InCall {
    /// The call that it is in.
    current: Option<Current>,
    /// The stack of an entry whose other record has not arrived yet.
    stack: Option<Stacked>,
    recent: RecentSites,
    /// Whether any earlier record was about it.
    is_known: bool,
    /// Whether its calls have the numbers of 32-bit programs.
    is_32_bit: bool,
}

#[derive(Debug)]
struct Current {
    number: i64,
    arguments: [u64; 6],
    begin_ns: ClockNs,
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
    time_ns: ClockNs,
    stack: Option<StackId>,
    text: Option<String>,
}

impl Calls {
    /// No calls yet. The metrics are those of calls, nanoseconds and bytes.
    pub(super) fn new(processor: Processor, metrics: [MetricId; 3]) -> Self {
        let (kinds, threads) = Default::default();
        let (files, counts) = (Files::default(), Counts::new(metrics));
        Self { processor, kinds, files, counts, threads, read_ns: ClockNs::MIN, losses: 0, unpaired: 0 }
    }

    /// The number of calls whose exit is missing because records were lost.
    pub(super) fn unpaired(&self) -> u64 {
        self.unpaired
    }

    /// A thread enters a call.
    pub(super) fn begins(
        &mut self,
        world: &mut impl World,
        tables: &mut Tables,
        thread: LiveThread,
        enters: &Enters<'_>,
    ) {
        let Enters { time_ns, number, arguments, .. } = *enters;
        let is_32_bit = self.threads.get(&thread.id).is_some_and(|call| call.is_32_bit);
        let kind = self.kind(tables, number, is_32_bit);
        let file = self.files.of_call(world, thread.task.pid, kind.meaning, &arguments, time_ns);
        let call = self.threads.entry(thread.id).or_default();
        let stacked = call.stack.take().filter(|stacked| {
            let same = stacked.number == number && stacked.arguments == arguments;
            same && time_ns.distance(stacked.time_ns) < SAME_NS
        });
        let (stack, text) = stacked.map_or((None, None), |stacked| (stacked.stack, stacked.text));
        self.read_ns = time_ns;
        let losses = self.losses;
        let current = Current { number, arguments, begin_ns: time_ns, stack, file, text, losses };
        // The exit of the previous call is missing.
        self.unpaired += u64::from(call.current.replace(current).is_some());
        call.is_known = true;
    }

    /// The stack of a call's entry. The record of the entry itself is just before or just after it.
    pub(super) fn begins_at(
        &mut self,
        tables: &mut Tables,
        thread: LiveThread,
        enters: &Enters<'_>,
        user: &UserStack<'_>,
        stack: Option<StackId>,
    ) {
        let Enters { time_ns, number, arguments, is_32_bit, .. } = *enters;
        let kind = self.kind(tables, number, is_32_bit);
        let text = text_of(kind.meaning, &arguments, user);
        let call = self.threads.entry(thread.id).or_default();
        call.is_32_bit = is_32_bit;
        let of_current = |current: &&mut Current| {
            let same = current.number == number && current.arguments == arguments && current.stack.is_none();
            same && time_ns.distance(current.begin_ns) < SAME_NS
        };
        if let Some(current) = call.current.as_mut().filter(of_current) {
            (current.stack, current.text) = (stack, text);
            // The time for copying the stack is not part of the call.
            current.begin_ns = current.begin_ns.max(time_ns);
        } else {
            call.stack = Some(Stacked { number, arguments, time_ns, stack, text });
        }
    }

    /// A call returns.
    pub(super) fn returns(
        &mut self,
        world: &impl World,
        tables: &mut Tables,
        thread: LiveThread,
        returns: &Returns,
    ) {
        let Returns { time_ns, number, result, .. } = *returns;
        self.read_ns = time_ns;
        let call = self.threads.entry(thread.id).or_default();
        let is_known = std::mem::replace(&mut call.is_known, true);
        match call.current.take() {
            Some(current) if current.losses != self.losses => self.unpaired += 1,
            Some(current) if current.number == number || number == NO_NUMBER => {
                let result = if number == NO_NUMBER { 0 } else { result };
                self.ends(world, tables, thread, current, time_ns, Some(result));
            }
            Some(_) => self.unpaired += 1,
            // A seccomp filter refused it, so it has no entry. A new thread also returns from a call, the one
            // that its parent entered.
            None if is_known && result < 0 && self.losses == 0 => {
                let current = Current {
                    number,
                    arguments: [u64::MAX; 6],
                    begin_ns: time_ns,
                    stack: None,
                    file: None,
                    text: None,
                    losses: 0,
                };
                self.ends(world, tables, thread, current, time_ns, Some(result));
            }
            None => {}
        }
    }

    /// Counts a call. It has no result if its thread exited in it or the recording ended.
    fn ends(
        &mut self,
        world: &impl World,
        tables: &mut Tables,
        thread: LiveThread,
        current: Current,
        end_ns: ClockNs,
        result: Option<i64>,
    ) {
        let is_32_bit = self.threads.get(&thread.id).is_some_and(|call| call.is_32_bit);
        let Kind { name, place, meaning } = self.kind(tables, current.number, is_32_bit);
        let Current { arguments, file, .. } = current;
        if let Some(result) = result.filter(|result| *result >= 0) {
            let done = Done { arguments, file, text: current.text.as_deref(), result: result as i32 };
            self.files.change(world, &mut tables.builder, thread.task.pid, meaning, &done, end_ns);
        }
        let error =
            result.filter(|result| (-MAX_ERRNO..0).contains(result)).map_or(0, |result| -result as u16);
        let call = self.threads.entry(thread.id).or_default();
        let stack = call.recent.site(name, file, current.stack);
        let stack = tables.builder.stack(stack, place);
        let length_ns = match meaning.does {
            Does::Exit => 0,
            _ => end_ns.since(current.begin_ns),
        };
        let bytes = result.filter(|result| meaning.moves && *result > 0).map_or(0, i64::cast_unsigned);
        let key = Key { thread: thread.id, stack, call: name, file, error };
        let is_spread = current.stack.is_none();
        self.counts.add(tables, &Counted { key, is_spread, length_ns, bytes, end_ns });
    }

    /// A thread exits, possibly in a call, or the recording ends.
    pub(super) fn thread_ends(
        &mut self,
        world: &impl World,
        tables: &mut Tables,
        thread: LiveThread,
        time_ns: ClockNs,
    ) {
        let Some(call) = self.threads.get_mut(&thread.id) else { return };
        let of_its_program = InCall { is_32_bit: call.is_32_bit, ..InCall::default() };
        match std::mem::replace(call, of_its_program).current {
            Some(current) if current.losses == self.losses => {
                self.ends(world, tables, thread, current, time_ns, None);
            }
            Some(_) => self.unpaired += 1,
            None => {}
        }
    }

    /// Drops the state of a thread.
    pub(super) fn forget(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// A process has started, with the descriptors of its parent.
    pub(super) fn inherits(&mut self, world: &mut impl World, parent: u32, child: u32) {
        // A child may be gone before it can be asked.
        for descriptor in STANDARD {
            self.files.of((parent, descriptor), || world.descriptor(parent, descriptor));
        }
        self.files.copy(parent, child);
    }

    /// A process has executed a program.
    pub(super) fn executed(&mut self, pid: u32, time_ns: ClockNs) {
        self.files.executed(pid, time_ns);
    }

    /// A process has exited.
    pub(super) fn process_ended(&mut self, pid: u32, time_ns: ClockNs) {
        self.files.forget(pid, time_ns);
    }

    /// Records were lost.
    pub(super) fn lost(&mut self) {
        self.losses += 1;
        self.files.forget_all();
    }

    /// All records have been read.
    pub(super) fn end(&mut self, tables: &mut Tables) {
        self.read_ns = ClockNs::MAX;
        self.flush(tables);
    }

    /// Adds the counts to the tables, except rows of files whose names are not certain yet.
    pub(super) fn flush(&mut self, tables: &mut Tables) {
        let Self { counts, files, read_ns, .. } = self;
        counts.flush(tables, files, *read_ns);
        let names = files.settle(&mut tables.builder, *read_ns);
        if names.is_empty() {
            return;
        }
        let settled = |file: FileId| names.get(&file).copied().unwrap_or(file);
        for call in self.threads.values_mut() {
            if let Some(current) = &mut call.current {
                current.file = current.file.map(settled);
            }
            call.recent.rename(settled);
        }
    }

    fn kind(&mut self, tables: &mut Tables, number: i64, is_32_bit: bool) -> Kind {
        let processor = self.processor;
        *self.kinds.entry((number, is_32_bit)).or_insert_with(|| {
            let builder = &mut tables.builder;
            let name = match call_name(processor, number) {
                _ if is_32_bit => format!("32-bit call {number}"),
                Some(name) => name.to_owned(),
                None => format!("call {number}"),
            };
            let text = builder.string(&bracketed(&name));
            let module = builder.module(Module::without_code(ModuleKind::SystemCall, text));
            let place = builder.location(Some(module), RelativeAddress(0));
            Kind { name: builder.string(&name), place, meaning: meaning(&name) }
        })
    }
}

#[cfg(test)]
mod tests;
