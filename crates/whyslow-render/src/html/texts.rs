//! The texts that a payload refers to, numbered in the order of first use.

use rustc_hash::FxHashMap;
use whyslow_profile::{StringId, Strings};

use super::container::NONE;

/// Collects texts: those of the profile that the payload refers to, and new ones.
pub(super) struct Texts<'p> {
    strings: &'p Strings,
    /// The number of each text of the profile, once it has one.
    numbers: Vec<u32>,
    made: FxHashMap<String, u32>,
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl<'p> Texts<'p> {
    pub(super) fn new(strings: &'p Strings) -> Self {
        Self {
            strings,
            numbers: vec![NONE; strings.len()],
            made: FxHashMap::default(),
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// The number of a text of the profile.
    pub(super) fn of(&mut self, id: StringId) -> u32 {
        match self.numbers.get(id.index()) {
            Some(&NONE) => {
                let number = self.push(self.strings.get(id));
                self.numbers[id.index()] = number;
                number
            }
            Some(&number) => number,
            None => self.add(String::new()),
        }
    }

    /// The number of a text of the profile, or none.
    pub(super) fn maybe(&mut self, id: Option<StringId>) -> u32 {
        id.map_or(NONE, |id| self.of(id))
    }

    /// The number of a new text.
    pub(super) fn add(&mut self, text: String) -> u32 {
        if let Some(&number) = self.made.get(&text) {
            return number;
        }
        let number = self.push(&text);
        self.made.insert(text, number);
        number
    }

    fn push(&mut self, text: &str) -> u32 {
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len() as u32);
        number
    }

    /// All bytes, and the end of each text in them.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u32>) {
        (self.bytes, self.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_use_are_kept_once_each() {
        let mut strings = Strings::default();
        let [_, used] = ["unused", "used"].map(|text| strings.push(text));
        let mut texts = Texts::new(&strings);
        assert_eq!([texts.of(used), texts.add("ret".to_owned()), texts.of(used)], [0, 1, 0]);
        assert_eq!([texts.add("ret".to_owned()), texts.maybe(None), texts.of(StringId(99))], [1, NONE, 2]);
        assert_eq!(texts.finish(), (b"usedret".to_vec(), vec![4, 7, 7]));
    }
}
