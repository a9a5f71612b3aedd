//! Symbols that may be missing.

/// The address of a symbol that the loader may know, or 0.
macro_rules! address_of {
    ($symbol:literal) => {{
        let address: u64;
        // SAFETY: reads a word that the loader has filled.
        unsafe {
            core::arch::asm!(concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"), out(reg) address,
                options(nostack, readonly, preserves_flags));
        }
        address
    }};
}
pub(crate) use address_of;
