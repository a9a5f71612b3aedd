//! The width of the output.

use std::os::fd::AsFd;

/// The width for a stream that is not a terminal.
const DEFAULT_WIDTH: usize = 100;

/// The columns of the terminal behind a stream. For other streams, `COLUMNS` sets the width.
pub(crate) fn width(stream: impl AsFd) -> usize {
    match terminal_size::terminal_size_of(stream) {
        Some((width, _)) => width.0.into(),
        None => {
            let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
            columns.filter(|columns| *columns > 0).unwrap_or(DEFAULT_WIDTH)
        }
    }
}
