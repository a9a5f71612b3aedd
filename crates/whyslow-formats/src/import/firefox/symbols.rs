//! The symbol file that samply writes next to a profile (`--unstable-presymbolicate`).

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use whyslow_profile::{Frame, LocationId, ModuleId};

use super::paths::plain_path;
use super::schema::Lib;
use crate::import::assemble::{Assembly, FunctionText};
use crate::import::json::{Index, Text};

/// Larger files are not from samply.
const MOST_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
struct Table<'a> {
    #[serde(borrow)]
    string_table: Vec<Text<'a>>,
    #[serde(borrow)]
    data: Vec<Library<'a>>,
}

#[derive(Deserialize)]
struct Library<'a> {
    #[serde(borrow)]
    debug_name: Text<'a>,
    #[serde(borrow)]
    debug_id: Text<'a>,
    #[serde(borrow)]
    code_id: Text<'a>,
    symbol_table: Vec<Symbol>,
    known_addresses: Vec<(u64, usize)>,
}

#[derive(Deserialize)]
struct Symbol {
    symbol: Index,
    /// Innermost first.
    frames: Option<Vec<Inlined>>,
}

#[derive(Deserialize)]
struct Inlined {
    function: Option<Index>,
    file: Option<Index>,
    line: Option<Index>,
}

/// The bytes of the symbol file next to a profile, if there is one.
pub(super) fn read_next_to(profile: &Path) -> Option<Vec<u8>> {
    let path = profile.with_extension("syms.json");
    let metadata = fs::metadata(&path).ok()?;
    (metadata.is_file() && metadata.len() <= MOST_BYTES).then(|| fs::read(&path).ok())?
}

/// Names by library and address.
pub(super) struct Sidecar<'a> {
    texts: Vec<Text<'a>>,
    libraries: Vec<Library<'a>>,
    /// The row of the table for each library of the profile.
    rows: Vec<Option<usize>>,
    addresses: Vec<FxHashMap<u64, usize>>,
}

/// The symbol of one address.
pub(super) struct Known<'s, 'a> {
    sidecar: &'s Sidecar<'a>,
    symbol: &'s Symbol,
}

impl<'a> Sidecar<'a> {
    /// Reads the table. A broken one is ignored.
    pub(super) fn parse(bytes: &'a [u8], libs: &[Lib<'_>]) -> Option<Self> {
        let table: Table<'a> = serde_json::from_slice(bytes).ok()?;
        let rows = libs.iter().map(|lib| table.data.iter().position(|known| is_same(lib, known))).collect();
        let addresses =
            table.data.iter().map(|library| library.known_addresses.iter().copied().collect()).collect();
        Some(Self { texts: table.string_table, libraries: table.data, rows, addresses })
    }

    /// The symbol of an address in a library of the profile.
    pub(super) fn find(&self, lib: usize, address: u64) -> Option<Known<'_, 'a>> {
        let library = (*self.rows.get(lib)?)?;
        let symbol = *self.addresses[library].get(&address)?;
        Some(Known { sidecar: self, symbol: self.libraries[library].symbol_table.get(symbol)? })
    }

    fn text(&self, index: Option<Index>) -> Option<&str> {
        index?.of(&self.texts).map(Text::as_str)
    }
}

impl Known<'_, '_> {
    /// The location with its frames.
    pub(super) fn location(&self, assembly: &mut Assembly, module: ModuleId, address: u64) -> LocationId {
        let symbol = self.sidecar.text(Some(self.symbol.symbol)).unwrap_or("");
        let mut frames = Vec::new();
        for inlined in self.symbol.frames.iter().flatten().rev() {
            let name = self.sidecar.text(inlined.function).unwrap_or(symbol);
            let file = self.sidecar.text(inlined.file).map(plain_path);
            frames.push(frame(assembly, name, file, inlined.line, module));
        }
        if frames.is_empty() {
            frames.push(frame(assembly, symbol, None, None, module));
        }
        assembly.location(Some(module), address, &frames)
    }
}

fn frame(
    assembly: &mut Assembly,
    name: &str,
    file: Option<Cow<'_, str>>,
    line: Option<Index>,
    module: ModuleId,
) -> Frame {
    let text = FunctionText { name, file: file.as_deref(), line: 0, module: Some(module) };
    let function = assembly.function(&text);
    let line = line.and_then(|line| line.0).unwrap_or(0);
    Frame { function, file: file.map(|file| assembly.text(&file)), line }
}

/// Whether the table's library is this one of the profile.
fn is_same(lib: &Lib<'_>, known: &Library<'_>) -> bool {
    let same =
        |a: &Option<Text<'_>>, b: &Text<'_>| a.as_ref().is_some_and(|a| !b.as_str().is_empty() && a == b);
    if same(&lib.code_id, &known.code_id) {
        return true;
    }
    // `E54D3AF2…0` against `e54d3af2-7438-3256-b9f6-144f83f3f751`.
    let digits = |id: &str| {
        id.chars()
            .filter(char::is_ascii_hexdigit)
            .map(|c| c.to_ascii_lowercase())
            .take(32)
            .collect::<String>()
    };
    let id = digits(known.debug_id.as_str());
    same(&lib.debug_name, &known.debug_name)
        && id.len() == 32
        && lib.breakpad_id.as_ref().is_some_and(|breakpad| digits(breakpad.as_str()) == id)
}
