//! Linker stubs. Not every linker describes them in `.eh_frame` (lld does not); the ABI fixes their shapes.
//!
//! ```text
//! .plt     entry 0:   push GOT[1] (6 bytes)   jmp *GOT[2]              the index is already on the stack
//!          entry n:   jmp *GOT[n] (6 bytes)   push n (5 bytes)   jmp entry 0
//! .plt.got, .plt.sec:  jmp *GOT[n]
//! ```

use whyslow_numbers::RelativeAddress;

use super::rule::Cfa;
use crate::image::{Image, Section};

const ENTRY: u64 = 16;

/// The rule for a relative address inside a stub.
pub(super) fn cfa(image: &Image, address: RelativeAddress) -> Option<Cfa> {
    let into = |section: &Section| {
        address.0.checked_sub(section.address.0).filter(|into| *into < section.bytes.len() as u64)
    };
    if image.plt_other.iter().any(|section| into(section).is_some()) {
        return Some(Cfa::sp_plus(8));
    }
    let into = into(&image.plt)?;
    Some(match (into / ENTRY, into % ENTRY) {
        (0, 0..6) => Cfa::sp_plus(16),
        (0, _) => Cfa::sp_plus(24),
        (_, 0..11) => Cfa::sp_plus(8),
        (_, _) => Cfa::sp_plus(16),
    })
}
