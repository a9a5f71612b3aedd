//! System calls: which tracepoints are available, what to report without them, and what a file descriptor
//! refers to.

use std::fs;

use whyslow_events::{EventError, Machine, What};
use whyslow_proc::accounts::Io;
use whyslow_profile::{IoCalls, NoSyscalls, RecordingNote};

use crate::perf::CallPoints;
use crate::sockets::Sockets;

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

/// The note for a recording without system calls: the reason, plus the I/O totals that the kernel counts
/// anyway.
pub(crate) fn not_recorded(why: NoSyscalls, io: Option<Io>) -> RecordingNote {
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
    let socket = inode.and_then(|inode| sockets.name(pid, inode, whyslow_proc::monotonic_ns()));
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
