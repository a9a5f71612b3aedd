//! The signal that interrupts threads for a sample. libc reserves it for itself and lets no other code block or
//! handle it. libc uses it to cancel threads; those signals are passed on.

use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::arch::signals::{Context, restorer};
use crate::signals::{Action, Info};
use crate::sys;

/// glibc's `SIGCANCEL`. glibc and musl reserve 32 to 34, and Go leaves those alone.
pub const SIGNAL: i32 = 32;

/// A handler of the signal.
pub type Handler = unsafe extern "C" fn(i32, *const Info, *mut Context);

/// The agent's handler. 0 for none.
static OWN: AtomicU64 = AtomicU64::new(0);
/// libc's own handler of the signal. 0 for none.
static CANCELS: AtomicU64 = AtomicU64::new(0);

/// Handles the signal from now on.
pub fn take(handler: Handler) {
    OWN.store(handler as *const () as u64, Relaxed);
    take_again();
}

/// Handles the signal again, after libc may have set its own handler.
pub fn take_again() {
    const SA_SIGINFO: u64 = 4;
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_ONSTACK: u64 = 0x0800_0000;
    const SA_RESTART: u64 = 0x1000_0000;
    let own = OWN.load(Relaxed);
    if own == 0 {
        return;
    }
    let before = sys::signal_action(SIGNAL).map_or(0, |action| action.handler());
    if before != own && before > 1 {
        CANCELS.store(before, Relaxed);
    }
    let flags = SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART;
    let action = Action::new(own, flags, restorer as *const () as u64);
    // SAFETY: the handler has the signature that `SA_SIGINFO` requires, and the restorer is a restorer.
    unsafe { sys::set_signal_action(SIGNAL, &action) };
}

/// Calls libc's own handler, if there is one.
///
/// # Safety
/// The arguments are those that the kernel passed to the handler.
pub unsafe fn pass_on(signal: i32, info: *const Info, context: *mut Context) {
    let libc_handler = CANCELS.load(Relaxed);
    if libc_handler > 1 {
        // SAFETY: libc's own handler of this signal, which libc set with `SA_SIGINFO`.
        let libc_handler: Handler = unsafe { mem::transmute(libc_handler) };
        // SAFETY: the kernel's own arguments.
        unsafe { libc_handler(signal, info, context) };
    }
}
