//! Asks for a snapshot: finds the collector that watches a process, and gets a profile from it.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use whyslow_heap_wire::VERSION;
use whyslow_heap_wire::snapshot::{LEN, MOST_TEXT, Reply, Request, status};

use crate::folder;
use crate::packet::Connection;

/// How long a collector may take: it reads all memory of the process.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// It is the collector itself.
    #[error("process {pid} is whyslow itself, which records {}", list(.watched))]
    Recorder {
        /// Its number.
        pid: u32,
        /// What it records, in words.
        watched: Vec<String>,
    },
    /// Its heap is not recorded, as far as we can see.
    #[error("process {pid} belongs to user {user}, and only that user can reach its recorder")]
    Foreign {
        /// Its number.
        pid: u32,
        /// Whose it is.
        user: u32,
    },
    /// Its heap is not recorded.
    #[error("process {pid} does not run under `whyslow heap`{}", others(.watched))]
    NotWatched {
        /// Its number.
        pid: u32,
        /// What is recorded, in words.
        watched: Vec<String>,
    },
    /// It ended meanwhile.
    #[error(
        "process {pid} ended before the snapshot was taken; its whole recording is where `whyslow heap` wrote it"
    )]
    Ended {
        /// Its number.
        pid: u32,
    },
    /// The collector says why not.
    #[error("{0}")]
    Refused(String),
    /// The collector does not answer.
    #[error("the whyslow that records process {pid} does not answer: {error}")]
    Silent {
        /// The process.
        pid: u32,
        /// Why.
        error: io::Error,
    },
}

fn list(watched: &[String]) -> String {
    if watched.is_empty() { "no process now".to_owned() } else { format!("process {}", watched.join(", ")) }
}

fn others(watched: &[String]) -> String {
    if watched.is_empty() { String::new() } else { format!("; these do: {}", watched.join(", ")) }
}

/// What one collector says.
enum Said {
    Taken(File),
    Unknown(String),
    Ended,
    Refused(String),
}

/// A profile of what holds memory in a process now, without symbols. The process must run under a collector of this
/// user, or of its own user if this one may go there.
pub fn request_snapshot(pid: u32) -> Result<File, SnapshotError> {
    let user = whyslow_proc::user();
    let owner = fs::metadata(Path::new("/proc").join(pid.to_string())).map(|process| process.uid());
    let owner = owner.map_err(|_| SnapshotError::NoProcess { pid })?;
    let mut watched = Vec::new();
    let mut silent = None;
    for (recorder, socket) in folder::collectors(&[user, owner]) {
        match ask(&socket, pid) {
            Ok(Said::Taken(file)) => return Ok(file),
            Ok(Said::Unknown(theirs)) => {
                let theirs = (!theirs.is_empty()).then_some(theirs);
                if recorder == pid {
                    return Err(SnapshotError::Recorder { pid, watched: theirs.into_iter().collect() });
                }
                watched.extend(theirs);
            }
            Ok(Said::Ended) => return Err(SnapshotError::Ended { pid }),
            Ok(Said::Refused(why)) => return Err(SnapshotError::Refused(why)),
            // Left behind by one that was killed, or gone since.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {}
            Err(error) => silent = Some(error),
        }
    }
    match silent {
        Some(error) => Err(SnapshotError::Silent { pid, error }),
        None if owner != user && user != 0 => Err(SnapshotError::Foreign { pid, user: owner }),
        None => Err(SnapshotError::NotWatched { pid, watched }),
    }
}

fn ask(socket: &Path, pid: u32) -> io::Result<Said> {
    let connection = Connection::to(socket)?;
    connection.limit(PATIENCE)?;
    connection.send(&Request::new(pid).to_bytes(), None)?;
    let mut room = [0; LEN + MOST_TEXT];
    let (len, file) = connection.receive_with_file(&mut room)?;
    // Nothing comes from one that has ended.
    if len == 0 {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    read(&room[..len], file.map(File::from))
}

fn read(packet: &[u8], file: Option<File>) -> io::Result<Said> {
    let Some((reply, text)) = Reply::parse(packet).filter(|(reply, _)| reply.version == VERSION) else {
        return Ok(Said::Unknown(String::new()));
    };
    let text = String::from_utf8_lossy(text).into_owned();
    match (reply.status, file) {
        (status::TAKEN, Some(mut file)) => {
            file.rewind()?;
            Ok(Said::Taken(file))
        }
        (status::UNKNOWN, _) => Ok(Said::Unknown(text)),
        (status::ENDED, _) => Ok(Said::Ended),
        (status::FAILED, _) => Ok(Said::Refused(text)),
        _ => Err(io::Error::other("its answer makes no sense")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: u32, status: u32, text: &str) -> Vec<u8> {
        let reply = Reply { version, status, text: text.len() as u32 };
        [&reply.to_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn answers_are_told_apart() {
        let unknown = |said| matches!(said, Ok(Said::Unknown(text)) if text == "1 (a)");
        assert!(unknown(read(&packet(VERSION, status::UNKNOWN, "1 (a)"), None)));
        assert!(matches!(read(&packet(VERSION, status::ENDED, ""), None), Ok(Said::Ended)));
        let refused = read(&packet(VERSION, status::FAILED, "no"), None);
        assert!(matches!(refused, Ok(Said::Refused(why)) if why == "no"));
        let file = crate::sys::memory_file().expect("a file");
        assert!(matches!(read(&packet(VERSION, status::TAKEN, ""), Some(file)), Ok(Said::Taken(_))));
    }

    #[test]
    fn nonsense_is_no_snapshot() {
        assert!(read(&packet(VERSION, status::TAKEN, ""), None).is_err());
        assert!(read(&packet(VERSION, 99, ""), None).is_err());
        // An older collector takes the request for a hello of another version.
        for other in [&[0; 16][..], &packet(VERSION + 1, status::TAKEN, ""), b"x"] {
            assert!(matches!(read(other, None), Ok(Said::Unknown(text)) if text.is_empty()));
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_said_so() {
        let error = request_snapshot(u32::MAX).map(|_| ()).expect_err("no such process");
        assert!(matches!(error, SnapshotError::NoProcess { .. }));
    }
}
