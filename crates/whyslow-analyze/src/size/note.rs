//! What to do about the size of a file.

use whyslow_profile::CodeKind;
use whyslow_profile::size::Part;
use whyslow_words::{About, Fact, Percent, Remark, bytes};

use super::{Alike, FunctionSize, Grouping, Purpose, Sizes};

/// Something to know or do about a file's size.
#[derive(Debug, Clone, PartialEq)]
pub enum SizeNote {
    /// Much of the file is debug information.
    Debug {
        /// Its bytes.
        bytes: u64,
        /// Its share of the file.
        share: f64,
        /// Whether the program is written in Rust.
        is_rust: bool,
    },
    /// The symbol table is a large part of the file.
    Symbols {
        /// Its bytes.
        bytes: u64,
        /// Its share of the file.
        share: f64,
        /// Whether the program is written in Rust.
        is_rust: bool,
    },
    /// A generic function has many instances.
    Instances {
        /// Its name.
        name: String,
        /// How many.
        instances: u64,
        /// The bytes of all of them.
        bytes: u64,
    },
    /// Functions with the same machine code.
    Alike {
        /// The bytes that one copy of each would save.
        wasted: u64,
        /// The name of the one that wastes most.
        name: String,
    },
    /// Panics and formatting take much of a Rust program's code.
    PanicsAndFormatting {
        /// Their bytes.
        bytes: u64,
        /// Their share of the file without debug information and symbols.
        share: f64,
    },
    /// Debug information and symbols are those of whyslow's build, not of the user's.
    Built,
    /// Functions have no names.
    Stripped,
    /// Bytes behind the last section.
    Undescribed {
        /// How many.
        bytes: u64,
    },
}

impl SizeNote {
    /// The ids of all facts.
    pub const IDS: &'static [&'static str] = &[
        "size-debug-info",
        "size-symbols",
        "size-instances",
        "size-alike",
        "size-panics",
        "size-built",
        "size-stripped",
        "size-undescribed",
    ];

    /// The ids of what depends on how the program was built.
    pub const OF_BUILD: &'static [&'static str] = &["size-debug-info", "size-symbols"];

    /// What is worth saying about a file, most bytes first.
    pub fn of(sizes: &Sizes, alike: &[Alike], has_names: bool) -> Vec<Self> {
        const LARGE: f64 = 0.1;
        let share = |bytes: u64| bytes as f64 / sizes.total.max(1) as f64;
        let (debug, symbols) = (sizes.part(Part::Debug), sizes.part(Part::Symbols));
        let is_rust = sizes.groups_are() == Grouping::Crates;
        let mut notes = Vec::new();
        if share(debug) >= LARGE {
            notes.push(Self::Debug { bytes: debug, share: share(debug), is_rust });
        }
        if share(symbols) >= LARGE {
            notes.push(Self::Symbols { bytes: symbols, share: share(symbols), is_rust });
        }
        let loaded = sizes.total.saturating_sub(debug + symbols);
        let of_loaded = |bytes: u64| bytes as f64 / loaded.max(1) as f64;
        // Nobody can change the standard library.
        let is_generic =
            |row: &&FunctionSize| row.is_function && row.instances >= 4 && row.kind != CodeKind::Std;
        let largest = sizes.functions.iter().find(is_generic);
        if let Some(row) = largest.filter(|row| of_loaded(row.bytes.total()) >= 0.005) {
            notes.push(Self::Instances {
                name: row.name.clone(),
                instances: row.instances,
                bytes: row.bytes.total(),
            });
        }
        let wasted: u64 = alike.iter().map(Alike::wasted).sum();
        if let Some(first) = alike.first().filter(|_| of_loaded(wasted) >= 0.005) {
            notes.push(Self::Alike { wasted, name: first.names.first().cloned().unwrap_or_default() });
        }
        let of = |wanted: Purpose| {
            sizes.purposes.iter().find(|(purpose, _)| *purpose == wanted).map_or(0, |(_, bytes)| *bytes)
        };
        let for_panics = of(Purpose::Panics) + of(Purpose::Formatting);
        if is_rust && of_loaded(for_panics) >= 0.05 {
            notes.push(Self::PanicsAndFormatting { bytes: for_panics, share: of_loaded(for_panics) });
        }
        if !has_names && sizes.part(Part::Code) > 0 {
            notes.push(Self::Stripped);
        }
        if share(sizes.part(Part::Undescribed)) >= 0.01 {
            notes.push(Self::Undescribed { bytes: sizes.part(Part::Undescribed) });
        }
        notes
    }
}

impl Fact for SizeNote {
    fn remark(&self) -> Remark {
        let note = |id, text: String| Remark::note(id, About::Build, text);
        match self {
            Self::Debug { bytes: size, share, is_rust } => note(
                "size-debug-info",
                format!("debug information is {} of the file; the program does not need it to run", Percent(*share)),
            )
            .or(match is_rust {
                true => format!(
                    "strip = \"debuginfo\" or split-debuginfo = \"packed\" in [profile.release] removes {}",
                    bytes(*size)
                ),
                false => format!("strip --strip-debug FILE, or -gsplit-dwarf, removes {}", bytes(*size)),
            }),
            Self::Symbols { bytes: size, share, is_rust } => note(
                "size-symbols",
                format!(
                    "the symbol table is {} of the file; only profilers, debuggers and stack traces need it",
                    Percent(*share)
                ),
            )
            .or(match is_rust {
                true => format!("strip = true in [profile.release] removes {}", bytes(*size)),
                false => format!("strip FILE removes {}", bytes(*size)),
            }),
            Self::Instances { name, instances, bytes: size } => note(
                "size-instances",
                format!("{name}: {instances} instances of one function take {}", bytes(*size)),
            )
            .or("move what does not depend on its type parameters to a function without them"),
            Self::Alike { wasted, name } => note(
                "size-alike",
                format!(
                    "functions with the same machine code take {} more than one copy of each, such as {name}",
                    bytes(*wasted)
                ),
            )
            .or("link with identical code folding: -C link-arg=-fuse-ld=lld -C link-arg=-Wl,--icf=safe"),
            Self::PanicsAndFormatting { bytes: size, share } => note(
                "size-panics",
                format!(
                    "panics and formatting take {}, {} of what is loaded",
                    bytes(*size),
                    Percent(*share)
                ),
            )
            .or("panic = \"abort\" removes landing pads; fewer format!, {:?} and unwrap in generic code remove the rest"),
            Self::Built => note(
                "size-built",
                "line tables and symbols are those of this build; your release build may have neither".to_owned(),
            ),
            Self::Stripped => {
                note("size-stripped", "most functions have no names, so crates and functions cannot be told".to_owned())
                    .or("the file before it was stripped, or its debug file next to it")
            }
            Self::Undescribed { bytes: size } => note(
                "size-undescribed",
                format!("no header describes {} of the file: data appended after linking", bytes(*size)),
            ),
        }
    }
}
