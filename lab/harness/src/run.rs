//! Runs a command with a time limit and captures its output.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The command was still running at its time limit and was killed.
#[derive(Debug)]
pub struct TimedOut {
    command: String,
    limit: Duration,
}

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} did not exit within {:?}", self.command, self.limit)
    }
}

impl std::error::Error for TimedOut {}

/// Runs `command` with an empty stdin, captures both output streams, and kills it after `limit`
/// ([`TimedOut`]).
pub fn run(command: &mut Command, limit: Duration) -> Result<Output> {
    let name = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());

    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(TimedOut { command: name, limit }.into());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let join = |reader: std::thread::JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Ok(Output { status, stdout: join(stdout), stderr: join(stderr) })
}

/// Reads a stream to its end on a separate thread, so that neither of two pipes can fill up.
fn read_all(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // A broken pipe ends the stream like any other end. The exit status shows what happened.
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_exit_code_are_captured() {
        let output =
            run(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"]), Duration::from_secs(20))
                .unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"a\n"[..], &b"b\n"[..]));
    }

    #[test]
    fn a_hanging_command_is_killed_and_named() {
        let error = run(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap_err();
        assert!(error.downcast_ref::<TimedOut>().is_some());
        assert!(error.to_string().contains("sleep"));
    }
}
