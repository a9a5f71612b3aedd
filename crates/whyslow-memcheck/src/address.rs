//! memcheck's words about an address, as numbers: `Address 0x4a40070 is 8 bytes after a block of size 40 alloc'd`.

use std::fmt;

use whyslow_words::number_of;

use crate::xml;

/// What an address is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// In or near a block of the heap.
    Block(Block),
    /// Below this, nothing is ever mapped: a null pointer, or a field of what it points to.
    Null(u64),
    /// No memory that the program has.
    Unknown(u64),
    /// Anything else, in memcheck's words after `is`.
    Other(String),
}

/// A block of the heap, and where the address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its bytes.
    pub size: u64,
    /// The address' distance: from its start if inside or before, from its end if after.
    pub distance: u64,
    /// Where the address is.
    pub relation: Relation,
    /// Whether it was freed before.
    pub is_freed: bool,
}

/// Where an address is, seen from a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `before`
    Before,
    /// `inside`
    Inside,
    /// `after`
    After,
}

impl Relation {
    /// memcheck's word, also in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Inside => "inside",
            Self::After => "after",
        }
    }
}

impl Address {
    /// Addresses below this are never mapped.
    const NULL_PAGE: u64 = 4096;

    /// Parses memcheck's words; `None` if they are not about an address.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("Address ").or_else(|| text.strip_prefix("Location "))?;
        let (address, is) = rest.split_once(" is ")?;
        let address = xml::number(&address.to_ascii_lowercase())?;
        if let Some(block) = Block::parse(is) {
            return Some(Self::Block(block));
        }
        if is.starts_with("not stack'd") {
            return Some(if address < Self::NULL_PAGE {
                Self::Null(address)
            } else {
                Self::Unknown(address)
            });
        }
        Some(Self::Other(is.trim().to_owned()))
    }
}

impl Block {
    /// `8 bytes after a block of size 40 alloc'd`, `4 bytes inside a recently re-allocated block of size 40 alloc'd`
    fn parse(text: &str) -> Option<Self> {
        let (distance, rest) = text.split_once(" bytes ")?;
        let distance = distance.replace(',', "").parse().ok()?;
        let (word, rest) = rest.split_once(' ')?;
        let relation = match word {
            "before" => Relation::Before,
            "inside" => Relation::Inside,
            "after" => Relation::After,
            _ => return None,
        };
        let (_, rest) = rest.split_once("block of size ")?;
        let (size, state) = rest.split_once(' ').unwrap_or((rest, ""));
        let size = size.replace(',', "").parse().ok()?;
        Some(Self { size, distance, relation, is_freed: state.contains("free'd") })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) => block.fmt(f),
            Self::Null(0) => f.write_str("through a null pointer"),
            Self::Null(address) => write!(f, "at address {address:#x}: a null pointer and an offset"),
            Self::Unknown(address) => write!(f, "at {address:#x}, which is not allocated"),
            Self::Other(words) => write!(f, "at an address that is {words}"),
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.is_freed { "a freed block of" } else { "a block of" };
        let size = bytes(self.size);
        let distance = bytes(self.distance);
        match (self.relation, self.distance) {
            (Relation::Before, _) => write!(f, "{distance} before {of} {size}"),
            (Relation::After, 0) => write!(f, "just after {of} {size}"),
            (Relation::After, _) => write!(f, "{distance} after {of} {size}"),
            (Relation::Inside, 0) => write!(f, "at the start of {of} {size}"),
            (Relation::Inside, _) => write!(f, "{distance} into {of} {size}"),
        }
    }
}

/// `1 byte`, `40 bytes`: memory errors are exact, so sizes are not rounded.
pub(crate) fn bytes(count: u64) -> String {
    number_of(count, "byte", "bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_addresses_become_numbers() {
        for (words, shown) in [
            (
                "Address 0x4a40070 is 8 bytes after a block of size 40 alloc'd",
                "8 bytes after a block of 40 bytes",
            ),
            ("Address 0x4a40070 is 0 bytes after a block of size 1 alloc'd", "just after a block of 1 byte"),
            (
                "Address 0x4A40070 is 1 bytes before a block of size 1,048,576 alloc'd",
                "1 byte before a block of 1,048,576 bytes",
            ),
            (
                "Address 0x1 is 4 bytes inside a block of size 40 free'd",
                "4 bytes into a freed block of 40 bytes",
            ),
            (
                "Address 0x1 is 0 bytes inside a recently re-allocated block of size 8 alloc'd",
                "at the start of a block of 8 bytes",
            ),
            ("Address 0x0 is not stack'd, malloc'd or (recently) free'd", "through a null pointer"),
            (
                "Address 0x10 is not stack'd, malloc'd or (recently) free'd",
                "at address 0x10: a null pointer and an offset",
            ),
            (
                "Address 0x4242000 is not stack'd, malloc'd or (recently) free'd",
                "at 0x4242000, which is not allocated",
            ),
            ("Address 0x1ffefff is on thread 1's stack", "at an address that is on thread 1's stack"),
            (
                "Address 0x1 is 99999999999999999999 bytes after a block of size 4 alloc'd",
                "at an address that is 99999999999999999999 bytes after a block of size 4 alloc'd",
            ),
        ] {
            assert_eq!(
                Address::parse(words).map(|address| address.to_string()).as_deref(),
                Some(shown),
                "{words}"
            );
        }
        assert_eq!(Address::parse("Block was alloc'd at"), None);
        assert_eq!(Address::parse("Address 0xzz is new"), None);
    }
}
