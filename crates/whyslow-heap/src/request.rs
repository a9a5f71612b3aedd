//! Requests a snapshot: finds the collector that records a process, and gets a profile from it.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use whyslow_agent_host::{Connection, hosts_of};
use whyslow_agent_wire::VERSION;
use whyslow_agent_wire::snapshot::{LEN, MOST_TEXT, Reply, Request, status};

/// Time limit for a collector: it reads all memory of the process.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The process id.
        pid: u32,
    },
    /// The process is the collector itself.
    #[error("process {pid} is whyslow itself; it records {}", list(.watched))]
    Recorder {
        /// The process id.
        pid: u32,
        /// The processes that it records, as text.
        watched: Vec<String>,
    },
    /// The process belongs to another user, and no reachable collector records it.
    #[error("process {pid} belongs to user {user}; only that user (or root) can request a snapshot of it")]
    Foreign {
        /// The process id.
        pid: u32,
        /// The user that it belongs to.
        user: u32,
    },
    /// The process's heap is not recorded.
    #[error("process {pid} does not run under `whyslow heap`{}", others(.watched))]
    NotWatched {
        /// The process id.
        pid: u32,
        /// The recorded processes, as text.
        watched: Vec<String>,
    },
    /// The process exited before or during the snapshot.
    #[error(
        "process {pid} exited before the snapshot was taken; see the complete recording that `whyslow heap` wrote"
    )]
    Ended {
        /// The process id.
        pid: u32,
    },
    /// The collector reports another failure.
    #[error("{0}")]
    Refused(String),
    /// The collector does not answer.
    #[error("the whyslow that records process {pid} does not answer: {error}")]
    Silent {
        /// The process.
        pid: u32,
        /// The reason.
        error: io::Error,
    },
}

fn list(watched: &[String]) -> String {
    if watched.is_empty() {
        "no process at present".to_owned()
    } else {
        format!("process {}", watched.join(", "))
    }
}

fn others(watched: &[String]) -> String {
    if watched.is_empty() { String::new() } else { format!("; these do: {}", watched.join(", ")) }
}

/// The answer of one collector.
enum Answer {
    Taken(File),
    Unknown(String),
    Ended,
    Refused(String),
}

/// Requests a profile of what holds memory in a process now, without symbols. The process must run under a
/// collector of this user, or of its own user if this user may access that collector's folder.
pub fn request_snapshot(pid: u32) -> Result<File, SnapshotError> {
    let user = whyslow_proc::user();
    let owner = fs::metadata(Path::new("/proc").join(pid.to_string())).map(|process| process.uid());
    let owner = owner.map_err(|_| SnapshotError::NoProcess { pid })?;
    let mut watched = Vec::new();
    let mut silent = None;
    for (recorder, socket) in hosts_of(&[user, owner]) {
        match ask(&socket, pid) {
            Ok(Answer::Taken(file)) => return Ok(file),
            Ok(Answer::Unknown(recorded)) => {
                let recorded = (!recorded.is_empty()).then_some(recorded);
                if recorder == pid {
                    return Err(SnapshotError::Recorder { pid, watched: recorded.into_iter().collect() });
                }
                watched.extend(recorded);
            }
            Ok(Answer::Ended) => return Err(SnapshotError::Ended { pid }),
            Ok(Answer::Refused(why)) => return Err(SnapshotError::Refused(why)),
            // The collector was killed and left its socket behind, or has exited since.
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

fn ask(socket: &Path, pid: u32) -> io::Result<Answer> {
    let connection = Connection::to(socket)?;
    connection.limit(PATIENCE)?;
    connection.send(&Request::new(pid).to_bytes(), None)?;
    let mut room = [0; LEN + MOST_TEXT];
    let (len, file) = connection.receive_with_file(&mut room)?;
    // An empty message means that the collector has exited.
    if len == 0 {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    read(&room[..len], file.map(File::from))
}

fn read(packet: &[u8], file: Option<File>) -> io::Result<Answer> {
    let Some((reply, text)) = Reply::parse(packet).filter(|(reply, _)| reply.version == VERSION) else {
        return Ok(Answer::Unknown(String::new()));
    };
    let text = String::from_utf8_lossy(text).into_owned();
    match (reply.status, file) {
        (status::TAKEN, Some(mut file)) => {
            file.rewind()?;
            Ok(Answer::Taken(file))
        }
        (status::UNKNOWN, _) => Ok(Answer::Unknown(text)),
        (status::ENDED, _) => Ok(Answer::Ended),
        (status::FAILED, _) => Ok(Answer::Refused(text)),
        _ => Err(io::Error::other("malformed answer")),
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
    fn answers_are_distinguished() {
        let unknown = |answer| matches!(answer, Ok(Answer::Unknown(text)) if text == "1 (a)");
        assert!(unknown(read(&packet(VERSION, status::UNKNOWN, "1 (a)"), None)));
        assert!(matches!(read(&packet(VERSION, status::ENDED, ""), None), Ok(Answer::Ended)));
        let refused = read(&packet(VERSION, status::FAILED, "no"), None);
        assert!(matches!(refused, Ok(Answer::Refused(why)) if why == "no"));
        let file = crate::sys::memory_file().expect("a file");
        assert!(matches!(read(&packet(VERSION, status::TAKEN, ""), Some(file)), Ok(Answer::Taken(_))));
    }

    #[test]
    fn rejects_malformed_answers() {
        assert!(read(&packet(VERSION, status::TAKEN, ""), None).is_err());
        assert!(read(&packet(VERSION, 99, ""), None).is_err());
        // An older collector treats the request as a hello of another version.
        for other in [&[0; 16][..], &packet(VERSION + 1, status::TAKEN, ""), b"x"] {
            assert!(matches!(read(other, None), Ok(Answer::Unknown(text)) if text.is_empty()));
        }
    }

    #[test]
    fn a_missing_process_is_an_error() {
        let error = request_snapshot(u32::MAX).map(|_| ()).expect_err("no such process");
        assert!(matches!(error, SnapshotError::NoProcess { .. }));
    }
}
