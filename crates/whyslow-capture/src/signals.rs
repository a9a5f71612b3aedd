//! Signals during a recording: reads them from a descriptor, passes on those meant for the program, and
//! restores the original mask afterwards.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that ask a program to end or to do something. Without a recorder, the program would receive them.
const PASSED_ON: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Those that ask it to end.
pub(crate) const ENDS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Blocks signals and receives them through a descriptor until it is dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    original: libc::sigset_t,
    /// Set when a signal asks to end.
    asked_to_end: Option<Arc<AtomicBool>>,
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A child changed its state.
    Child,
    /// Another process sent this signal to the recorder alone.
    Sent(i32),
    /// The terminal sent this signal to the whole group, including the recorded program.
    FromTerminal(i32),
}

#[expect(unsafe_code, reason = "signal sets and descriptors without a safe wrapper")]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: all-zero sets are valid and then filled by the calls; every pointer is to a local.
        unsafe {
            let mut blocked: libc::sigset_t = std::mem::zeroed();
            let mut original: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut blocked);
            for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut blocked, signal);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut original);
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            // Suppresses SIGCHLD for threads that ptrace sampling stops.
            let mut of_children: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut of_children);
            of_children.sa_flags |= libc::SA_NOCLDSTOP;
            libc::sigaction(libc::SIGCHLD, &raw const of_children, std::ptr::null_mut());
            let fd = libc::signalfd(-1, &raw const blocked, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                let error = io::Error::last_os_error();
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const original, std::ptr::null_mut());
                return Err(error);
            }
            Ok(Self { fd: OwnedFd::from_raw_fd(fd), original, asked_to_end: None })
        }
    }

    /// Sets this from now on when a signal asks to end, also one that arrives before the drop.
    pub(crate) fn telling(mut self, asked_to_end: Option<Arc<AtomicBool>>) -> Self {
        self.asked_to_end = asked_to_end;
        self
    }

    /// Becomes readable when a signal has arrived.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The next signal, without waiting.
    pub(crate) fn next(&self) -> Option<Received> {
        // SAFETY: all-zero is a valid `signalfd_siginfo`, and the kernel fills at most its size.
        let (read, info) = unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let read = libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size_of_val(&info));
            (read, info)
        };
        if usize::try_from(read) != Ok(size_of_val(&info)) {
            return None;
        }
        let signal = info.ssi_signo.cast_signed();
        if let (Some(asked), true) = (&self.asked_to_end, ENDS.contains(&signal)) {
            asked.store(true, Ordering::Release);
        }
        Some(match (signal, info.ssi_code) {
            (libc::SIGCHLD, _) => Received::Child,
            (_, libc::SI_KERNEL) => Received::FromTerminal(signal),
            _ => Received::Sent(signal),
        })
    }
}

#[expect(unsafe_code, reason = "restores the mask")]
impl Drop for Signals {
    fn drop(&mut self) {
        // Signals that are pending now have already had their effect.
        while self.next().is_some() {}
        // SAFETY: the set was filled by `new`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.original, std::ptr::null_mut()) };
    }
}

/// Waits until a descriptor is ready or the time is over. Sets the ready flags of each.
#[expect(
    unsafe_code,
    reason = "the session changes while its descriptors are waited for, so they cannot be borrowed"
)]
pub(crate) fn poll(descriptors: &mut [libc::pollfd], timeout_ms: i32) {
    // SAFETY: the slice is valid and its length is passed with it. An interrupted call counts as a time-out.
    let ready =
        unsafe { libc::poll(descriptors.as_mut_ptr(), descriptors.len() as libc::nfds_t, timeout_ms) };
    if ready < 0 {
        descriptors.iter_mut().for_each(|descriptor| descriptor.revents = 0);
    }
}
