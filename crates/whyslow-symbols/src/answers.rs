//! Symbols of a module's addresses, on their way into a profile or the cache.
//!
//! ```text
//! site     = address, extent of the code around it, frames (outermost first)
//! frame    = function, file, line
//! function = raw name, file, line of the definition
//! ```

use rustc_hash::FxHashMap;
use whyslow_numbers::{FileAddress, ImageBase, RelativeAddress};
use whyslow_profile::AsyncForm;

/// A row of [`Answers::texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TextId(pub u32);

/// A function as the symbol files name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RawFunction {
    /// The linkage name, or the plain one if there is no other.
    pub name: TextId,
    /// The file of its definition.
    pub file: Option<TextId>,
    /// The line of its definition, 0 if unknown.
    pub line: u32,
    /// The kind of async code it is the state machine of, if debug info says so.
    pub form: Option<AsyncForm>,
}

/// One frame of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawFrame {
    /// A row of [`Answers::functions`].
    pub function: u32,
    /// The file of the line.
    pub file: Option<TextId>,
    /// The line, 0 if unknown.
    pub line: u32,
}

/// One address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site<Address> {
    pub address: Address,
    /// Start and end of the contiguous code of its function; equal if unknown.
    pub extent: (Address, Address),
    /// First and last-but-one row of [`Answers::frames`].
    pub frames: (u32, u32),
}

/// The symbols of a set of addresses of one module: the file's own while its debug info is read, relative ones for all
/// others.
#[derive(Debug, Default, Clone)]
pub(crate) struct Answers<Address = RelativeAddress> {
    texts: Vec<Box<str>>,
    text_ids: FxHashMap<Box<str>, TextId>,
    functions: Vec<RawFunction>,
    function_ids: FxHashMap<RawFunction, u32>,
    frames: Vec<RawFrame>,
    sites: Vec<Site<Address>>,
}

impl<Address: Copy> Answers<Address> {
    /// The id of a text, which is added if new.
    pub(crate) fn text_id(&mut self, text: &str) -> TextId {
        if let Some(&id) = self.text_ids.get(text) {
            return id;
        }
        let id = TextId(self.texts.len() as u32);
        self.texts.push(text.into());
        self.text_ids.insert(text.into(), id);
        id
    }

    /// The text with an id.
    pub(crate) fn text(&self, id: TextId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// The id of a function, which is added if new.
    pub(crate) fn function_id(&mut self, function: RawFunction) -> u32 {
        *self.function_ids.entry(function).or_insert_with(|| {
            self.functions.push(function);
            self.functions.len() as u32 - 1
        })
    }

    /// Adds the frames of an address, outermost first.
    pub(crate) fn add(&mut self, address: Address, extent: (Address, Address), frames: &[RawFrame]) {
        let start = self.frames.len() as u32;
        self.frames.extend_from_slice(frames);
        self.sites.push(Site { address, extent, frames: (start, start + frames.len() as u32) });
    }

    /// Every function.
    pub(crate) fn functions(&self) -> &[RawFunction] {
        &self.functions
    }

    /// Every text, in order of its id.
    pub(crate) fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    /// Every address, in the order of addition.
    pub(crate) fn sites(&self) -> &[Site<Address>] {
        &self.sites
    }

    /// The frames of a site, outermost first.
    pub(crate) fn frames_of(&self, site: &Site<Address>) -> &[RawFrame] {
        self.frames.get(site.frames.0 as usize..site.frames.1 as usize).unwrap_or(&[])
    }

    /// Adds those sites of another table for which `keep` is true.
    pub(crate) fn absorb(&mut self, other: &Self, mut keep: impl FnMut(&Site<Address>) -> bool) {
        let mut texts: Vec<Option<TextId>> = vec![None; other.texts.len()];
        let mut functions: Vec<Option<u32>> = vec![None; other.functions.len()];
        let mut frames = Vec::new();
        for site in other.sites() {
            if !keep(site) {
                continue;
            }
            frames.clear();
            for frame in other.frames_of(site) {
                let Some(raw) = other.functions.get(frame.function as usize) else { continue };
                let function = match functions[frame.function as usize] {
                    Some(id) => id,
                    None => {
                        let name = self.translate(other, &mut texts, raw.name);
                        let file = raw.file.map(|file| self.translate(other, &mut texts, file));
                        let id = self.function_id(RawFunction { name, file, line: raw.line, form: raw.form });
                        functions[frame.function as usize] = Some(id);
                        id
                    }
                };
                let file = frame.file.map(|file| self.translate(other, &mut texts, file));
                frames.push(RawFrame { function, file, line: frame.line });
            }
            self.add(site.address, site.extent, &frames);
        }
    }

    fn translate(&mut self, other: &Self, known: &mut [Option<TextId>], id: TextId) -> TextId {
        if let Some(Some(mine)) = known.get(id.0 as usize) {
            return *mine;
        }
        let mine = self.text_id(other.text(id));
        if let Some(slot) = known.get_mut(id.0 as usize) {
            *slot = Some(mine);
        }
        mine
    }
}

impl Answers<FileAddress> {
    /// The same with relative addresses.
    pub(crate) fn relative_to(self, base: ImageBase) -> Answers {
        let Self { texts, text_ids, functions, function_ids, frames, sites } = self;
        let relative = |Site { address, extent, frames }| Site {
            address: base.relative_or_zero(address),
            extent: (base.relative_or_zero(extent.0), base.relative_or_zero(extent.1)),
            frames,
        };
        let sites = sites.into_iter().map(relative).collect();
        Answers { texts, text_ids, functions, function_ids, frames, sites }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absorbing_keeps_meaning_and_shares_rows() {
        let mut a = Answers::default();
        let mut b = Answers::default();
        for table in [&mut a, &mut b] {
            let pad = table.sites().len() as u32;
            let name = table.text_id("f");
            let file = table.text_id("f.rs");
            let function = table.function_id(RawFunction { name, file: Some(file), line: 3, form: None });
            table.add(16 + u64::from(pad), (16, 32), &[RawFrame { function, file: Some(file), line: 4 }]);
        }
        let before = a.functions().len();
        a.absorb(&b, |_| true);
        assert_eq!(a.functions().len(), before);
        assert_eq!(a.sites().len(), 2);
        assert_eq!(a.frames_of(&a.sites()[0]), a.frames_of(&a.sites()[1]));
    }
}
