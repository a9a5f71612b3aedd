//! Where Valgrind writes its words and its XML as it runs: two sockets that say which process each piece is from.
//!
//! In a file, a forked process would write into the XML of its parent, line by line between the parent's lines; a
//! process that executes a program would lose what it wrote before; and the file would have a low descriptor, which
//! the program sees. The sockets' descriptors are above those that Valgrind lets the program use or close, and
//! every piece comes with the number of the process that wrote it. They are datagram sockets: processes that are
//! still running when nobody reads any more get an error, no signal.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair, sockopt,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use whyslow_proc::process::Stat;

use crate::process::{LOG, OUTPUT};

/// How long to wait for a piece before asking whether the program has ended.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Pieces of a process are written to its file when they are this long together.
const FLUSHED_AT: usize = 64 << 10;
/// Valgrind takes this many descriptors above the program's limit for itself, or from it.
const RESERVED: u64 = 64;
/// The kernel's table of descriptors has 8 bytes for each up to the highest.
const HIGHEST: u64 = 1 << 21;

/// The two sockets, and the thread that reads them.
#[derive(Debug)]
pub(crate) struct Sink {
    /// What Valgrind writes to: inherited by the processes that it runs.
    log: OwnedFd,
    output: OwnedFd,
    is_over: Arc<AtomicBool>,
    reader: JoinHandle<HashMap<u32, u32>>,
}

impl Sink {
    /// Begins to write what arrives to files in a folder, named as those that Valgrind writes itself.
    pub(crate) fn begin(folder: &Path) -> io::Result<Self> {
        let (log, read_log) = pair(0)?;
        let (output, read_output) = pair(1)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let folder = folder.to_owned();
        let reader = std::thread::Builder::new().name("valgrind".to_owned()).spawn(move || {
            let mut files = Files { folder, pending: HashMap::new(), parents: HashMap::new() };
            read_all([(LOG, read_log), (OUTPUT, read_output)], &ended, &mut files);
            files.flush_all();
            files.parents
        })?;
        Ok(Self { log, output, is_over, reader })
    }

    /// The options that make Valgrind write to it.
    pub(crate) fn options(&self) -> [String; 3] {
        let [log, output] = [&self.log, &self.output].map(AsRawFd::as_raw_fd);
        [format!("--log-fd={log}"), "--xml=yes".to_owned(), format!("--xml-fd={output}")]
    }

    /// Reads what is left when the program has ended. Returns the processes with their parents.
    pub(crate) fn finish(self) -> HashMap<u32, u32> {
        self.is_over.store(true, Ordering::Release);
        // A panic of the reader is already printed.
        self.reader.join().unwrap_or_default()
    }
}

/// A socket to write to with a high descriptor that is inherited, and the one to read from.
fn pair(which: u64) -> io::Result<(OwnedFd, OwnedFd)> {
    let (write, read) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_passcred(&read, true)?;
    let limit = getrlimit(Resource::Nofile);
    let high = high_descriptor(limit, which);
    let Some(high) = high.filter(|high| *high <= HIGHEST) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    // Only while the descriptor is made: the program gets the limits that it would have had.
    setrlimit(Resource::Nofile, Rlimit { current: Some(high + 1), maximum: limit.maximum })?;
    let moved = rustix::io::fcntl_dupfd_cloexec(write.as_fd(), high as i32)
        .and_then(|moved| rustix::io::fcntl_setfd(&moved, rustix::io::FdFlags::empty()).map(|()| moved));
    setrlimit(Resource::Nofile, limit)?;
    Ok((moved?, read))
}

/// A descriptor that Valgrind does not let the program close: Valgrind's limit for the program is the soft limit, or
/// if that leaves no room for its own descriptors, a little below the hard limit.
fn high_descriptor(limit: Rlimit, which: u64) -> Option<u64> {
    let last = limit.maximum.map_or(HIGHEST, |maximum| maximum.saturating_sub(1));
    let wanted = limit.current.map_or(HIGHEST, |soft| soft.saturating_add(RESERVED)).min(last);
    wanted.checked_sub(which)
}

