//! Compiles small programs and asks about their addresses.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use whyslow_lab_harness::skip;
use whyslow_profile::{
    LocationId, Module, ModuleId, ModuleKind, Optimised, Profile, RelativeAddress, Samples, SymbolState,
    ThreadId,
};
use whyslow_symbols::{DebugFolders, Options};

/// A Rust program whose `outer` has `middle` inlined, which has `inner` inlined.
pub(crate) const RUST: &str = r#"#[inline(never)]
pub(crate) fn outer(data: &mut [u64]) -> u64 {
    let sum = middle(data); // line 3
    sum + data.len() as u64
}

#[inline(always)]
fn middle(data: &mut [u64]) -> u64 {
    inner(data) ^ 7 // line 9
}

#[inline(always)]
fn inner(data: &mut [u64]) -> u64 {
    let mut sum = 0_u64;
    let mut at = 0;
    while at < data.len() {
        data[at] = data[at].wrapping_mul(31).rotate_left(5); // line 17
        sum ^= data[at]; // line 18
        at += 1;
    }
    sum
}

fn main() {
    let mut data: Vec<u64> = std::env::args().map(|text| text.len() as u64).collect();
    println!("{}", outer(&mut data));
}
"#;

/// Runs a program that must succeed; `false` if it is not installed.
pub(crate) fn run(program: &str, folder: &Path, arguments: &[&str]) -> bool {
    match Command::new(program).args(arguments).current_dir(folder).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {said}");
            true
        }
        Err(_) => {
            skip(&format!("{program} is not installed"));
            false
        }
    }
}

/// Compiles the Rust program with these flags.
pub(crate) fn rust_program(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    std::fs::write(folder.join("app.rs"), RUST).unwrap();
    let mut arguments = vec!["--edition=2024", "app.rs", "-o", "app", "-Clink-arg=-Wl,--build-id"];
    arguments.extend(flags);
    run("rustc", folder, &arguments).then(|| folder.join("app"))
}

/// Every address of the function with a symbol that is, or else contains, `name`, relative to the image base.
pub(crate) fn addresses_of(file: &Path, name: &str) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let exact = elf.symbols().find(|symbol| symbol.name() == Ok(name));
    let close = || elf.symbols().find(|symbol| symbol.name().is_ok_and(|text| text.contains(name)));
    let symbol = exact.or_else(close).unwrap();
    let base = image_base(&elf);
    (symbol.address()..symbol.address() + symbol.size()).map(|address| address - base).collect()
}

/// Addresses spread over all code.
pub(crate) fn spread(file: &Path, step: usize) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let base = image_base(&elf);
    let code = elf.sections().filter(|section| section.kind() == SectionKind::Text);
    code.flat_map(|section| (section.address()..section.address() + section.size()).step_by(step))
        .map(|address| address - base)
        .collect()
}

fn image_base(elf: &object::File<'_>) -> u64 {
    use object::ObjectSegment;
    elf.segments().map(|segment| segment.address()).min().unwrap_or(0) & !4095
}

/// The build id of a file in hexadecimal.
pub(crate) fn build_id(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    elf.build_id().unwrap().unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A profile with one module and one sample at each address.
pub(crate) fn profile(file: &Path, build_id: Option<&str>, addresses: &[u64]) -> Profile {
    let mut profile = Profile::default();
    let path = profile.strings.push(file.to_str().unwrap());
    let build_id = build_id.map(|id| profile.strings.push(id));
    profile.modules.push(Module {
        path,
        build_id,
        kind: ModuleKind::Program,
        symbols: SymbolState::NotLoaded,
        optimised: Optimised::Unknown,
    });
    let mut samples = Samples::default();
    for &address in addresses {
        let location = profile.locations.push(Some(ModuleId(0)), RelativeAddress(address));
        let stack = profile.stacks.push(None, location);
        samples.push(0, ThreadId(0), stack, 1);
    }
    let name = profile.strings.push(whyslow_profile::Metric::CPU_TIME);
    profile.metrics.push(whyslow_profile::Metric::cpu_time(Default::default()).renamed(name));
    profile.samples.push(samples);
    profile
}

/// No cache, no system folders.
pub(crate) fn options() -> Options {
    Options {
        cache: None,
        files: Vec::new(),
        debug_folders: DebugFolders::default(),
        keep_sources: true,
        keep_code: true,
    }
}

/// The same with folders to search for debug files.
pub(crate) fn with_folders(debug_folders: DebugFolders) -> Options {
    Options { debug_folders, ..options() }
}

/// Name, file name and line of the frames of each location.
pub(crate) fn frames(profile: &Profile) -> Vec<Vec<(String, String, u32)>> {
    (1..profile.locations.len())
        .map(|index| {
            let frames = profile.frames.of(LocationId::from(index)).iter();
            let row = frames.map(|frame| {
                let name = profile.text(profile.functions[frame.function.index()].name).to_owned();
                let file = frame.file.map_or("", |file| profile.text(file));
                (name, file.rsplit('/').next().unwrap_or("").to_owned(), frame.line)
            });
            row.collect()
        })
        .collect()
}

/// Whether some address has `outer`, `middle`, `inner`, in this order and at the right lines.
pub(crate) fn has_chain(profile: &Profile) -> bool {
    frames(profile).iter().any(|frames| {
        let [outer, middle, inner, ..] = frames.as_slice() else { return false };
        outer.0.ends_with("outer")
            && (outer.1.as_str(), outer.2) == ("app.rs", 3)
            && middle.0.ends_with("middle")
            && (middle.1.as_str(), middle.2) == ("app.rs", 9)
            && inner.0.ends_with("inner")
            && inner.1 == "app.rs"
            && (17..=18).contains(&inner.2)
    })
}
