//! The ways a lab program can be compiled, as compiler arguments.

/// One way of compiling a lab program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Variant {
    /// Optimised, with line tables and functions (`debuginfo=1`); C with `-O2 -g -fomit-frame-pointer`.
    #[default]
    Release,
    /// Not optimised, full debug information.
    Debug,
    /// Optimised, symbols, no debug information of the program itself.
    NoDebugInfo,
    /// Optimised, neither symbols nor debug information.
    Stripped,
    /// As `Release`, with `panic=abort` (Rust only; C is as `Release`).
    PanicAbort,
    /// Frame pointers. C has no unwind information at all for the program's own code. Rust keeps its
    /// `.eh_frame`, and may delay a function's prologue until after its hot loop.
    FramePointers,
    /// C without frame pointers, with unwind information for its own code only in `.debug_frame` (Rust is as
    /// `Release`).
    DebugFrame,
    /// Line tables and inlined functions, nothing else (`-g1` for C).
    LineTablesOnly,
    /// Debug information in a `.dwp` file next to the program.
    SplitPacked,
    /// Debug information in `.dwo` files.
    SplitUnpacked,
    /// Debug information in `NAME.debug` next to the program, found through `.gnu_debuglink`; the program is
    /// stripped.
    DebugLink,
    /// Full debug information in DWARF version 4.
    Dwarf4,
    /// Full debug information in DWARF version 5.
    Dwarf5,
    /// As `Release`, with zlib-compressed debug sections.
    CompressedDebugInfo,
    /// As `Release`, with the v0 mangling of names (Rust only; C is as `Release`).
    V0Names,
    /// At fixed addresses, with a hole between the headers and the code.
    Apart,
    /// Statically linked, at a fixed address.
    Static,
    /// Statically linked, position independent.
    StaticPie,
    /// Statically linked with musl instead of glibc.
    Musl,
}

impl Variant {
    /// Every variant, in the order of their declaration.
    pub const ALL: [Self; 19] = [
        Self::Release,
        Self::Debug,
        Self::NoDebugInfo,
        Self::Stripped,
        Self::PanicAbort,
        Self::FramePointers,
        Self::DebugFrame,
        Self::LineTablesOnly,
        Self::SplitPacked,
        Self::SplitUnpacked,
        Self::DebugLink,
        Self::Dwarf4,
        Self::Dwarf5,
        Self::CompressedDebugInfo,
        Self::V0Names,
        Self::Apart,
        Self::Static,
        Self::StaticPie,
        Self::Musl,
    ];

    /// The part of the file name that identifies this variant.
    pub fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Debug => "debug",
            Self::NoDebugInfo => "no-debuginfo",
            Self::Stripped => "stripped",
            Self::PanicAbort => "panic-abort",
            Self::FramePointers => "frame-pointers",
            Self::DebugFrame => "debug-frame",
            Self::LineTablesOnly => "line-tables",
            Self::SplitPacked => "split-packed",
            Self::SplitUnpacked => "split-unpacked",
            Self::DebugLink => "debuglink",
            Self::Dwarf4 => "dwarf4",
            Self::Dwarf5 => "dwarf5",
            Self::CompressedDebugInfo => "compressed",
            Self::V0Names => "v0-names",
            Self::Apart => "apart",
            Self::Static => "static",
            Self::StaticPie => "static-pie",
            Self::Musl => "musl",
        }
    }

    /// Whether everything is in one file, without a loader.
    pub fn is_static(self) -> bool {
        matches!(self, Self::Static | Self::StaticPie | Self::Musl)
    }

    /// Arguments for rustc, separated by spaces.
    pub(crate) fn rustc_arguments(self) -> &'static str {
        match self {
            Self::Release | Self::DebugLink | Self::DebugFrame => "-O -C debuginfo=1",
            Self::Debug => "-C opt-level=0 -C debuginfo=2",
            Self::NoDebugInfo => "-O -C debuginfo=0",
            Self::Stripped => "-O -C debuginfo=0 -C strip=symbols",
            Self::PanicAbort => "-O -C debuginfo=1 -C panic=abort",
            Self::FramePointers => "-O -C debuginfo=1 -C force-frame-pointers=yes",
            Self::LineTablesOnly => "-O -C debuginfo=line-tables-only",
            Self::SplitPacked => "-O -C debuginfo=2 -C split-debuginfo=packed",
            Self::SplitUnpacked => "-O -C debuginfo=2 -C split-debuginfo=unpacked",
            Self::Dwarf4 => "-O -C debuginfo=2 -C dwarf-version=4",
            Self::Dwarf5 => "-O -C debuginfo=2 -C dwarf-version=5",
            Self::CompressedDebugInfo => "-O -C debuginfo=1 -C link-arg=-Wl,--compress-debug-sections=zlib",
            Self::V0Names => "-O -C debuginfo=1 -C symbol-mangling-version=v0",
            Self::Apart => {
                "-O -C debuginfo=1 -C relocation-model=static -C link-arg=-Wl,--section-start=.text=0x10000000"
            }
            Self::Static => "-O -C debuginfo=1 -C target-feature=+crt-static -C relocation-model=static",
            Self::StaticPie => "-O -C debuginfo=1 -C target-feature=+crt-static -C relocation-model=pie",
            Self::Musl => "-O -C debuginfo=1 --target x86_64-unknown-linux-musl",
        }
    }

    /// Arguments for the C compiler, separated by spaces.
    pub(crate) fn cc_arguments(self) -> &'static str {
        match self {
            Self::Release | Self::PanicAbort | Self::V0Names | Self::DebugLink => {
                "-O2 -g -fomit-frame-pointer"
            }
            Self::Debug => "-O0 -g",
            Self::NoDebugInfo => "-O2 -g0",
            Self::Stripped => "-O2 -g0 -s",
            Self::FramePointers => {
                "-O2 -g -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -fno-shrink-wrap -fno-unwind-tables -fno-asynchronous-unwind-tables"
            }
            Self::DebugFrame => {
                "-O2 -g -fomit-frame-pointer -fno-unwind-tables -fno-asynchronous-unwind-tables"
            }
            Self::LineTablesOnly => "-O2 -g1",
            // GNU dwp cannot pack DWARF version 5.
            Self::SplitPacked => "-O2 -gdwarf-4 -gsplit-dwarf",
            Self::SplitUnpacked => "-O2 -g -gsplit-dwarf",
            Self::Dwarf4 => "-O2 -gdwarf-4",
            Self::Dwarf5 => "-O2 -gdwarf-5",
            Self::CompressedDebugInfo => "-O2 -g -gz=zlib",
            Self::Apart => "-O2 -g -fomit-frame-pointer -no-pie -Wl,--section-start=.text=0x10000000",
            Self::Static => "-O2 -g -static -no-pie",
            Self::StaticPie => "-O2 -g -static-pie",
            Self::Musl => "-O2 -g -static",
        }
    }
}
