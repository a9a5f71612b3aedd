//! Symbolises addresses of one file and prints how long it took: `lookup FILE COUNT` or `lookup FILE
//! 0xADDRESS…`.

use std::path::PathBuf;
use std::time::Instant;

use object::{Object, ObjectSection, SectionKind};
use whyslow_profile::{
    LocationId, Module, ModuleId, ModuleKind, Optimised, Profile, RelativeAddress, SymbolState,
};
use whyslow_symbols::{Options, symbolize};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, rest @ ..] = arguments.as_slice() else {
        return Err("usage: lookup FILE COUNT|0xADDRESS…".into());
    };
    let mut addresses = Vec::new();
    for text in rest {
        match text.strip_prefix("0x") {
            Some(digits) => addresses.push(u64::from_str_radix(digits, 16)?),
            None => addresses.extend(spread(file, text.parse()?)?),
        }
    }
    let mut profile = Profile::default();
    let path = profile.strings.push(file);
    profile.modules.push(Module {
        path,
        build_id: None,
        kind: ModuleKind::Program,
        symbols: SymbolState::NotLoaded,
        optimised: Optimised::Unknown,
    });
    for &address in &addresses {
        profile.locations.push(Some(ModuleId(0)), RelativeAddress(address));
    }
    let cache = std::env::var_os("WHYSLOW_EXAMPLE_CACHE").map(PathBuf::from);
    let options = Options { cache, ..Options::default() };
    let start = Instant::now();
    let summary = symbolize(&mut profile, &options);
    let took = start.elapsed();
    if addresses.len() <= 20 {
        for (index, address) in addresses.iter().enumerate() {
            println!("{address:#x}");
            for frame in profile.frames.of(LocationId::from(index + 1)) {
                let function = &profile.functions[frame.function.index()];
                println!(
                    "  {} [{}] {}:{} (defined {}:{}, crate {})",
                    profile.text(function.name),
                    function.kind.label(),
                    frame.file.map_or("?", |file| profile.text(file)),
                    frame.line,
                    function.file.map_or("?", |file| profile.text(file)),
                    function.line,
                    function.crate_name.map_or("?", |name| profile.text(name)),
                );
            }
        }
    }
    let module = &profile.modules[0];
    println!(
        "{took:?}: {} frames, {} functions, {} / {}, {summary:?}",
        profile.frames.len(),
        profile.functions.len(),
        module.symbols.label(),
        module.optimised.label()
    );
    Ok(())
}

/// Addresses spread evenly over the file's code.
fn spread(file: &str, count: u64) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let bytes = std::fs::read(file)?;
    let elf = object::File::parse(&*bytes)?;
    let code =
        elf.sections().filter(|section| section.kind() == SectionKind::Text).max_by_key(ObjectSection::size);
    let code = code.ok_or("no code")?;
    Ok((0..count).map(|index| code.address() + index * code.size() / count).collect())
}
