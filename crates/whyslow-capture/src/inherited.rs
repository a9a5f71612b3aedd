//! The signal mask and dispositions that whyslow was started with. Every program that whyslow starts gets them
//! back, so that it runs as it would without whyslow.
//!
//! whyslow blocks signals while it records or measures, and Rust's start-up code ignores SIGPIPE before `main`.
//! A program that inherited that would not end on SIGTERM, for example when `timeout` sends it.

use std::ffi::OsStr;
use std::process;
use std::sync::OnceLock;

/// The signals whose disposition whyslow or Rust's start-up code changes.
const CHANGED: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

#[derive(Clone, Copy)]
struct AtStart {
    mask: libc::sigset_t,
    dispositions: [libc::sighandler_t; CHANGED.len()],
}

static AT_START: OnceLock<AtStart> = OnceLock::new();

/// A command whose program gets the signals back. All programs that are not recorded start with it.
pub fn command(program: impl AsRef<OsStr>) -> process::Command {
    let mut command = process::Command::new(program);
    before_exec(&mut command, || {});
    command
}

/// Runs a closure in the child right before its exec, after its signals are restored. The closure may only make
/// system calls.
#[expect(unsafe_code, reason = "runs between fork and exec")]
pub(crate) fn before_exec(command: &mut process::Command, then: impl Fn() + Send + Sync + 'static) {
    use std::os::unix::process::CommandExt as _;
    let restored = move || {
        restore();
        then();
        Ok(())
    };
    // SAFETY: both only make system calls and read memory that existed before the fork.
    unsafe { command.pre_exec(restored) };
}

/// Restores mask and dispositions, in a child before its exec.
#[expect(unsafe_code, reason = "signals without a safe wrapper")]
pub(crate) fn restore() {
    let Some(start) = AT_START.get() else { return };
    // SAFETY: system calls on values that were read before `main`.
    unsafe {
        for (signal, disposition) in CHANGED.into_iter().zip(start.dispositions) {
            libc::signal(signal, disposition);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const start.mask, std::ptr::null_mut());
    }
}

#[expect(unsafe_code, reason = "the only moment before Rust's start-up code")]
mod at_start {
    use super::{AT_START, AtStart, CHANGED};

    // SAFETY: the loader calls every function in this section once, before `main`, with arguments we ignore.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static REMEMBER: extern "C" fn() = remember;

    extern "C" fn remember() {
        // SAFETY: queries without changes; all-zero is a valid mask and a valid `sigaction`.
        let start = unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
            let dispositions = CHANGED.map(|signal| {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &raw mut action);
                action.sa_sigaction
            });
            AtStart { mask, dispositions }
        };
        // It runs once.
        let _ = AT_START.set(start);
        // SAFETY: nothing else runs yet. If SIGCHLD is ignored, the kernel reaps children before whyslow can ask how
        // they ended.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}
