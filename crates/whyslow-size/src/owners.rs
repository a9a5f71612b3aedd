//! What bytes can belong to, each once.

use rustc_hash::FxHashMap;

/// A row of [`Owners`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(pub u32);

/// What a range of bytes belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner<'a> {
    /// A function or variable, with the name that the linker knows, and its address: several can have one name.
    Symbol(&'a str, u64),
    /// A function without a name, at this address.
    Unnamed(u64),
    /// Nothing that has a name. The words say what it is; without words, the section does.
    Nobody(&'static str),
}

/// All owners.
#[derive(Debug, Default)]
pub(crate) struct Owners<'a> {
    rows: Vec<Owner<'a>>,
    numbers: FxHashMap<Owner<'a>, OwnerId>,
}

impl<'a> Owners<'a> {
    pub(crate) fn id(&mut self, owner: Owner<'a>) -> OwnerId {
        *self.numbers.entry(owner).or_insert_with(|| {
            self.rows.push(owner);
            OwnerId(self.rows.len() as u32 - 1)
        })
    }

    pub(crate) fn rows(&self) -> &[Owner<'a>] {
        &self.rows
    }
}
