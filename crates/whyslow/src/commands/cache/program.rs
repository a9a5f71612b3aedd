//! What the program's file says before it runs: whether Valgrind can execute it, and the symbols of functions.

use std::path::Path;

use whyslow_asm::{Avx512, Processor};
use whyslow_elf::{DebugFolders, Elf, ElfFile};
use whyslow_symbols::{Wanted, similar_functions, symbols_named};
use whyslow_words::number_of;

use crate::failure::{Failure, Result};

/// How to build without AVX-512.
pub(super) const REBUILD: &str = "building without AVX-512: -C target-cpu=x86-64-v3 (Rust) or -march=x86-64-v3 (C, C++) instead of `native`";

/// A warning if the program seems to be compiled for AVX-512, which Valgrind cannot execute.
pub(super) fn avx512(program: &Path) -> Option<String> {
    /// Decoding more would take longer than a second.
    const MOST: usize = 128 << 20;
    let file = ElfFile::open(program).ok()?;
    let elf = file.parse().ok()?;
    let headers = whyslow_elf::Headers::parse(file.bytes()).ok()?;
    if headers.processor() != Some(Processor::X86_64) {
        return None;
    }
    let code = elf.section(".text");
    let found = Avx512::of(&code[..code.len().min(MOST)]);
    found.is_everywhere().then(|| {
        format!(
            "{} has {} AVX-512 instructions in {} of {}: Valgrind cannot execute them, and the program will probably \
             end with SIGILL; try: {REBUILD}",
            program.display(),
            found.instructions,
            found.pages,
            number_of(found.all_pages, "page of code", "pages of code"),
        )
    })
}

/// The symbols of a function that a user names.
pub(super) fn symbols(program: &Path, name: &str) -> Result<Vec<(String, String)>> {
    /// Callgrind compares each with every function.
    const MOST: usize = 200;
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("--toggle {name}: {}: {error}", program.display()))
            .next("a program, not a script; its functions are looked up in its file")
    };
    let file = ElfFile::open(program).map_err(|error| failed(&error))?;
    let elf = file.parse().map_err(|error| failed(&error))?;
    let is_useful = |elf: &Elf<'_>| elf.has_symbols();
    let debug = DebugFolders::usual().find(program, &elf, is_useful);
    let debug = debug.as_ref().and_then(|debug| debug.parse().ok());
    let wanted = Wanted::new(name);
    let found = symbols_named(&elf, debug.as_ref(), &wanted);
    if found.is_empty() {
        let similar = similar_functions(&elf, debug.as_ref(), &wanted);
        let failure = Failure::new(format!(
            "--toggle {name}: {} has no such function; a function that is inlined everywhere has no code of its own",
            program.display()
        ));
        return Err(match similar.first() {
            Some(similar) => failure.next(format!("--toggle '{similar}'")),
            None if elf.has_symbols() => failure.next("#[inline(never)], or the function that calls it"),
            None => failure.next("a program that is not stripped"),
        });
    }
    if found.len() > MOST {
        return Err(Failure::new(format!("--toggle {name}: {} functions have this name", found.len()))
            .next(format!("a longer name, such as '{}'", found[0].0)));
    }
    Ok(found)
}
