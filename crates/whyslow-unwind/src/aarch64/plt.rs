//! Linker stubs. Not every linker describes them in `.eh_frame` (lld does not); the ABI fixes their shapes.
//!
//! ```text
//! .plt     entry 0:   [bti c]   stp x16, x30, [sp, #-16]!   adrp x16   ldr x17   add x16   br x17      32 bytes
//!          entry n:   [bti c]   adrp x16   ldr x17   add x16   [autia1716]   br x17                    no stack
//! ```

use whyslow_numbers::RelativeAddress;

use super::registers::LR;
use super::rule::Cfa;
use crate::image::{Image, Section};

/// The length of entry 0.
const FIRST: u64 = 32;
/// `stp x16, x30, [sp, #-16]!`
const PUSH: [u8; 4] = [0xf0, 0x7b, 0xbf, 0xa9];

/// The rule for a relative address inside a stub.
pub(super) fn cfa(image: &Image, address: RelativeAddress) -> Option<Cfa> {
    let into = |section: &Section| {
        address.0.checked_sub(section.address.0).filter(|into| *into < section.bytes.len() as u64)
    };
    if image.plt_other.iter().any(|section| into(section).is_some()) {
        return Some(Cfa::FRAMELESS);
    }
    let at = into(&image.plt)?;
    let before = image.code_at(image.plt.address, usize::try_from(at.min(FIRST)).unwrap_or(0));
    let pushed = at < FIRST && before.chunks_exact(4).any(|instruction| instruction == PUSH);
    Some(if pushed { Cfa::sp_plus(16).saving(LR, -1) } else { Cfa::FRAMELESS })
}
