//! System calls: which tracepoints are available, what to report without them, and what a file descriptor
//! refers to.

use std::fs;

use whyslow_events::{EventError, Machine, What};
use whyslow_proc::accounts::Io;
use whyslow_profile::{IoCalls, NoSyscalls, RecordingNote};

use crate::RecordError;
use crate::perf::CallPoints;
use crate::sampling::SampleTarget;
use crate::sockets::Sockets;
use crate::source::{Ending, LiveConverter, Source};

/// Returns the system call tracepoints of this machine, or the reason why they cannot be used.
pub(crate) fn points() -> Result<CallPoints, NoSyscalls> {
    let machine = Machine::this();
    let number = |name: &str| {
        let specs = whyslow_events::parse(&format!("raw_syscalls:{name}")).unwrap_or_default();
        debug_assert!(matches!(specs.first().map(|spec| &spec.what), Some(What::Tracepoint { .. })));
        let event = specs.first().map(|spec| machine.resolve(spec));
        match event {
            Some(Ok(event)) => {
                event.attrs.first().map(|attr| attr.configs[0]).ok_or(NoSyscalls::NoTracepoints)
            }
            Some(Err(EventError::TracepointsHidden { .. })) => Err(NoSyscalls::Hidden),
            _ => Err(NoSyscalls::NoTracepoints),
        }
    };
    Ok(CallPoints { enter: number("sys_enter")?, exit: number("sys_exit")? })
}

/// Stands in for system calls that cannot be recorded: says why, and what the kernel counts of I/O anyway.
#[derive(Debug)]
pub(crate) struct CallsNotRecorded {
    why: NoSyscalls,
    target: SampleTarget,
    before: Option<Io>,
}

impl CallsNotRecorded {
    pub(crate) fn new(why: NoSyscalls, target: SampleTarget) -> Self {
        Self { why, target, before: None }
    }
}

impl Source for CallsNotRecorded {
    fn start(&mut self, _converter: &mut LiveConverter) -> Result<(), RecordError> {
        self.before = io_of(&self.target);
        Ok(())
    }

    fn resume(&mut self, _converter: &mut LiveConverter) -> Result<(), RecordError> {
        Ok(())
    }

    fn finish(self: Box<Self>, ending: &mut Ending<'_>) {
        let now = match ending.usage {
            Some(usage) => usage.io,
            None => io_of(&self.target),
        };
        let io = now.zip(self.before).map(|(now, before)| now.since(before));
        ending.note([not_recorded(self.why, io)]);
    }
}

/// The bytes that processes have read and written so far, if readable.
fn io_of(target: &SampleTarget) -> Option<Io> {
    let pids = match target {
        SampleTarget::Child { pid, .. } => std::slice::from_ref(pid),
        SampleTarget::Processes(pids) => pids,
        SampleTarget::Machine => return None,
    };
    pids.iter().map(|pid| Io::of(*pid)).try_fold(Io::default(), |sum, io| Some(sum.plus(io?)))
}

/// The note for a recording without system calls: the reason, plus the I/O totals.
fn not_recorded(why: NoSyscalls, io: Option<Io>) -> RecordingNote {
    let io = io.map(|io| IoCalls {
        reads: io.reads,
        bytes_read: io.read,
        writes: io.writes,
        bytes_written: io.written,
    });
    RecordingNote::SyscallsNotRecorded { why, io }
}

/// Describes what a file descriptor refers to.
pub(crate) fn descriptor(pid: u32, descriptor: i32, sockets: &mut Sockets) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    let link = link.to_string_lossy();
    let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')?.parse().ok());
    let socket = inode.and_then(|inode| sockets.name(pid, inode, whyslow_proc::now()));
    Some(socket.unwrap_or_else(|| words(&link)))
}

/// The kernel's name, without inode numbers and similar, which mean nothing to a reader.
fn words(link: &str) -> String {
    match link.split_once(':') {
        Some((kind @ ("socket" | "pipe"), _)) => kind.to_owned(),
        Some(("anon_inode", name)) => name.trim_matches(['[', ']']).to_owned(),
        _ => link.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_descriptors_by_what_they_refer_to() {
        let cases = [
            ("socket:[4711]", "socket"),
            ("pipe:[12]", "pipe"),
            ("anon_inode:[eventpoll]", "eventpoll"),
            ("anon_inode:inotify", "inotify"),
            ("/tmp/a:b", "/tmp/a:b"),
            ("/memfd:x (deleted)", "/memfd:x (deleted)"),
        ];
        for (link, name) in cases {
            assert_eq!(words(link), name);
        }
        assert_eq!(descriptor(std::process::id(), -1, &mut Sockets::default()), None);
    }
}
