//! Spans, moments and counters that recorded programs emit, with the crate whyslow-mark or in marker files.

mod file;
mod pipe;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::ffi::OsStr;

use rustc_hash::FxHashMap;
use whyslow_convert::TaskRows;
use whyslow_mark::wire::{Kind, Record, VERSION};
use whyslow_numbers::{ClockNs, Start};
use whyslow_proc::process;
use whyslow_profile::{
    Builder, Counter, CounterId, ProcessId, RecordingNote, Span, StringId, ThreadId, Unit,
};

use file::MarkerFile;
pub(crate) use file::{is_marker_file, thread_in_name};
use pipe::{Folder, Pipe};

/// Processes that can mark at the same time.
const PIPES_MAX: usize = 256;
/// How many pipes are large before their program has marked anything. The total size of a user's pipes is
/// limited.
const LARGE_AT_ONCE: usize = 8;
const MARKER_FILES_MAX: usize = 4_096;
/// Limits on the marks of a recording, and on their text.
const MARKS_MAX: u64 = 4_000_000;
const TEXT_MAX: usize = 256 << 20;
/// Names that are shared between spans; further ones are stored each time.
const SHARED_NAMES_MAX: usize = 1 << 16;
const COUNTERS_MAX: usize = 1_000;
/// A number that no thread has.
const NO_THREAD: u32 = 0;

/// The marks of a live recording. Only [`Marks::live`] collects any.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    folder: Option<Folder>,
    pipes: Vec<Pipe>,
    files: Vec<MarkerFile>,
    waiting: Vec<Mark>,
    names: FxHashMap<Box<str>, StringId>,
    counters: FxHashMap<(Option<ProcessId>, String), CounterId>,
    is_live: bool,
    start: Start,
    taken: u64,
    text_bytes: usize,
    lost: u64,
    notes: Vec<RecordingNote>,
}

/// A mark that waits until all records up to its time have arrived.
#[derive(Debug)]
struct Mark {
    what: Marked,
    tid: u32,
    name: String,
    detail: String,
}

#[derive(Debug, Clone, Copy)]
enum Marked {
    /// A stretch of time.
    Span { start: ClockNs, end: ClockNs },
    /// A value of a counter.
    Value { time: ClockNs, value: i64 },
}

impl Marked {
    /// What a record marks.
    fn of(record: &Record<'_>) -> Self {
        let time = ClockNs::new(record.start_ns);
        match record.kind {
            Kind::Counter => Self::Value { time, value: record.end_ns.cast_signed() },
            Kind::Hello | Kind::Span | Kind::Moment => {
                Self::Span { start: time, end: ClockNs::new(record.end_ns) }
            }
        }
    }

    /// When it was emitted.
    fn time(self) -> ClockNs {
        match self {
            Self::Span { end, .. } => end,
            Self::Value { time, .. } => time,
        }
    }
}

impl Marks {
    /// Collects the marks of processes reported with [`Marks::process_started`]. `runtime` is the program's
    /// `XDG_RUNTIME_DIR`.
    pub(crate) fn live(start: Start, runtime: Option<&OsStr>) -> Self {
        let mut marks = Self::default();
        (marks.is_live, marks.start) = (true, start);
        match Folder::open(runtime) {
            Ok(folder) => {
                folder.remove_stale();
                marks.folder = Some(folder);
            }
            Err(error) => marks.notes.push(RecordingNote::MarksNotRecorded { error: error.to_string() }),
        }
        marks
    }

    /// Creates the pipe of a process, if possible before its first mark.
    pub(crate) fn process_started(&mut self, pid: u32) {
        let Some(folder) = &mut self.folder else { return };
        if self.pipes.iter().any(|pipe| pipe.is_of(pid)) || !is_own(pid) {
            return;
        }
        if self.pipes.len() >= PIPES_MAX {
            let Some(ended) = self.pipes.iter().position(|pipe| pipe.ended) else { return };
            self.pipes.remove(ended);
        }
        let mut pipe = folder.make(pid);
        if folder.is_removed() && folder.open_again().is_ok() {
            pipe = folder.make(pid);
        }
        // An error means that another recorder already serves this process.
        let Ok(pipe) = pipe else { return };
        if self.pipes.len() < LARGE_AT_ONCE {
            pipe.enlarge();
        }
        self.pipes.push(pipe);
    }

    /// Removes the pipe of an exited process. If it was used, it is still read to the end: a child may hold
    /// it open.
    pub(crate) fn process_ended(&mut self, pid: u32) {
        let Some(folder) = &self.folder else { return };
        let Some(at) = self.pipes.iter().position(|pipe| pipe.is_of(pid)) else { return };
        folder.remove(pid);
        let pipe = &mut self.pipes[at];
        pipe.ended = true;
        pipe.fill();
        if !pipe.greeted && pipe.bytes.is_empty() {
            self.pipes.remove(at);
        }
    }

    /// Adds a marker file that a process has mapped.
    pub(crate) fn marker_file(&mut self, pid: u32, path: &str, thread: Option<ThreadId>) {
        let known = self.files.iter().any(|file| file.is_at(path));
        if !self.is_live || known || self.files.len() >= MARKER_FILES_MAX {
            return;
        }
        let owner = process::owner(pid).unwrap_or_else(whyslow_proc::user);
        self.files.push(MarkerFile::new(path, thread, owner));
    }

