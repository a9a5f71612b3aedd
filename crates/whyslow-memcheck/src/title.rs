//! A report's kind and sentence: memcheck's English, read back into numbers where its form is known. A form that is
//! not known, as newer versions may bring, keeps memcheck's words.

use crate::address::{Address, Relation, bytes};
use crate::kind::Kind;
use crate::report::{Frame, Report};

/// What a report says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Title {
    pub kind: Kind,
    pub text: String,
    /// How many bytes were accessed.
    pub size: Option<u64>,
    /// What the address is.
    pub address: Option<Address>,
}

/// Reads a report.
pub(crate) fn title(report: &Report) -> Title {
    let address = report.notes.iter().find_map(|note| Address::parse(&note.text));
    let size = report.what.rsplit_once(" of size ").and_then(|(_, size)| size.replace(',', "").parse().ok());
    let (kind, text) = kind_and_text(report, size, address.as_ref());
    Title { kind, text, size, address }
}

fn kind_and_text(report: &Report, size: Option<u64>, address: Option<&Address>) -> (Kind, String) {
    let own = || report.what.clone();
    match report.kind.as_str() {
        "InvalidRead" => access("read", Kind::InvalidRead, size, address),
        "InvalidWrite" => access("write", Kind::InvalidWrite, size, address),
        "InvalidJump" => (Kind::InvalidJump, jump(address)),
        "UninitCondition" => (Kind::Uninitialised, "a decision depends on uninitialised memory".to_owned()),
        "UninitValue" => {
            let what = size.map_or("a value".to_owned(), bytes);
            (Kind::Uninitialised, format!("{what} of uninitialised memory used as an address or an operand"))
        }
        "SyscallParam" => (Kind::SyscallArgument, syscall(&report.what, address)),
        "ClientCheck" => (Kind::Uninitialised, own()),
        "InvalidFree" => free(address),
        "MismatchedFree" => (Kind::MismatchedFree, mismatched(report, address)),
        "Overlap" => (Kind::Overlap, overlap(&report.what)),
        "FishyValue" => (Kind::BadSize, fishy(&report.what)),
        "ReallocSizeZero" => {
            (Kind::BadSize, "realloc to 0 bytes: what it does depends on the C library".to_owned())
        }
        "Leak_DefinitelyLost" => (Kind::LeakDefinite, String::new()),
        "Leak_IndirectlyLost" => (Kind::LeakIndirect, String::new()),
        "Leak_PossiblyLost" => (Kind::LeakPossible, String::new()),
        "Leak_StillReachable" => (Kind::LeakReachable, String::new()),
        "FdNotClosed" => {
            let (number, path) = report.descriptor.clone().unwrap_or_default();
            (Kind::DescriptorOpen, open_descriptor(number, &path))
        }
        "FdBadClose" | "FdBadUse" => (Kind::DescriptorMisuse, lower(&report.what)),
        kind if BAD_SIZES.contains(&kind) => (Kind::BadSize, lower(&report.what)),
        kind if MISMATCHES.contains(&kind) => (Kind::MismatchedFree, lower(&report.what)),
        _ => (Kind::Other, own()),
    }
}

/// Kinds of newer versions.
const BAD_SIZES: [&str; 4] = ["BadAlign", "BadSize", "InvalidSizeAndAlignment", "ReallocSizeZero"];
const MISMATCHES: [&str; 3] =
    ["MismatchedAllocateDeallocateSize", "MismatchedAllocateDeallocateAlignment", "MismatchedFreeSize"];

/// `descriptor 5 open at exit: /dev/null`
pub(crate) fn open_descriptor(number: u64, what: &str) -> String {
    let what = if what.is_empty() { String::new() } else { format!(": {what}") };
    format!("descriptor {number} is open at exit{what}")
}

fn access(word: &str, kind: Kind, size: Option<u64>, address: Option<&Address>) -> (Kind, String) {
    let what = size.map_or(word.to_owned(), |size| format!("{word} of {}", bytes(size)));
    let kind = match address {
        Some(Address::Block(block)) if block.is_freed && block.relation == Relation::Inside => {
            Kind::UseAfterFree
        }
        _ => kind,
    };
    (kind, located(&what, address))
}

