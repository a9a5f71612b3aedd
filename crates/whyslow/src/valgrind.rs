//! Runs programs under Valgrind for every command that does: the line that shows how long it runs, and what to
//! do where it cannot.

use std::time::Duration;

use whyslow_render::units::duration;
use whyslow_valgrind::{Job, Run, Valgrind, ValgrindError};

use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::recording;
use crate::series::Line;

/// Before this time, a line that shows the time would only flicker.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Finds Valgrind; without it, says how to install it.
pub(crate) fn find() -> Result<Valgrind> {
    Valgrind::find().map_err(explain)
}

/// Runs a program. On a terminal, a line shows what is done and for how long; `expected` is how long it took the
/// last time.
pub(crate) fn run(
    valgrind: &Valgrind,
    job: &Job,
    doing: &str,
    expected: Option<Duration>,
    volume: Volume,
) -> Result<Run> {
    let line = Line::new(volume);
    let run = valgrind.run(job, &mut |elapsed| {
        if elapsed >= SHOWN_AFTER {
            line.show_beside_output(&progress(doing, elapsed, expected));
        }
    });
    drop(line);
    run.map_err(explain)
}

fn progress(doing: &str, elapsed: Duration, expected: Option<Duration>) -> String {
    let whole = |time: Duration| duration(time.as_secs() * 1_000_000_000);
    let of = match expected {
        Some(expected) if expected > elapsed => format!(" of about {}", whole(expected)),
        Some(expected) => format!(", longer than the expected {}", whole(expected)),
        None => String::new(),
    };
    format!("{doing}: {}{of}", whole(elapsed))
}

/// What happened, and what to do next.
fn explain(error: ValgrindError) -> Failure {
    let what = error.to_string();
    match error {
        ValgrindError::NotInstalled => Failure::new(what)
            .next("sudo apt install valgrind (Debian, Ubuntu), sudo dnf install valgrind (Fedora)"),
        ValgrindError::NotValgrind { .. } => {
            Failure::new(what).next("a PATH in which `valgrind` is Valgrind")
        }
        ValgrindError::Program(error) => recording::explain(error),
        ValgrindError::Folder(_) => Failure::new(what).next("TMPDIR=FOLDER whyslow …"),
        ValgrindError::System(_) => Failure::new(what).next("valgrind --version"),
        ValgrindError::NotRun { .. } => Failure::new(what).next(
            "the message of valgrind above; it runs neither setuid programs nor, without its other packages, \
             32-bit ones",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_long_it_takes() {
        let seconds = Duration::from_secs;
        assert_eq!(progress("simulating app", seconds(12), None), "simulating app: 12.0 s");
        assert_eq!(
            progress("simulating app", seconds(12), Some(seconds(40))),
            "simulating app: 12.0 s of about 40.0 s"
        );
        assert_eq!(
            progress("simulating app", seconds(50), Some(seconds(40))),
            "simulating app: 50.0 s, longer than the expected 40.0 s"
        );
    }
}