fn read_all(sockets: [(&'static str, OwnedFd); 2], is_over: &AtomicBool, files: &mut Files) {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let is_last = is_over.load(Ordering::Acquire);
        for (kind, socket) in &sockets {
            while let Ok(Some((pid, length))) = receive(socket, &mut buffer) {
                files.add(kind, pid, &buffer[..length]);
            }
        }
        // What the program wrote before its end is read now.
        if is_last {
            return;
        }
        let mut waits =
            [PollFd::new(&sockets[0].1, PollFlags::IN), PollFd::new(&sockets[1].1, PollFlags::IN)];
        // A signal or an error only means to look again.
        if poll(&mut waits, Some(&TICK)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// One piece, without waiting: the process that wrote it, and its length.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<(u32, usize)>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(buffer)];
    loop {
        match recvmsg(socket, &mut slices, &mut beside, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
            Ok(message) => {
                let sender = beside.drain().find_map(|about| match about {
                    RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
                    _ => None,
                });
                let pid = sender.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
                return Ok(Some((pid, message.bytes)));
            }
        }
    }
}

/// The files of processes.
struct Files {
    folder: PathBuf,
    pending: HashMap<(&'static str, u32), Vec<u8>>,
    /// A forked process does not say whose it is. It still runs when its first piece arrives: it has more to say.
    parents: HashMap<u32, u32>,
}

impl Files {
    fn add(&mut self, kind: &'static str, pid: u32, piece: &[u8]) {
        if let Entry::Vacant(new) = self.parents.entry(pid)
            && let Some(stat) = Stat::of(pid)
        {
            new.insert(stat.parent);
        }
        let pending = self.pending.entry((kind, pid)).or_default();
        pending.extend_from_slice(piece);
        if pending.len() >= FLUSHED_AT {
            let whole = std::mem::take(pending);
            append(&self.folder, kind, pid, &whole);
        }
    }

    fn flush_all(&mut self) {
        for ((kind, pid), pending) in self.pending.drain() {
            append(&self.folder, kind, pid, &pending);
        }
    }
}

/// What cannot be written is missing from the file, and its reader says so.
fn append(folder: &Path, kind: &str, pid: u32, bytes: &[u8]) {
    let path = folder.join(format!("{kind}.{pid}"));
    let file = File::options().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_are_above_those_of_the_program() {
        let limit = |current, maximum| Rlimit { current: Some(current), maximum: Some(maximum) };
        assert_eq!(high_descriptor(limit(1024, 1 << 20), 0), Some(1088));
        assert_eq!(high_descriptor(limit(1024, 1 << 20), 1), Some(1087));
        assert_eq!(high_descriptor(limit(20_000, 20_000), 0), Some(19_999));
        assert_eq!(high_descriptor(limit(1024, 1030), 1), Some(1028));
        assert_eq!(high_descriptor(limit(0, 0), 1), None);
        assert_eq!(high_descriptor(Rlimit { current: None, maximum: None }, 0), Some(HIGHEST));
    }

    #[test]
    fn pieces_are_kept_apart_by_the_process_that_wrote_them() {
        let folder = tempfile::tempdir().unwrap();
        let sink = Sink::begin(folder.path()).unwrap();
        let number = sink.output.as_raw_fd();
        let script =
            format!("printf one >&{number}; bash -c 'printf two >&{number}'; printf three >&{number}");
        let mut shell = whyslow_capture::restored_command("bash");
        let mut shell = shell.args(["-c", &script]).spawn().unwrap();
        let pid = shell.id();
        assert!(shell.wait().unwrap().success());
        let parents = sink.finish();
        assert_eq!(parents.get(&pid), Some(&std::process::id()));
        let mut found: Vec<(bool, String)> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (path.ends_with(format!("out.{pid}")), std::fs::read_to_string(path).unwrap()))
            .collect();
        found.sort();
        assert_eq!(found, [(false, "two".to_owned()), (true, "onethree".to_owned())]);
    }
}
