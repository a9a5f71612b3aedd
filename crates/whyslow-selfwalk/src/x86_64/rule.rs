//! The rule of one step.

/// How to get from a frame to its caller, in 64 bits.
///
/// ```text
/// SP, BP     bits 0-2 kind, 3 rbp is saved, 4 rbx is saved, 8-15 rbx in words from the cfa, 16-31 rbp in bytes from the cfa,
///            32-63 offset:      cfa = sp + offset, or rbp + offset;  return address at cfa - 8
/// GENERAL    bits 0-2 kind, 3-4 base (0 sp, 1 rbp, 2 rbx), 5 dereferenced, 6-7 rbp is (0 kept, 1 saved from the cfa, 2 saved from rbp),
///            8-15 return address, 16-23 rbp, 24-31 rbx (-128: kept), all in words;  32-47 first, 48-63 second offset in bytes:
///                               cfa = base + first, or *(base + first) + second
/// SIGNAL     the kernel's signal frame, which has all registers at fixed offsets
/// END        there is no caller
/// UNKNOWN    no table covers the address
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule(pub(crate) u64);

pub(crate) const SP: u64 = 1;
pub(crate) const BP: u64 = 2;
pub(crate) const GENERAL: u64 = 3;
pub(crate) const SIGNAL: u64 = 4;
pub(crate) const END: u64 = 5;
pub(crate) const UNKNOWN: u64 = 6;

const RBP_SAVED: u64 = 1 << 3;
const RBX_SAVED: u64 = 1 << 4;

/// Registers that can describe a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Sp,
    Bp,
    Bx,
}

/// Where the caller's rbp is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SavedBp {
    Kept,
    FromCfa(i64),
    FromBp(i64),
}

/// The registers that a step needs besides the stack pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) bp: bool,
    pub(crate) keeps_bp: bool,
    pub(crate) bx: bool,
}

/// [`GENERAL`] unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct General {
    pub(crate) base: Base,
    pub(crate) first: i64,
    /// Added to the word at `base + first`.
    pub(crate) second: Option<i64>,
    pub(crate) return_words: i64,
    pub(crate) bp: SavedBp,
    pub(crate) bx_words: Option<i64>,
}

impl Rule {
    pub(crate) const END: Self = Self(END);
    pub(crate) const UNKNOWN: Self = Self(UNKNOWN);
    pub(crate) const SIGNAL: Self = Self(SIGNAL);

    #[inline(always)]
    pub(crate) fn kind(self) -> u64 {
        self.0 & 7
    }

    /// `cfa = base + offset`, in the compact form if it fits.
    pub(crate) fn simple(general: &General) -> Option<Self> {
        if general.second.is_some() || general.return_words != -1 {
            return None;
        }
        let kind = match general.base {
            Base::Sp => SP,
            Base::Bp => BP,
            Base::Bx => return None,
        };
        let mut bits = kind | (u64::from(i32::try_from(general.first).ok()?.cast_unsigned()) << 32);
        match general.bp {
            SavedBp::Kept => {}
            SavedBp::FromCfa(words) => {
                let bytes = i16::try_from(words * 8).ok()?;
                bits |= RBP_SAVED | (u64::from(bytes.cast_unsigned()) << 16);
            }
            SavedBp::FromBp(_) => return None,
        }
        if let Some(words) = general.bx_words {
            bits |= RBX_SAVED | (u64::from(i8::try_from(words).ok()?.cast_unsigned()) << 8);
        }
        Some(Self(bits))
    }

    pub(crate) fn general(general: &General) -> Option<Self> {
        let byte = |words: i64| i8::try_from(words).ok().map(|words| u64::from(words.cast_unsigned()));
        let short = |bytes: i64| i16::try_from(bytes).ok().map(|bytes| u64::from(bytes.cast_unsigned()));
        let base = match general.base {
            Base::Sp => 0,
            Base::Bp => 1,
            Base::Bx => 2,
        };
        let (mode, bp) = match general.bp {
            SavedBp::Kept => (0, 0),
            SavedBp::FromCfa(words) => (1, byte(words)?),
            SavedBp::FromBp(words) => (2, byte(words)?),
        };
        let bx = match general.bx_words {
            None => 0x80,
            Some(words) => byte(words).filter(|bits| *bits != 0x80)?,
        };
        let second = short(general.second.unwrap_or(0))?;
        let dereferenced = u64::from(general.second.is_some());
        Some(Self(
            GENERAL
                | (base << 3)
                | (dereferenced << 5)
                | (mode << 6)
                | (byte(general.return_words)? << 8)
                | (bp << 16)
                | (bx << 24)
                | (short(general.first)? << 32)
                | (second << 48),
        ))
    }

