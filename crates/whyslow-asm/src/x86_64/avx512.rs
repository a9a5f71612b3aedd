//! Finds AVX-512 instructions: simulators such as Valgrind cannot execute them.

use iced_x86::{Decoder, DecoderOptions};

/// The first byte of an instruction with an EVEX prefix: every AVX-512 instruction except those on masks.
const EVEX: u8 = 0x62;
const PAGE: usize = 4096;

/// How much of a program's code has AVX-512 instructions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Avx512 {
    /// The instructions.
    pub instructions: u64,
    /// Pages of code that have at least one.
    pub pages: u64,
    /// All pages of code.
    pub all_pages: u64,
}

impl Avx512 {
    /// Decodes code from its first byte to its last. Data between functions can hide the start of a few.
    pub fn of(code: &[u8]) -> Self {
        let mut found = Self { all_pages: code.len().div_ceil(PAGE) as u64, ..Self::default() };
        let mut last_page = None;
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        while decoder.can_decode() {
            let at = decoder.position();
            let instruction = decoder.decode();
            if code[at] == EVEX && !instruction.is_invalid() {
                found.instructions += 1;
                let page = at / PAGE;
                found.pages += u64::from(last_page != Some(page));
                last_page = Some(page);
            }
        }
        found
    }

    /// Whether the whole program seems to be compiled for it. Libraries that choose code at run time have it in a few
    /// functions.
    pub fn is_everywhere(self) -> bool {
        const LEAST: u64 = 4;
        const ONE_PAGE_IN: u64 = 20;
        self.instructions >= LEAST && self.pages.saturating_mul(ONE_PAGE_IN) >= self.all_pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vaddpd zmm0, zmm1, zmm2
    const ADD: [u8; 6] = [0x62, 0xf1, 0xf5, 0x48, 0x58, 0xc2];

    #[test]
    fn evex_instructions_are_counted_and_their_bytes_inside_others_are_not() {
        // mov eax, 0x62626262; then the additions.
        let code = [&[0xb8, 0x62, 0x62, 0x62, 0x62][..], &ADD.repeat(4)].concat();
        let found = Avx512::of(&code);
        assert_eq!(found, Avx512 { instructions: 4, pages: 1, all_pages: 1 });
        assert!(found.is_everywhere());
        // vaddpd ymm0, ymm1, ymm2 is AVX.
        assert_eq!(Avx512::of(&[0xc5, 0xf5, 0x58, 0xc2]).instructions, 0);
    }

    #[test]
    fn a_few_functions_are_chosen_at_run_time() {
        let mut code = vec![0x90; 100 * PAGE];
        code[..6].copy_from_slice(&ADD);
        code[6..12].copy_from_slice(&ADD);
        code[12..18].copy_from_slice(&ADD);
        code[18..24].copy_from_slice(&ADD);
        assert!(!Avx512::of(&code).is_everywhere());
        assert!(!Avx512::of(&[]).is_everywhere());
    }

    #[test]
    fn any_bytes_are_decoded() {
        assert_eq!(Avx512::of(&[EVEX; 64]).instructions, 0);
        assert_eq!(Avx512::of(&ADD[..3]).instructions, 0);
    }
}
