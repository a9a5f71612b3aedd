//! All texts of a profile, each stored once.

use crate::ids::StringId;

/// An append-only list of texts. The [`crate::Builder`] does the interning.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Strings {
    bytes: String,
    ends: Vec<u32>,
}

impl Strings {
    /// Adds a text without searching for an equal one.
    pub fn push(&mut self, text: &str) -> StringId {
        let id = StringId::from(self.ends.len());
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len() as u32);
        id
    }

    /// The text with this id; empty for an id that does not exist.
    pub fn get(&self, id: StringId) -> &str {
        let index = id.index();
        let Some(&end) = self.ends.get(index) else { return "" };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of bytes held.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// All texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> + '_ {
        (0..self.len()).map(|index| self.get(StringId::from(index)))
    }
}