    /// Reads new marks. Call it before reading records, so that the threads that emitted them are known by
    /// then.
    pub(crate) fn collect(&mut self) {
        let Self { pipes, waiting, lost, notes, .. } = self;
        pipes.retain_mut(|pipe| {
            pipe.fill();
            let mut bytes = std::mem::take(&mut pipe.bytes);
            let mut at = 0;
            let sound = loop {
                let (record, length) = match Record::decode(&bytes[at..]) {
                    Ok(Some(found)) => found,
                    Ok(None) => break true,
                    Err(_) => {
                        notes.push(RecordingNote::MarksNotUnderstood { pid: pipe.pid });
                        break false;
                    }
                };
                at += length;
                *lost += u64::from(record.lost);
                if record.kind == Kind::Hello {
                    if record.end_ns != VERSION {
                        notes.push(RecordingNote::MarksOfOtherVersion { pid: pipe.pid });
                        break false;
                    }
                    if !std::mem::replace(&mut pipe.greeted, true) {
                        pipe.enlarge();
                    }
                    continue;
                }
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                waiting.push(Mark {
                    what: Marked::of(&record),
                    tid: record.tid,
                    name: text(record.name),
                    detail: text(record.detail),
                });
            };
            bytes.drain(..at);
            pipe.bytes = bytes;
            sound
        });
    }

    /// Adds a mark of the recorder itself, which belongs to no thread.
    pub(crate) fn add_own(&mut self, name: &str, start: ClockNs, end: ClockNs) {
        let (what, name, detail) = (Marked::Span { start, end }, name.to_owned(), String::new());
        self.waiting.push(Mark { what, tid: NO_THREAD, name, detail });
    }

    /// Adds the marks up to a time to the profile.
    pub(crate) fn add(&mut self, until: ClockNs, builder: &mut Builder, tasks: TaskRows<'_>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|mark| {
            let now = mark.what.time() <= until;
            if now {
                self.add_one(mark, builder, tasks(mark.tid));
            }
            !now
        });
        self.waiting = waiting;
    }

    fn add_one(&mut self, mark: &Mark, builder: &mut Builder, owner: Option<(ThreadId, ProcessId)>) {
        match mark.what {
            Marked::Value { time, value } => {
                self.add_value(builder, owner.map(|(_, process)| process), &mark.name, (time, value));
            }
            Marked::Span { start, end } => {
                let thread = owner.map(|(thread, _)| thread);
                self.add_span(builder, thread, (start, end), &mark.name, &mark.detail);
            }
        }
    }

    fn add_span(
        &mut self,
        builder: &mut Builder,
        thread: Option<ThreadId>,
        (start, end): (ClockNs, ClockNs),
        name: &str,
        detail: &str,
    ) {
        // Spans that ended before the recording started are not part of it.
        if end < self.start.time() || start > end || !self.has_room(name.len() + detail.len()) {
            return;
        }
        let name = self.name(builder, name);
        let detail = (!detail.is_empty()).then(|| builder.string_once(detail));
        let (start_ns, end_ns) = (self.start.since(start).0, self.start.since(end).0);
        builder.span(Span { name, thread, start_ns, end_ns, detail });
    }

    fn add_value(
        &mut self,
        builder: &mut Builder,
        process: Option<ProcessId>,
        name: &str,
        (time, value): (ClockNs, i64),
    ) {
        let key = (process, name.to_owned());
        let known = self.counters.get(&key).copied();
        if !self.has_room(0) || (known.is_none() && self.counters.len() >= COUNTERS_MAX) {
            self.lost += 1;
            return;
        }
        let counter = known.unwrap_or_else(|| {
            let name = builder.string(name);
            let counter = builder.counter(Counter { name, unit: Unit::Count, process });
            self.counters.insert(key, counter);
            counter
        });
        builder.counter_value(counter, self.start.since(time), value);
    }

    /// Whether one more mark fits into the recording. Counts it as lost if not.
    fn has_room(&mut self, text: usize) -> bool {
        let room = self.taken < MARKS_MAX && self.text_bytes + text <= TEXT_MAX;
        if room {
            self.taken += 1;
            self.text_bytes += text;
        } else {
            self.lost += 1;
        }
        room
    }

    fn name(&mut self, builder: &mut Builder, name: &str) -> StringId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        if self.names.len() >= SHARED_NAMES_MAX {
            return builder.string_once(name);
        }
        let id = builder.string(name);
        self.names.insert(name.into(), id);
        id
    }

    /// Reads new lines of marker files.
    pub(crate) fn read_files(&mut self, builder: &mut Builder) {
        let mut files = std::mem::take(&mut self.files);
        for file in &mut files {
            let thread = file.thread;
            file.read(|start, end, name| self.add_span(builder, thread, (start, end), name, ""));
        }
        self.files = files;
    }

    /// The profile's notes about its marks, once all have arrived.
    pub(crate) fn notes(&mut self) -> Vec<RecordingNote> {
        let mut notes = std::mem::take(&mut self.notes);
        if self.lost > 0 {
            notes.push(RecordingNote::LostMarks { marks: self.lost });
        }
        notes
    }
}

/// Removes all pipes of the recording.
impl Drop for Marks {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            for pipe in self.pipes.iter().filter(|pipe| !pipe.ended) {
                folder.remove(pipe.pid);
            }
            folder.remove_folder();
        }
    }
}

/// Whether it is a process of this user, or has exited already.
fn is_own(pid: u32) -> bool {
    process::owner(pid).is_none_or(|owner| owner == whyslow_proc::user())
}