    pub(crate) fn unpacked(self) -> General {
        let byte = |at: u32| i64::from((self.0 >> at) as u8 as i8);
        let short = |at: u32| i64::from((self.0 >> at) as u16 as i16);
        General {
            base: match (self.0 >> 3) & 3 {
                0 => Base::Sp,
                1 => Base::Bp,
                _ => Base::Bx,
            },
            first: short(32),
            second: (self.0 & (1 << 5) != 0).then(|| short(48)),
            return_words: byte(8),
            bp: match (self.0 >> 6) & 3 {
                0 => SavedBp::Kept,
                1 => SavedBp::FromCfa(byte(16)),
                _ => SavedBp::FromBp(byte(16)),
            },
            bx_words: Some(byte(24)).filter(|words| *words != -128),
        }
    }

    /// The offset of a simple rule.
    #[inline(always)]
    pub(crate) fn offset(self) -> i64 {
        self.0.cast_signed() >> 32
    }

    /// Where rbp is after a simple rule with this cfa, if it was at `before`.
    #[inline(always)]
    pub(crate) fn bp_slot(self, cfa: u64, before: u64) -> u64 {
        let saved = cfa.wrapping_add_signed(i64::from((self.0 >> 16) as u16 as i16));
        if self.0 & RBP_SAVED != 0 { saved } else { before }
    }

    /// Whether a simple rule sets a new place for rbp.
    #[inline(always)]
    pub(crate) fn saves_bp(self) -> bool {
        self.0 & RBP_SAVED != 0
    }

    /// The registers that a rule needs, if it is not simple.
    pub(crate) fn uses(self) -> Uses {
        if self.kind() != GENERAL {
            return Uses { bp: false, keeps_bp: false, bx: false };
        }
        let general = self.unpacked();
        Uses {
            bp: general.base == Base::Bp || matches!(general.bp, SavedBp::FromBp(_)),
            keeps_bp: general.bp == SavedBp::Kept,
            bx: general.base == Base::Bx,
        }
    }

    /// Where rbx is after a step by this rule with this cfa, if it was at `before`.
    pub(crate) fn bx_slot(self, sp: u64, cfa: u64, before: u64) -> u64 {
        let words = match self.kind() {
            SP | BP if self.0 & RBX_SAVED != 0 => Some(i64::from((self.0 >> 8) as u8 as i8)),
            GENERAL => self.unpacked().bx_words,
            SIGNAL => return sp.wrapping_add(SIGNAL_RBX),
            _ => None,
        };
        words.map_or(before, |words| cfa.wrapping_add_signed(8 * words))
    }
}

/// Offsets of registers in the kernel's signal frame, from the stack pointer of the trampoline.
pub(crate) const SIGNAL_RBP: u64 = 120;
pub(crate) const SIGNAL_RBX: u64 = 128;
pub(crate) const SIGNAL_RSP: u64 = 160;
pub(crate) const SIGNAL_RIP: u64 = 168;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_round_trips() {
        let drap = General {
            base: Base::Bp,
            first: -8,
            second: Some(0),
            return_words: -1,
            bp: SavedBp::FromBp(0),
            bx_words: Some(-7),
        };
        assert_eq!(Rule::simple(&drap), None);
        assert_eq!(Rule::general(&drap).unwrap().unpacked(), drap);
        let usual =
            General { base: Base::Sp, first: 0x123458, second: None, bp: SavedBp::FromCfa(-2), ..drap };
        let rule = Rule::simple(&usual).unwrap();
        assert_eq!((rule.kind(), rule.offset(), rule.saves_bp()), (SP, 0x123458, true));
        assert_eq!((rule.bp_slot(1000, 1), rule.bx_slot(0, 1000, 1)), (984, 1000 - 56));
        let plain = General { bp: SavedBp::Kept, bx_words: None, ..usual };
        let rule = Rule::simple(&plain).unwrap();
        assert_eq!((rule.bp_slot(1000, 1), rule.bx_slot(0, 1000, 1)), (1, 1));
    }
}
