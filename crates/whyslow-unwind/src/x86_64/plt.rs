//! Linker stubs. Not every linker describes them in `.eh_frame` (lld does not); the ABI fixes their shapes.
//!
//! ```text
//! .plt     entry 0:   push GOT[1] (6 bytes)   jmp *GOT[2]              the index is already on the stack
//!          entry n:   jmp *GOT[n] (6 bytes)   push n (5 bytes)   jmp entry 0
//! .plt.got, .plt.sec:  jmp *GOT[n]
//! ```

use super::rule::Rule;
use crate::image::{Image, Section};

const ENTRY: u64 = 16;

/// The rule for a relative address inside a stub.
pub(crate) fn rule(image: &Image, address: u64) -> Option<Rule> {
    let into = |section: &Section| {
        address.checked_sub(section.address).filter(|into| *into < section.bytes.len() as u64)
    };
    if image.plt_other.iter().any(|section| into(section).is_some()) {
        return Some(Rule::sp_plus(8));
    }
    let into = into(&image.plt)?;
    Some(match (into / ENTRY, into % ENTRY) {
        (0, 0..6) => Rule::sp_plus(16),
        (0, _) => Rule::sp_plus(24),
        (_, 0..11) => Rule::sp_plus(8),
        (_, _) => Rule::sp_plus(16),
    })
}
