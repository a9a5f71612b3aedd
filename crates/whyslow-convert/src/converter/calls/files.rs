//! What the descriptors of processes refer to, as far as that is certain.
//!
//! ```text
//! known   from the call that created the descriptor: a path in the stack that came with it, an address
//! asked   from the world, later; it counts unless a record shows that the descriptor was closed or reopened before the query
//! ```
//! All other descriptors are named by their number, `fd 7`.

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;
use whyslow_profile::{Builder, StringId};

/// The maximum number of distinct file names; all further files share one name.
const NAMES_MAX: usize = 20_000;
const OTHERS: &str = "other files";

/// Input, output and errors, which programs pass on.
pub(super) const STANDARD: [i32; 3] = [0, 1, 2];

/// Something that a descriptor can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FileId {
    /// A file with this name.
    Named(StringId),
    /// The answer to the query of this number.
    Asked(u32),
}

/// The world's answer about a descriptor.
#[derive(Debug)]
struct Asked {
    /// The process. Its children have the same file, whatever they do with their descriptors.
    pid: u32,
    descriptor: i32,
    text: String,
    /// The time of the query, if some records up to then have not been read yet.
    asked_ns: ClockNs,
}

/// The descriptors of all processes.
#[derive(Debug, Default)]
pub(super) struct Files {
    tables: FxHashMap<u32, FxHashMap<i32, FileId>>,
    asked: FxHashMap<u32, Asked>,
    next: u32,
    names: FxHashMap<String, StringId>,
}

impl Files {
    /// What a descriptor refers to. `ask` returns the world's current answer and the time.
    pub(super) fn of(
        &mut self,
        (pid, descriptor): (u32, i32),
        ask: impl FnOnce() -> Option<(String, ClockNs)>,
    ) -> FileId {
        if let Some(known) = self.known(pid, descriptor) {
            return known;
        }
        // An unknown file is separate from the one that had the number before.
        let (text, asked_ns) = ask().unwrap_or_else(|| (unknown(descriptor), ClockNs::MIN));
        let id = FileId::Asked(self.next);
        self.asked.insert(self.next, Asked { pid, descriptor, text, asked_ns });
        self.next += 1;
        self.set(pid, descriptor, id);
        id
    }

    /// What a descriptor refers to, if that is already known.
    pub(super) fn known(&self, pid: u32, descriptor: i32) -> Option<FileId> {
        self.tables.get(&pid)?.get(&descriptor).copied()
    }

    /// The file with a name.
    pub(super) fn named(&mut self, builder: &mut Builder, name: &str) -> FileId {
        if let Some(known) = self.names.get(name) {
            return FileId::Named(*known);
        }
        let name = if self.names.len() < NAMES_MAX { name } else { OTHERS };
        let id = builder.string(name);
        self.names.insert(name.to_owned(), id);
        FileId::Named(id)
    }

    /// From now on, a descriptor refers to this file.
    pub(super) fn set(&mut self, pid: u32, descriptor: i32, file: FileId) {
        self.tables.entry(pid).or_default().insert(descriptor, file);
    }

    /// A descriptor was closed, or reassigned, at a time.
    pub(super) fn closed(&mut self, pid: u32, descriptor: i32, time_ns: ClockNs) {
        if let Some(table) = self.tables.get_mut(&pid)
            && let Some(FileId::Asked(number)) = table.remove(&descriptor)
        {
            self.doubt(pid, number, time_ns);
        }
    }

    /// A range of descriptors of a process was closed.
    pub(super) fn closed_range(&mut self, pid: u32, first: i32, last: i32, time_ns: ClockNs) {
        let within = |descriptor: &i32| (first..=last).contains(descriptor);
        let closed = self.tables.get(&pid).map(|table| table.keys().copied().filter(within).collect());
        let closed: Vec<i32> = closed.unwrap_or_default();
        closed.into_iter().for_each(|at| self.closed(pid, at, time_ns));
    }

