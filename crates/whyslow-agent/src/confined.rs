//! Whether the program has forbidden itself system calls (seccomp) since the agent started. The kernel may
//! kill the process for a forbidden call, so the agent then makes no call that the program does not make
//! itself.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::sys;

/// Number of system call filters when the agent started. A container has one.
static AT_START: AtomicU32 = AtomicU32::new(0);

/// Stores the current number.
pub fn remember() {
    let mut buffer = [0; 4096];
    AT_START.store(filters(&mut buffer).unwrap_or(0), Relaxed);
}

/// Whether filters were added since the agent started. `buffer` is scratch space.
pub fn since_the_start(buffer: &mut [u8]) -> bool {
    filters(buffer).is_some_and(|now| now != AT_START.load(Relaxed))
}

/// The number of filters, or 1 if the kernel only says that there are some. `None` if nothing can be read.
fn filters(buffer: &mut [u8]) -> Option<u32> {
    let file = sys::open(c"/proc/self/status");
    if file < 0 {
        return None;
    }
    let len = sys::read(file, buffer);
    sys::close(file);
    let number = |name: &[u8]| {
        let mut lines = buffer[..len].split(|byte| *byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(name))?;
        let digits = value.iter().filter(|byte| byte.is_ascii_digit());
        Some(digits.fold(0u32, |number, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))))
    };
    number(b"Seccomp_filters:").or_else(|| number(b"Seccomp:").map(|mode| mode.min(1)))
}
