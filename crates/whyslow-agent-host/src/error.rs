//! Errors that prevent the host from starting.

use std::io;
use std::path::PathBuf;

/// Why the host could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no usable folder for the socket and the agent.
    #[error("cannot create a private folder for the agent (tried {})", list(.tried))]
    NoFolder {
        /// The places that were tried, and what happened there.
        tried: Vec<(PathBuf, String)>,
    },
    /// The agent's file could not be written.
    #[error("cannot write the agent to {path}: {source}")]
    Agent {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The socket could not be opened.
    #[error("cannot listen at {path}: {source}")]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread that serves the agent: {0}")]
    Thread(#[source] io::Error),
}

fn list(tried: &[(PathBuf, String)]) -> String {
    tried.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_reason() {
        let reason = || io::Error::other("not permitted");
        let path = || PathBuf::from("/run/x");
        for error in [
            HostError::Agent { path: path(), source: reason() },
            HostError::Socket { path: path(), source: reason() },
            HostError::Thread(reason()),
        ] {
            assert!(error.to_string().ends_with(": not permitted"), "{error}");
        }
    }
}