    /// A process has executed a program, which closes some descriptors: not its input, output and errors.
    pub(super) fn executed(&mut self, pid: u32, time_ns: ClockNs) {
        let kept: Vec<(i32, FileId)> =
            STANDARD.iter().filter_map(|at| Some((*at, *self.tables.get(&pid)?.get(at)?))).collect();
        if let Some(table) = self.tables.get_mut(&pid) {
            STANDARD.iter().for_each(|at| _ = table.remove(at));
        }
        self.forget(pid, time_ns);
        kept.into_iter().for_each(|(at, file)| self.set(pid, at, file));
    }

    /// A process has exited.
    pub(super) fn forget(&mut self, pid: u32, time_ns: ClockNs) {
        for file in self.tables.remove(&pid).unwrap_or_default().into_values() {
            if let FileId::Asked(number) = file {
                self.doubt(pid, number, time_ns);
            }
        }
    }

    /// Records were lost: descriptors may refer to other files by now.
    pub(super) fn forget_all(&mut self) {
        self.tables.clear();
    }

    /// Copies the descriptors of one process to another.
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        if let Some(table) = self.tables.get(&from) {
            self.tables.insert(to, table.clone());
        }
    }

    /// The descriptor changed at this time, so an answer from later does not hold for earlier calls.
    fn doubt(&mut self, pid: u32, number: u32, time_ns: ClockNs) {
        let is_later = |asked: &&mut Asked| asked.pid == pid && time_ns < asked.asked_ns;
        if let Some(asked) = self.asked.get_mut(&number).filter(is_later) {
            asked.text = unknown(asked.descriptor);
            asked.asked_ns = ClockNs::MIN;
        }
    }

    /// Whether a name is final once all records up to a time have been read.
    pub(super) fn is_certain(&self, file: FileId, read_ns: ClockNs) -> bool {
        match file {
            FileId::Named(_) => true,
            FileId::Asked(number) => self.asked.get(&number).is_none_or(|asked| asked.asked_ns <= read_ns),
        }
    }

    /// The name of a file.
    pub(super) fn name(&mut self, builder: &mut Builder, file: FileId) -> Option<StringId> {
        match file {
            FileId::Named(name) => Some(name),
            FileId::Asked(number) => {
                let text = self.asked.get(&number)?.text.clone();
                let FileId::Named(name) = self.named(builder, &text) else { return None };
                Some(name)
            }
        }
    }

    /// The name of a file as text, if it is final now.
    pub(super) fn certain_text<'a>(&'a self, builder: &'a Builder, file: FileId) -> Option<&'a str> {
        match file {
            FileId::Named(name) => Some(builder.text(name)),
            FileId::Asked(_) => None,
        }
    }

    /// Drops the world's answers for descriptors whose names are final. Returns which id replaces which.
    pub(super) fn settle(&mut self, builder: &mut Builder, read_ns: ClockNs) -> FxHashMap<FileId, FileId> {
        let certain = self.asked.iter().filter(|(_, asked)| asked.asked_ns <= read_ns);
        let certain: Vec<u32> = certain.map(|(number, _)| *number).collect();
        let mut names = FxHashMap::default();
        for number in certain {
            let asked = FileId::Asked(number);
            names.extend(self.name(builder, asked).map(|name| (asked, FileId::Named(name))));
            self.asked.remove(&number);
        }
        if !names.is_empty() {
            for file in self.tables.values_mut().flat_map(FxHashMap::values_mut) {
                *file = names.get(file).copied().unwrap_or(*file);
            }
        }
        names
    }
}

#[cfg(test)]
impl Files {
    /// The number of answers that are kept.
    pub(super) fn kept(&self) -> usize {
        self.asked.len()
    }
}

/// The name of a descriptor of which nothing is certain.
fn unknown(descriptor: i32) -> String {
    format!("fd {descriptor}")
}