fn jump(address: Option<&Address>) -> String {
    match address {
        Some(Address::Null(0)) => "call of a null function pointer".to_owned(),
        Some(Address::Null(to) | Address::Unknown(to)) => format!("jump to {to:#x}, which is not code"),
        Some(Address::Block(block)) => format!("jump to an address that is not code, {block}"),
        _ => "jump to an address that is not code".to_owned(),
    }
}

fn located(what: &str, address: Option<&Address>) -> String {
    let comma = if matches!(address, Some(Address::Block(_))) { "," } else { "" };
    address.map_or(what.to_owned(), |address| format!("{what}{comma} {address}"))
}

/// `Syscall param write(buf) points to uninitialised byte(s)`
fn syscall(what: &str, address: Option<&Address>) -> String {
    let known = what.strip_prefix("Syscall param ").and_then(|rest| {
        let (argument, how) = rest.split_once(") ")?;
        let how = match how {
            "points to uninitialised byte(s)" => "points to uninitialised bytes",
            "points to unaddressable byte(s)" => "points to memory that is not allocated",
            "contains uninitialised byte(s)" => "is uninitialised",
            other => other,
        };
        Some(format!("system call argument {argument}) {how}"))
    });
    located(known.as_deref().unwrap_or(what), address)
}

fn free(address: Option<&Address>) -> (Kind, String) {
    match address {
        Some(Address::Block(block))
            if block.is_freed && block.relation == Relation::Inside && block.distance == 0 =>
        {
            (Kind::DoubleFree, format!("second free of a block of {}", bytes(block.size)))
        }
        Some(Address::Block(block)) => (Kind::InvalidFree, format!("free of an address {block}")),
        Some(Address::Other(words)) => (Kind::InvalidFree, format!("free of an address that is {words}")),
        Some(address) => (Kind::InvalidFree, format!("free of an address {address}")),
        None => (Kind::InvalidFree, "free of an address that is not a block".to_owned()),
    }
}

/// The functions are the innermost frames: Valgrind's own `free`, and in the stack of the block its `operator new`.
fn mismatched(report: &Report, address: Option<&Address>) -> String {
    let function = |stack: &[Frame]| stack.first().map(|frame| without_arguments(&frame.function).to_owned());
    let freed_by = function(&report.stack);
    let made_by = report.notes.iter().find_map(|note| function(&note.stack));
    let size = match address {
        Some(Address::Block(block)) => format!(" of {}", bytes(block.size)),
        _ => String::new(),
    };
    match (made_by, freed_by) {
        (Some(made), Some(freed)) if !made.is_empty() && !freed.is_empty() => {
            format!("block{size} from {made} is freed by {freed}")
        }
        _ => format!("block{size} is freed by another function than the one for its allocation"),
    }
}

/// `operator new[](unsigned long)` without the arguments.
fn without_arguments(function: &str) -> &str {
    function.split('(').next().unwrap_or(function)
}

/// `Source and destination overlap in memcpy(0x1ff, 0x1fe, 10)`
fn overlap(what: &str) -> String {
    let call = what.strip_prefix("Source and destination overlap in ");
    let Some((function, arguments)) = call.and_then(|call| call.split_once('(')) else { return lower(what) };
    let arguments: Vec<&str> = arguments.trim_end_matches(')').split(',').map(str::trim).collect();
    // strcpy and the like have no length.
    let length = arguments.get(2).and_then(|length| length.parse().ok());
    let length = length.map_or(String::new(), |length| format!(" of {}", bytes(length)));
    let distance =
        match arguments.get(..2).map(|two| [crate::xml::number(two[0]), crate::xml::number(two[1])]) {
            Some([Some(to), Some(from)]) if to != from => format!(", {} apart", bytes(to.abs_diff(from))),
            Some([Some(_), Some(_)]) => ", which are the same".to_owned(),
            _ => String::new(),
        };
    format!("{function}{length}: source and destination overlap{distance}")
}

