//! Whether the program has forbidden itself system calls since the agent came in. One that is forbidden may be answered by death, so what the
//! program does not do itself is not done then.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::sys;

/// Filters of system calls when the agent came in: a container has one.
static AT_START: AtomicU32 = AtomicU32::new(0);

/// Remembers how it is now.
pub fn remember() {
    let mut buffer = [0; 4096];
    AT_START.store(filters(&mut buffer).unwrap_or(0), Relaxed);
}

/// Whether there are filters now that were not there then. The buffer is for reading.
pub fn since_the_start(buffer: &mut [u8]) -> bool {
    filters(buffer).is_some_and(|now| now != AT_START.load(Relaxed))
}

/// How many filters there are, or 1 where the kernel tells only that there are some; none where nothing can be read.
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
