//! `cargo xtask dist`: builds the executables of a package, and removes what only debuggers of whyslow need.
//!
//! The program of `whyslow lab` is inside the executable, and its lines must stay readable. So the symbol table goes,
//! and the debug sections stay, compressed.

use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{cargo, command, must, target_folder};

const PROGRAMS: [&str; 2] = ["whyslow", "cargo-whyslow"];

/// Builds both executables into `target/dist/package`.
pub(crate) fn run() -> Result<bool> {
    must(cargo().args(["build", "--profile", "dist", "--package", "whyslow"]))?;
    let built = target_folder().join("dist");
    let package = built.join("package");
    std::fs::create_dir_all(&package).with_context(|| format!("cannot create {}", package.display()))?;
    for program in PROGRAMS {
        let packed = package.join(program);
        must(
            command("objcopy")
                .args(["--strip-all", "--keep-section=.debug_*", "--compress-debug-sections=zlib"])
                .args([&built.join(program), &packed]),
        )?;
        let (before, after) = (mib(&built.join(program))?, mib(&packed)?);
        println!("{}  {after:.1} MiB ({before:.1} MiB with symbols)", packed.display());
    }
    Ok(true)
}

fn mib(file: &Path) -> Result<f64> {
    let metadata = std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(metadata.len() as f64 / f64::from(1 << 20))
}