/// `Argument 'size' of function malloc has a fishy (possibly negative) value: -3`
fn fishy(what: &str) -> String {
    let known = what.strip_prefix("Argument '").and_then(|rest| {
        let (argument, rest) = rest.split_once("' of function ")?;
        let (function, value) = rest.split_once(" has a fishy (possibly negative) value: ")?;
        Some(format!("{function} is asked for {argument} {value}"))
    });
    known.map_or_else(|| lower(what), |text| format!("{text}: a negative number?"))
}

/// With a small first letter, as in the other sentences.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Note;

    fn shown(kind: &str, what: &str, note: &str) -> (Kind, String) {
        let notes = if note.is_empty() {
            Vec::new()
        } else {
            vec![Note { text: note.to_owned(), stack: vec![frame("operator new[](unsigned long)")] }]
        };
        let title = title(&Report {
            kind: kind.to_owned(),
            what: what.to_owned(),
            notes,
            stack: vec![frame("free")],
            ..Report::default()
        });
        (title.kind, title.text)
    }

    fn frame(function: &str) -> Frame {
        Frame { function: function.to_owned(), ..Frame::default() }
    }

    #[test]
    fn memchecks_words_become_sentences() {
        const IN_FREED: &str = "Address 0x4a is 0 bytes inside a block of size 40 free'd";
        const AFTER: &str = "Address 0x4a is 8 bytes after a block of size 40 alloc'd";
        const NOWHERE: &str = "Address 0x0 is not stack'd, malloc'd or (recently) free'd";
        for (kind, what, note, id, text) in [
            (
                "InvalidRead",
                "Invalid read of size 4",
                AFTER,
                Kind::InvalidRead,
                "read of 4 bytes, 8 bytes after a block of 40 bytes",
            ),
            (
                "InvalidWrite",
                "Invalid write of size 1",
                NOWHERE,
                Kind::InvalidWrite,
                "write of 1 byte through a null pointer",
            ),
            (
                "InvalidRead",
                "Invalid read of size 4",
                IN_FREED,
                Kind::UseAfterFree,
                "read of 4 bytes, at the start of a freed block of 40 bytes",
            ),
            (
                "InvalidJump",
                "Jump to the invalid address stated on the next line",
                NOWHERE,
                Kind::InvalidJump,
                "call of a null function pointer",
            ),
            (
                "UninitValue",
                "Use of uninitialised value of size 8",
                "",
                Kind::Uninitialised,
                "8 bytes of uninitialised memory used as an address or an operand",
            ),
            (
                "SyscallParam",
                "Syscall param write(buf) points to uninitialised byte(s)",
                "",
                Kind::SyscallArgument,
                "system call argument write(buf) points to uninitialised bytes",
            ),
            (
                "InvalidFree",
                "Invalid free() / delete / delete[] / realloc()",
                IN_FREED,
                Kind::DoubleFree,
                "second free of a block of 40 bytes",
            ),
            (
                "InvalidFree",
                "Invalid free() / delete / delete[] / realloc()",
                "Address 0x1 is on thread 1's stack",
                Kind::InvalidFree,
                "free of an address that is on thread 1's stack",
            ),
            (
                "MismatchedFree",
                "Mismatched free() / delete / delete []",
                "Address 0x4a is 0 bytes inside a block of size 40 alloc'd",
                Kind::MismatchedFree,
                "block of 40 bytes from operator new[] is freed by free",
            ),
            (
                "Overlap",
                "Source and destination overlap in memcpy(0x1ff01, 0x1ff00, 10)",
                "",
                Kind::Overlap,
                "memcpy of 10 bytes: source and destination overlap, 1 byte apart",
            ),
            (
                "Overlap",
                "Source and destination overlap in strcpy(0x1ff01, 0x1ff00)",
                "",
                Kind::Overlap,
                "strcpy: source and destination overlap, 1 byte apart",
            ),
            (
                "FishyValue",
                "Argument 'size' of function malloc has a fishy (possibly negative) value: -3",
                "",
                Kind::BadSize,
                "malloc is asked for size -3: a negative number?",
            ),
            ("NewKind", "Something new", "", Kind::Other, "Something new"),
        ] {
            assert_eq!(shown(kind, what, note), (id, text.to_owned()), "{what}");
        }
    }
}
