//! The lock that a thread of parking_lot waits for. Its threads wait on a futex of their own, and keep the
//! address of the lock, their key, beside it:
//!
//! ```text
//! -32 key   -24 next thread in the queue   -16 token of the unpark   -8 token of the park   0 futex: 1 while parked
//! ```
//! The layout is the compiler's, as seen with parking_lot_core 0.9.12. What is read must look like
//! it: no other lock waits with these values.

use whyslow_numbers::{ClockNs, RunTimeAddress};

use crate::input::Dump;
use crate::world::World;

/// The distance from the key to the futex.
const BEFORE: u64 = 32;
const LENGTH: usize = 36;
/// Tokens are small sets of flags.
const LARGEST_TOKEN: u64 = 64;
/// Smaller arguments are descriptors and flags.
const LEAST_ADDRESS: u64 = 0x10000;

/// The key of a parked thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parked {
    pub(super) key: u64,
    /// When it was read, if that was after the thread had left its CPU.
    pub(super) read_ns: Option<ClockNs>,
}

/// The key of a thread that waits on a futex: from the copy of its stack, which often has the thread's own
/// variables above it, or from its memory now.
pub(super) fn parked_on(world: &impl World, pid: u32, futex: u64, dump: Option<&Dump<'_>>) -> Option<Parked> {
    let address = futex.checked_sub(BEFORE).filter(|address| *address >= LEAST_ADDRESS)?;
    let copied = dump.and_then(|dump| {
        let at = usize::try_from(address.checked_sub(dump.sp)?).ok()?;
        dump.bytes.get(at..at.checked_add(LENGTH)?)
    });
    if let Some(bytes) = copied {
        return key(bytes).map(|key| Parked { key, read_ns: None });
    }
    let mut bytes = [0; LENGTH];
    let read =
        world.has_memory() && world.read_memory(pid, RunTimeAddress(address), &mut bytes) == Ok(LENGTH);
    let read_ns = world.now_ns().filter(|_| read)?;
    key(&bytes).map(|key| Parked { key, read_ns: Some(read_ns) })
}

/// The key, if these bytes are those of a parked thread.
fn key(bytes: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let futex = u32::from_ne_bytes(bytes.get(32..36)?.try_into().ok()?);
    let tokens = word(16)? <= LARGEST_TOKEN && word(24)? <= LARGEST_TOKEN;
    word(0).filter(|key| futex == 1 && tokens && *key >= LEAST_ADDRESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(key: u64, tokens: [u64; 2], futex: u32) -> Vec<u8> {
        let words = [key, 0x7f00_0000_1000, tokens[0], tokens[1]];
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        words.chain(futex.to_ne_bytes()).collect()
    }

    #[test]
    fn only_a_parked_thread_has_a_key() {
        const LOCK: u64 = 0x5582_1eab_5358;
        assert_eq!(key(&bytes(LOCK, [1, 0], 1)), Some(LOCK));
        assert_eq!(key(&bytes(LOCK, [0, 24], 1)), Some(LOCK), "a reader");
        assert_eq!(key(&bytes(LOCK, [1, 0], 0)), None, "unparked by now");
        assert_eq!(key(&bytes(LOCK, [1, 0], 2)), None, "a std Mutex");
        assert_eq!(key(&bytes(LOCK, [1, LOCK], 1)), None);
        assert_eq!(key(&bytes(3, [1, 0], 1)), None);
        assert_eq!(key(&[0; 8]), None);
    }
}
