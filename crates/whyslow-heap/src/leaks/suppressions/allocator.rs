//! Valgrind's names for the innermost frame of a stack: its replacement of the allocator.
//!
//! ```text
//! on the stack here            Valgrind's possible names
//! (nothing)                    any of them: the called function is not known
//! operator new                 that, or its array form: libstdc++'s array form jumps into the plain one and leaves no frame
//! operator new[]               that
//! malloc and its relatives     any of malloc and its relatives, since Valgrind uses the names of some for others
//! ```

use super::{Frame, names};

/// Valgrind's possible names for the allocator of one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocator {
    Any,
    Malloc,
    /// A row of [`OPERATORS`], plain or array form.
    Plain(usize),
    Array(usize),
}

const MALLOC: [&str; 9] = [
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "reallocarray",
];

/// The forms of `operator new`, plain and for arrays.
const OPERATORS: [(&str, &str); 4] = [
    ("_Znwm", "_Znam"),
    ("_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"),
    ("_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"),
    ("_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t"),
];

impl Allocator {
    /// Splits a stack into its allocator and the frames that called it.
    pub(super) fn split<'a, 'f>(stack: &'a [Frame<'f>]) -> (Self, &'a [Frame<'f>]) {
        let run = stack.iter().map_while(Self::of);
        run.enumerate().last().map_or((Self::Any, stack), |(at, outermost)| (outermost, &stack[at + 1..]))
    }

    fn of(frame: &Frame<'_>) -> Option<Self> {
        let is = |name: &str| names::without_version(frame.raw_function) == name;
        if MALLOC.iter().any(|name| is(name) || names::is_alias(name, frame)) {
            return Some(Self::Malloc);
        }
        let row = OPERATORS.iter().position(|(plain, array)| is(plain) || is(array))?;
        Some(if is(OPERATORS[row].0) { Self::Plain(row) } else { Self::Array(row) })
    }

    /// Whether it may be malloc or one of its relatives.
    pub(super) fn is_malloc(self) -> bool {
        matches!(self, Self::Any | Self::Malloc)
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let malloc = MALLOC.into_iter().filter(move |_| self.is_malloc());
        malloc.chain(OPERATORS.into_iter().enumerate().flat_map(move |(row, (plain, array))| {
            let is_plain = matches!(self, Self::Any) || self == Self::Plain(row);
            let is_array = is_plain || self == Self::Array(row);
            [Some(plain).filter(|_| is_plain), Some(array).filter(|_| is_array)].into_iter().flatten()
        }))
    }
}
