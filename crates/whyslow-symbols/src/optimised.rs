//! Whether a module was compiled with optimisation, from the evidence in its units.
//!
//! | evidence | answer |
//! |---|---|
//! | gcc's producer text has `-O1`…`-O3`, `-Os`, `-Ofast`, `-Og`; or `DW_AT_APPLE_optimized` | yes |
//! | gcc's producer text has its flags, and no `-O` or `-O0` | no |
//! | Rust: functions on stacks have inlined calls that are written in the user's own files | yes |
//! | Rust: at least four such functions, hardly any inlined call | no |
//! | anything else | unknown |
//!
//! A debug build of Rust does have a few inlined calls: `#[inline(always)]`, and those inside generic
//! functions of the standard library. So only calls written outside it count, and there must be more than a
//! few.

use whyslow_profile::Optimised;

/// Counts over the units that were read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Rust functions with wanted addresses, outside the precompiled standard library.
    pub rust_functions: u32,
    /// Inlined calls in them that are written outside the standard library.
    pub rust_inlined: u32,
    /// Wanted addresses in units whose compiler says that it optimised.
    pub flagged_yes: u32,
    /// Wanted addresses in units whose compiler says that it did not.
    pub flagged_no: u32,
}

impl Evidence {
    /// Adds another unit's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.rust_functions = self.rust_functions.saturating_add(other.rust_functions);
        self.rust_inlined = self.rust_inlined.saturating_add(other.rust_inlined);
        self.flagged_yes = self.flagged_yes.saturating_add(other.flagged_yes);
        self.flagged_no = self.flagged_no.saturating_add(other.flagged_no);
    }

    /// The answer.
    pub(crate) fn verdict(&self) -> Optimised {
        if self.rust_functions > 0 {
            if self.rust_inlined * 2 >= self.rust_functions {
                return Optimised::Yes;
            }
            if self.rust_functions >= 4 && self.rust_inlined * 10 <= self.rust_functions {
                return Optimised::No;
            }
            return Optimised::Unknown;
        }
        match self.flagged_yes.cmp(&self.flagged_no) {
            std::cmp::Ordering::Greater => Optimised::Yes,
            std::cmp::Ordering::Less => Optimised::No,
            std::cmp::Ordering::Equal => Optimised::Unknown,
        }
    }
}

/// Whether a compiler's producer text says that it optimised; `None` if it does not say.
pub fn producer_flag(producer: &str) -> Option<bool> {
    // gcc includes its code generation flags; others do not.
    if !producer.starts_with("GNU ") || !producer.contains(" -") {
        return None;
    }
    let last = producer.split(' ').rfind(|flag| flag.starts_with("-O"));
    Some(last.is_some_and(|flag| flag != "-O0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gcc_producers_state_their_flags() {
        for (producer, flag) in [
            ("GNU C17 13.2.0 -mtune=generic -march=x86-64 -g -O2", Some(true)),
            ("GNU C17 13.2.0 -mtune=generic -march=x86-64 -g", Some(false)),
            ("GNU C17 13.2.0 -mtune=generic -O2 -O0", Some(false)),
            ("GNU C++17 13.2.0 -mtune=generic -Og -g", Some(true)),
            ("GNU AS 2.41", None),
            ("clang version 18.1.3 (1ubuntu1)", None),
            ("clang LLVM (rustc version 1.95.0)", None),
        ] {
            assert_eq!(producer_flag(producer), flag, "{producer}");
        }
    }

    #[test]
    fn verdicts() {
        let rust = |rust_functions, rust_inlined| {
            Evidence { rust_functions, rust_inlined, ..Evidence::default() }.verdict()
        };
        assert_eq!(rust(4, 9), Optimised::Yes);
        assert_eq!(rust(20, 1), Optimised::No);
        assert_eq!(rust(2, 0), Optimised::Unknown);
        assert_eq!(rust(10, 3), Optimised::Unknown);
        let flagged =
            |flagged_yes, flagged_no| Evidence { flagged_yes, flagged_no, ..Evidence::default() }.verdict();
        assert_eq!(flagged(3, 0), Optimised::Yes);
        assert_eq!(flagged(1, 3), Optimised::No);
        assert_eq!(flagged(0, 0), Optimised::Unknown);
    }
}
