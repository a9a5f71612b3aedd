//! How wide the answer may be.

use std::os::fd::AsFd;

/// For a stream that is not a terminal.
const USUAL_WIDTH: usize = 100;

/// Columns of the terminal behind a stream. `COLUMNS` speaks for streams that are no terminal.
pub(crate) fn width(stream: impl AsFd) -> usize {
    match terminal_size::terminal_size_of(stream) {
        Some((width, _)) => width.0.into(),
        None => {
            let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
            columns.filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
        }
    }
}
