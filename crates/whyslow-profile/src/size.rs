//! The space in a program's file, as a profile.
//!
//! ```text
//! metric   = file-size, in bytes
//! process  = a part of the file: code, unwind tables, debug information, …     see `Part`
//! thread   = a section
//! stack    = crate or library → function; or the part, then the section, for what belongs to no function
//! frame    = the function, with the source file that its bytes come from
//! ```
//! Each byte of the file is in one sample, so that the samples add up to the file's size.

/// The name of the metric.
pub const METRIC: &str = "file-size";

coded_enum! {
    /// What a range of bytes in a program's file is.
    Part {
        /// Machine code.
        #[default] Code = 0 / "code",
        /// Constants, string literals, tables that are never written.
        ReadOnly = 1 / "read-only data",
        /// Initial values of variables, and tables that the loader fills in.
        Data = 2 / "writable data",
        /// Tables for unwinding and for landing pads.
        Unwind = 3 / "unwind tables",
        /// What the loader has to change.
        Relocations = 4 / "relocations",
        /// Names and versions for the dynamic linker.
        Dynamic = 5 / "dynamic linking",
        /// Debug information.
        Debug = 6 / "debug information",
        /// The symbol table, which no program needs to run.
        Symbols = 7 / "symbol table",
        /// Headers, notes, comments.
        Headers = 8 / "headers and notes",
        /// Zeros between sections.
        Padding = 9 / "padding",
        /// Bytes that no header describes.
        Undescribed = 10 / "not described by headers",
    }
}
