//! Why collecting could not begin.

use std::io;
use std::path::PathBuf;

/// Why collecting could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// No folder for the socket and the agent.
    #[error("no private folder can be made for the agent (tried {})", list(.tried))]
    NoFolder {
        /// Where it was tried, and what happened there.
        tried: Vec<(PathBuf, String)>,
    },
    /// The agent's file.
    #[error("cannot write the agent to {path}")]
    Agent {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket.
    #[error("cannot listen at {path}")]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread.
    #[error("cannot start a thread for the heap collector")]
    Thread(#[source] io::Error),
}

fn list(tried: &[(PathBuf, String)]) -> String {
    tried.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect::<Vec<_>>().join("; ")
}
