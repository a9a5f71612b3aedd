//! Detects the exit of processes and sends signals.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

/// Ids that no process can have would mean process groups.
fn number(pid: u32) -> io::Result<Pid> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    number.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A descriptor that becomes readable when a process exits, even if it is not reaped. `Ok(None)` if it has
/// already exited; an error on kernels before 5.3.
pub fn watch(pid: u32) -> io::Result<Option<OwnedFd>> {
    match rustix::process::pidfd_open(number(pid)?, PidfdFlags::empty()) {
        Ok(watch) => Ok(Some(watch)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a watched process has exited.
pub fn has_ended(process: impl AsFd) -> bool {
    ends_within(process, Duration::ZERO)
}

/// Waits for so long, or until a watched process has exited. Returns whether it has.
pub fn ends_within(process: impl AsFd, time: Duration) -> bool {
    let mut asked = [PollFd::new(&process, PollFlags::IN)];
    let (tv_sec, tv_nsec) = (time.as_secs() as i64, i64::from(time.subsec_nanos()));
    poll(&mut asked, Some(&Timespec { tv_sec, tv_nsec })).is_ok() && !asked[0].revents().is_empty()
}

/// Sends a signal. A process that has already exited is not an error.
pub fn send_signal(pid: u32, signal: i32) {
    if let (Ok(pid), Some(signal)) = (number(pid), Signal::from_named_raw(signal)) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_of_a_process_is_seen_before_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let watched = watch(child.id()).unwrap().unwrap();
        assert!(!has_ended(&watched));
        send_signal(child.id(), Signal::KILL.as_raw());
        poll(&mut [PollFd::new(&watched, PollFlags::IN)], None).unwrap();
        assert!(has_ended(&watched));
        child.wait().unwrap();
        assert!(watch(child.id()).unwrap().is_none());
        assert!(watch(0).is_err() && watch(u32::MAX).is_err());
    }
}
